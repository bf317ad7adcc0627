"""`run`: a parent and its processes, a worker (`--child`), or the one that archives."""

from __future__ import annotations

import argparse
import importlib
import sys

from service.cli.settings import HOME, installation, loaded, log_lines
from service.config.address import host_and_port
from service.config.load import Loaded
from service.config.per_slug import silence_seconds
from service.observe.counts import Counts, Key
from service.observe.metrics import BEATING, PROCESSES
from service.observe.writer import emitter
from service.supervisor.lifeline import Lifeline, end_with
from service.supervisor.parent import STOP_MARGIN_SECONDS, Parent, Plan


def run(options: argparse.Namespace) -> int:
    """Run until a signal; 0 after a clean stop."""
    setting = loaded(options)
    if options.child is not None:
        return _child(setting, options.child, "service.wiring.worker")
    if options.archiver is not None:
        return _child(setting, options.archiver, "service.wiring.process")
    if options.end_with:
        end_with(options.end_with)
    config = setting.config
    command = [sys.executable, str(HOME / "worker.py")]
    if setting.file:
        command += ["--config", str(setting.file)]
    plan = Plan(
        command=[*command, "run", "--child"],
        archiver=[*command, "run", "--archiver"],
        processes=config.worker.processes,
        silence=silence_seconds(config),
        grace=config.worker.grace_seconds,
        installation=installation(options),
    )
    counts = Counts()
    emit = emitter(config.log.level, log_lines(setting), counts.of_events())
    parent = Parent(plan, emit, counts)
    if config.metrics.listen:
        # By name, so that who wants no metrics does not wait for the library.
        exposition = importlib.import_module("service.observe.exposition")
        listen = host_and_port(config.metrics.listen)
        exposition.serve(listen, counts, lambda: _standing(parent), emit)
    return parent.run()


def _standing(parent: Parent) -> dict[Key, float]:
    pulse = parent.pulse()
    return {(PROCESSES.name,): pulse.processes, (BEATING.name,): pulse.beating}


def _child(setting: Loaded, descriptor: int, life: str) -> int:
    """Run the process that the module `life` describes; `descriptor`: for its signs of life."""
    stop_seconds = setting.config.worker.grace_seconds + STOP_MARGIN_SECONDS
    counts = Counts()
    lifeline = Lifeline(descriptor, stop_seconds, counts)
    # By name, as the parent runs this module too and must not import what a worker needs.
    log = importlib.import_module("service.observe.log")
    counting = counts.of_events() if setting.config.metrics.listen else {}
    log.set_up(setting.config.log.level, log_lines(setting), counting)
    code: int = importlib.import_module(life).run(setting.config, lifeline.beat)
    lifeline.beat()
    return code
