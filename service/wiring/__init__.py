"""Builds a worker out of its parts and runs it: the only place that knows all concrete classes."""

from service.wiring.run import run_worker

__all__ = ["run_worker"]
