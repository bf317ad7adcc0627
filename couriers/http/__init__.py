"""Asking couriers: addresses, tokens, permits, refusals; no request leaves another way."""
