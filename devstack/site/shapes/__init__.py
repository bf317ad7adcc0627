"""How couriers are asked and how they answer: what all shapes share, and the feed's own.

A shape is a module with one pure function `read(asked) -> Reply | None`: what the courier at this
address would say, None where it has no such address. Bodies are made up after the documented
schemas. A courier's shape stands with its tests; `devstack.site.found` finds them.
"""
