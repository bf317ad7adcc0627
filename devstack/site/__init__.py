"""A site that plays couriers, fails on demand, and records when every call came and went."""
