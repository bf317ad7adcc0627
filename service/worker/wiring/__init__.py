"""Builds processes of their parts and runs them: the only place that knows all concrete classes."""
