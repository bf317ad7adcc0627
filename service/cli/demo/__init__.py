"""`demo`: the worker at work on this machine, with made-up couriers and a proof at the end."""

from __future__ import annotations

from service.cli.arguments import Options, Parser, add_end_with
from service.cli.demo import performance


def demo_arguments(parser: Parser) -> None:
    """Add the arguments of `demo`."""
    add_end_with(parser)
    parser.set_defaults(run=run)


def run(options: Options) -> int:
    """Run the demo; 1 when a figure is not what was promised."""
    return performance.run(options)
