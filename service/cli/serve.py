"""`ingest` and `api`: HTTP until a signal."""

from __future__ import annotations

import argparse
import os

from service.api.serve import NoKey, serve
from service.cli.exit_codes import Exit, UsageError
from service.cli.settings import HOME, loaded, log_lines
from service.client.spool import unfit
from service.observe.log import set_up
from service.supervisor.lifeline import end_with
from tracking.errors import ResultsDown


def run(options: argparse.Namespace) -> int:
    """Serve what the verb names; 0 after a clean stop, 1 after one by itself."""
    if options.end_with:
        end_with(options.end_with)
    setting = loaded(options)
    config = setting.config
    listen = {"ingest": config.ingest.listen, "api": config.api.listen}[options.verb]
    beside = setting.file.resolve().parent if setting.file else HOME
    if why := unfit(beside / config.ingest.spool):
        raise UsageError(f"ingest.spool: {why}")
    set_up(config.log.level, log_lines(setting))
    try:
        fit = serve(config, listen, beside, door_alone=options.verb == "ingest")
    except (NoKey, ResultsDown) as error:
        told = f'{options.verb}.listen = "{listen}" can be reached from other machines, and'
        if isinstance(error, ResultsDown):
            raise ResultsDown(
                f"{told} nobody knows who may ask: {error.message}", error.fix
            ) from error
        raise UsageError(
            f"{told} there is no key that tells who may ask: make one, `python worker.py key add "
            "main --scope ingest`, or listen on 127.0.0.1"
        ) from error
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else str(error)
        raise UsageError(
            f"{options.verb}.listen: cannot listen at {listen} ({why}). Stop what listens "
            "there, or set another address"
        ) from error
    return Exit.DONE if fit else Exit.NEGATIVE
