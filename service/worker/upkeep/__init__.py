"""Upkeep: tasks that run unasked, as the sweeper, re-checks, the archiver and the purge."""
