"""What Redis decides: permits, waiting, drain, operations. Every Redis key and script."""
