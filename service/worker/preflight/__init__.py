"""The preflight probes what servers say of themselves, and judges whether a worker may use them."""
