"""Mutants: the code with one invariant broken on purpose, for the suite to catch.

Run by `make mutants`. `mutant` is one small replacement, `catalogue` holds all of them, `serving`
lets a process see the replaced text (no file is changed), `trial` runs a mutant's tests and judges
them.
"""
