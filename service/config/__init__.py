"""The configuration: what may be set, where it was set, and what is wrong with it."""
