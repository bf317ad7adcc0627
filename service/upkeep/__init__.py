"""What runs without being asked: the sweeper, re-checks, and the checks at start."""
