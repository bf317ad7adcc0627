"""From a reserved job to its outcome. Read `handle.py` first."""
