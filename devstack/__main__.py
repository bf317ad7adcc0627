"""Run beanstalkd, Redis, MongoDB and a courier site on loopback until Ctrl-C.

They start with empty stores on free ports and leave nothing behind. Servers that run already are
used instead where DEVSTACK_BEANSTALKD, DEVSTACK_REDIS or DEVSTACK_MONGODB hold their address.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import signal
import sys
import threading
from contextlib import ExitStack
from pathlib import Path
from queue import SimpleQueue

from devstack import launch
from devstack.errors import StackError
from devstack.folder import DISK, private_folder
from devstack.site.remote import CourierSite
from devstack.stack import Stack, environment


def main() -> int:
    """Start everything, say where it is, wait for a signal; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m devstack",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", action="store_true", help="print one line of JSON instead")
    parser.add_argument(
        "--until-eof", action="store_true", help="stop as well when standard input is closed"
    )
    parser.add_argument(
        "--end-with", type=int, metavar="PID", help="stop as well when PID, the starter, is gone"
    )
    asked = parser.parse_args()
    stop = _stop_signals()
    if asked.end_with and not launch.tie(asked.end_with, signal.SIGTERM):
        return 1
    if asked.until_eof:
        threading.Thread(target=_stop_at_eof, args=(stop,), daemon=True).start()
    try:
        with ExitStack() as closing:
            disk = closing.enter_context(private_folder(DISK))
            site = closing.enter_context(CourierSite.start())
            stack = closing.enter_context(Stack.start())
            sys.stdout.write(_as_json(stack, site, disk) if asked.json else _as_text(stack, site))
            sys.stdout.flush()
            stop.get()
    except StackError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def _stop_signals() -> SimpleQueue[None]:
    """Turn the signals into entries of a queue, so that none cuts a start or a stop in half.

    An event would not do: to set it while the same thread begins to wait for it is a deadlock.
    """
    stop = SimpleQueue[None]()
    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # `nohup` asks to outlive a terminal
        numbers.append(signal.SIGHUP)
    for number in numbers:
        signal.signal(number, lambda *_: stop.put(None))
    return stop


def _stop_at_eof(stop: SimpleQueue[None]) -> None:
    """Stop when the process at the other end of standard input is gone, killed or not."""
    while os.read(sys.stdin.fileno(), 4096):
        pass
    stop.put(None)


def _as_json(stack: Stack, site: CourierSite, disk: Path) -> str:
    servers = {
        server.name: {
            "url": server.url,
            "host": server.host,
            "port": server.port,
            "pid": server.pid,
            "backing": server.backing,
        }
        for server in stack.servers
    }
    shown = {**servers, "site": {"url": site.url, "port": site.port}}
    rest = {"environment": environment(stack), "disk": str(disk)}
    return json.dumps({**shown, **rest}) + "\n"


def _as_text(stack: Stack, site: CourierSite) -> str:
    rows = [(server.name, server.url, server.backing) for server in stack.servers]
    rows.append(("couriers", site.url, "made-up couriers; /_calls/summary tells what they saw"))
    width = max(len(url) for _, url, _ in rows)
    lines = [f"{name:<11} {url:<{width}}  {backing}" for name, url, backing in rows]
    exports = [f"export {name}={shlex.quote(text)}" for name, text in environment(stack).items()]
    return "\n".join([*lines, "", *exports, "", "Ctrl-C stops all of them.", ""])


if __name__ == "__main__":
    sys.exit(main())
