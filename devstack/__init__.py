"""Real servers and a courier site on loopback, for the demo, the tests and the benchmarks.

Imports only `tracking`. Never part of production, never in the image.
"""
