"""`run`, `ingest` and `api`: processes that live until a signal. And `demo`, which runs them.

`run` is a parent and its processes, a worker (`--child`), or the one that archives (`--archiver`).
"""

from __future__ import annotations

import argparse
import importlib
import os
import socket
import sys

from service import PROGRAM
from service.config import address, load, machine, schema
from service.console import settings
from service.console.arguments import Exit, Options, Parser, UsageError, add_end_with
from service.console.demo import performance
from service.http import serve
from service.observe import counts, log, metrics
from service.operator import spool
from service.worker.supervisor import lifeline, parent
from tracking.errors import ResultsDown


def run_arguments(parser: Parser) -> None:
    """Add the arguments of `run`."""
    parser.add_argument("--child", type=int, metavar="DESCRIPTOR", help=argparse.SUPPRESS)
    parser.add_argument("--archiver", type=int, metavar="DESCRIPTOR", help=argparse.SUPPRESS)
    add_end_with(parser)


def run_run(options: Options) -> int:
    """Run until a signal; 0 after a clean stop."""
    setting = settings.loaded(options)
    if options.child is not None:
        return _run_child(setting, options.child, "service.worker.wiring.worker")
    if options.archiver is not None:
        return _run_child(setting, options.archiver, "service.worker.wiring.process")
    if options.end_with:
        lifeline.end_with(options.end_with)
    config = setting.config
    command = [sys.executable, str(settings.HOME / "worker.py")]
    if setting.file:
        command += ["--config", str(setting.file)]
    plan = parent.Plan(
        command=[*command, "run", "--child"],
        archiver=[*command, "run", "--archiver"],
        processes=config.worker.processes,
        silence=schema.silence_seconds(config),
        grace=config.worker.grace_seconds,
        installation=settings.installation(options),
    )
    counted = counts.Counts()
    emit = log.emitter(config.log.level, log_lines(setting), counted.of_events())
    made = parent.Parent(plan, emit, counted)
    if config.metrics.listen:
        # By name, so that who wants no metrics does not wait for the library.
        exposition = importlib.import_module("service.observe.exposition")
        listen = address.host_and_port(config.metrics.listen)
        exposition.serve(listen, counted, lambda: _processes(made), emit)
    return made.run()


def log_lines(setting: load.Loaded) -> log.Lines:
    """Say how the lines of this process are written."""
    worker = f"{socket.gethostname()}:{os.getpid()}"
    return log.lines(setting.config.log.format, address.secrets_of(setting.config), worker=worker)


def _processes(of: parent.Parent) -> dict[counts.Key, float]:
    pulse = of.pulse()
    return {(metrics.PROCESSES.name,): pulse.processes, (metrics.BEATING.name,): pulse.beating}


def _run_child(setting: load.Loaded, descriptor: int, life: str) -> int:
    """Run the process that the module `life` describes; `descriptor`: for its signs of life."""
    stop_seconds = setting.config.worker.grace_seconds + parent.STOP_MARGIN_SECONDS
    counted = counts.Counts()
    tie = lifeline.Lifeline(descriptor, stop_seconds, counted)
    counting = counted.of_events() if setting.config.metrics.listen else {}
    log.set_up(setting.config.log.level, log_lines(setting), counting)
    machine.calm_the_collector()
    # By name, as the parent runs this module too and must not import what a worker needs.
    code: int = importlib.import_module(life).run(setting.config, tie.beat)
    tie.beat()
    return code


def run_api(options: Options) -> int:
    """Serve what the verb names; 0 after a clean stop, 1 after one by itself."""
    if options.end_with:
        lifeline.end_with(options.end_with)
    setting, verb = settings.loaded(options), options.verb
    config = setting.config
    listen = {"ingest": config.ingest.listen, "api": config.api.listen}[verb]
    beside = setting.file.resolve().parent if setting.file else settings.HOME
    if why := spool.unfit(beside / config.ingest.spool):
        raise UsageError(f"ingest.spool: {why}")
    log.set_up(config.log.level, log_lines(setting))
    machine.calm_the_collector()
    try:
        fit = serve.serve(
            config, listen, beside, door_alone=verb == "ingest", pages=_pages(setting)
        )
    except (serve.NoKey, ResultsDown) as error:
        reached = f'{verb}.listen = "{listen}" can be reached from other machines, and'
        if isinstance(error, ResultsDown):
            raise ResultsDown(
                f"{reached} nobody knows who may ask: {error.message}", error.fix
            ) from error
        raise UsageError(
            f"{reached} there is no key that tells who may ask: make one, `{PROGRAM} key "
            "add main --scope ingest`, or listen on 127.0.0.1"
        ) from error
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else str(error)
        raise UsageError(
            f"{verb}.listen: cannot listen at {listen} ({why}). Stop what listens there, or set "
            "another address"
        ) from error
    return Exit.DONE if fit else Exit.NEGATIVE


def _pages(setting: load.Loaded) -> serve.Pages | None:
    """Find what opens the pages, where they are wanted; by name, as `ingest` needs none of it."""
    pages = importlib.import_module("service.web.pages")
    config = setting.config
    return pages.open_pages if pages.wanted(config, config.api.listen) else None


def run_demo(options: Options) -> int:
    """Run the demo; 1 when a figure is not what was promised."""
    return performance.run(options)


def demo_arguments(parser: Parser) -> None:
    """Add the arguments of `demo`."""
    text = "stay up, with requests that go on, until Ctrl-C"
    parser.add_argument("--open", action="store_true", help=text)
    add_end_with(parser)


ingest_arguments = api_arguments = add_end_with
run_ingest = run_api
