"""What a person sees of `info` and `doctor`: on a terminal, of one courier, of a silent server."""

from __future__ import annotations

import io
import os
import pty
import select
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
import redis
from command_line import Run
from rich.console import Console

from limits import connect
from service.cli.drawing import drawn
from service.client.health import findings_here
from service.config.load import load

ROOT = Path(__file__).parents[2]


def test_info_tells_of_one_courier_alone(run: Run, store: redis.Redis) -> None:
    for slug in ("usps", "ups", "gone"):
        store.rpush(f"wait_list:{slug}", "94000001")
        store.sadd("wait_slugs", slug)
    done = run("info", "usps")
    assert "usps" in done.out
    assert "\nups" not in done.out
    (look,) = run("info", "usps", "--json").json
    assert [each["slug"] for each in look["couriers"]] == ["usps"]
    (look,) = run("info", "gone", "--json").json
    assert [each["bound_by"] for each in look["couriers"]] == ["not_configured"]
    assert run("info", "fedex").lines[2] == "nothing runs, nothing waits, nothing was asked yet"
    refused = run("info", "usp")
    assert refused.code == 2
    assert "did you mean usps?" in refused.err


def test_a_redis_that_is_silent_is_waited_for_once(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connect, "TIMEOUT_SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        monkeypatch.setenv("TRACKER_REDIS__URL", f"redis://127.0.0.1:{port}/0")

        done = run("show", "--id", "x")

        assert done.code == 3
        assert "Redis does not answer (no answer in time)" in done.err
        silent.setblocking(False)  # noqa: FBT003 - its only parameter
        asked = 0
        with suppress(BlockingIOError):
            while True:
                silent.accept()[0].close()
                asked += 1
    assert asked == 1


def test_a_narrow_terminal_cuts_nothing() -> None:
    shown = io.StringIO()
    table = drawn(("courier", "bound by"), [["my-courier", "no_worker"]])
    Console(file=shown, width=12).print(table)
    assert "…" not in shown.getvalue()
    letters = "".join(line[6:] for line in shown.getvalue().splitlines()).replace(" ", "")
    assert letters.endswith("no_worker")


@pytest.mark.parametrize("term", ["xterm", "dumb"])
def test_info_is_shown_again_and_again_also_on_a_dumb_terminal(
    addresses: dict[str, str], term: str
) -> None:
    ours, theirs = pty.openpty()
    shown = b""
    with subprocess.Popen(
        [sys.executable, "worker.py", "info", "--watch", "0.2"],
        cwd=ROOT,
        env={**os.environ, **addresses, "TERM": term, "NO_COLOR": "1"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    ) as watching:
        os.close(theirs)
        while shown.count(b"nothing was asked yet" if term == "dumb" else b"bound by") < 2:
            assert select.select([ours], [], [], 10.0)[0], shown
            shown += os.read(ours, 65_536)
        watching.send_signal(signal.SIGINT)
        assert watching.wait(10.0) == 130
    os.close(ours)
    assert (b"\x1b" in shown) is (term == "xterm")


@pytest.mark.parametrize(
    ("text", "mode", "warnings"),
    [
        ('[redis]\nsentinel_password = ""\nurl = "redis://127.0.0.1:1/0"\n', 0o644, 0),
        ('[redis]\nurl = "redis://:pass-word@127.0.0.1:1/0"\n', 0o644, 1),
        ('[couriers.usps]\nclient_id = "abcd"\n', 0o644, 1),
        ('[couriers.usps]\nclient_id = "abcd"\n', 0o640, 0),
    ],
)
def test_doctor_warns_of_secrets_in_a_file_that_everybody_may_read(
    tmp_path: Path, text: str, mode: int, warnings: int
) -> None:
    file = tmp_path / "config.toml"
    file.write_text(text)
    file.chmod(mode)
    setting = load(str(file), {}, tmp_path)
    told = [each.fix for each in findings_here(setting) if "everybody may read" in each.what]
    assert [f"chmod o-r {file}" in fix for fix in told] == [True] * warnings
