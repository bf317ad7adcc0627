"""`ingest` and `api`: HTTP until a signal."""

from __future__ import annotations

import argparse

from service.api.serve import serve
from service.cli.exit_codes import Exit, UsageError
from service.cli.settings import HOME, loaded, log_lines
from service.client.spool import unfit
from service.config.address import is_loopback
from service.observe.log import set_up


def run(options: argparse.Namespace) -> int:
    """Serve what the verb names; 0 after a clean stop."""
    setting = loaded(options)
    config = setting.config
    listen = {"ingest": config.ingest.listen, "api": config.api.listen}[options.verb]
    if not is_loopback(listen):
        raise UsageError(
            f'{options.verb}.listen = "{listen}" can be reached from other machines, and there are '
            "no keys yet that tell who may ask: listen on 127.0.0.1, behind a proxy that asks for "
            "a password"
        )
    beside = setting.file.resolve().parent if setting.file else HOME
    spool = beside / config.ingest.spool
    if why := unfit(spool):
        raise UsageError(f"ingest.spool: {why}")
    set_up(config.log.level, log_lines(setting))
    try:
        serve(config, listen, spool)
    except OSError as error:
        raise UsageError(
            f"{options.verb}.listen: nobody can listen at {listen} ({error.strerror})"
        ) from error
    return Exit.DONE
