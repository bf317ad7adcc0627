"""Fault runs: real workers on real servers, a seeded nemesis, and a judge that trusts neither.

Run by `make chaos`. Modules, in the order of a run: `scale` (how large), `plan` (which fault
when), `arena` (everything that runs), `wishes` and `producer` (what is asked for), `nemesis` and
`faults` (what is broken), `sampler` (what Redis showed meanwhile), `quiet` (until nothing moves),
`evidence`, `verdict` and `measures` (what came of it), `report` and `timeline`. Where webhooks are
delivered, `hooks` makes their services and waits for their end, and `deliveries` judges them.
"""
