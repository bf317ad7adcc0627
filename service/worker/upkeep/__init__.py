"""What runs without being asked: the sweeper and re-checks."""
