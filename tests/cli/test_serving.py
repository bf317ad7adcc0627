"""`ingest` and `api`: what keeps a door from opening is said in a line, with the fix."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from command_line import Run

from service.api import serve as serve_module
from service.config.address import is_loopback

EACH = pytest.mark.parametrize("verb", ["ingest", "api"])


EVERYWHERE = "0.0.0.0:8081"


@EACH
def test_without_keys_a_door_opens_for_this_machine_only(
    run: Run, monkeypatch: pytest.MonkeyPatch, disk: Path, verb: str
) -> None:
    monkeypatch.setenv(f"TRACKER_{verb.upper()}__LISTEN", EVERYWHERE)
    monkeypatch.setenv("TRACKER_INGEST__SPOOL", str(disk / "spool.sqlite"))
    monkeypatch.setenv("TRACKER_INGEST__KEYS", str(disk / "keys.json"))

    done = run(verb)

    assert done.code == 2
    assert f"{verb}.listen" in done.err
    assert "key add main" in done.err
    assert "127.0.0.1" in done.err
    assert len(done.err.splitlines()) == 1


def test_while_nobody_knows_whether_there_is_a_key_a_door_opens_for_nobody_else(
    offline: Run, monkeypatch: pytest.MonkeyPatch, disk: Path
) -> None:
    monkeypatch.setenv("TRACKER_INGEST__LISTEN", EVERYWHERE)
    monkeypatch.setenv("TRACKER_INGEST__SPOOL", str(disk / "spool.sqlite"))
    monkeypatch.setenv("TRACKER_INGEST__KEYS", str(disk / "keys.json"))

    done = offline("ingest")

    assert done.code == 3
    assert "ingest.listen" in done.err
    assert "MongoDB" in done.err


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "example.com", "[::]"])  # noqa: S104 - not bound
def test_only_addresses_of_this_machine_are_its_own(host: str) -> None:
    assert not is_loopback(f"{host}:8081")
    assert is_loopback("127.0.0.1:8081")


@EACH
def test_a_spool_in_memory_is_refused(
    offline: Run, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    monkeypatch.setenv("TRACKER_INGEST__SPOOL", "/dev/shm/spool.sqlite")  # noqa: S108 - refused

    done = offline(verb)

    assert done.code == 2
    assert "ingest.spool" in done.err
    assert "on a disk" in done.err


def test_a_spool_lies_beside_the_configuration(
    offline: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("TRACKER_INGEST__SPOOL")
    file = tmp_path / "config.toml"
    file.write_text('[ingest]\nspool = "missing/spool.sqlite"\n')

    done = offline("--config", str(file), "ingest")

    assert done.code == 2
    assert f"{tmp_path.resolve()}/missing" in done.err


def test_an_address_that_somebody_has_is_told(
    offline: Run, monkeypatch: pytest.MonkeyPatch, disk: Path
) -> None:
    monkeypatch.setenv("TRACKER_INGEST__SPOOL", str(disk / "spool.sqlite"))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        monkeypatch.setenv("TRACKER_INGEST__LISTEN", address)

        done = offline("ingest")

    assert done.code == 2
    assert done.lines == []
    assert done.err == (
        f"worker.py: ingest.listen: cannot listen at {address} (Address already in use). "
        "Stop what listens there, or set another address\n"
    )


@pytest.mark.parametrize("listen", ["8081", "127.0.0.1", "127.0.0.1:0", "http://127.0.0.1:8081"])
def test_a_listen_that_is_no_address_stops_every_verb(
    offline: Run, monkeypatch: pytest.MonkeyPatch, listen: str
) -> None:
    monkeypatch.setenv("TRACKER_API__LISTEN", listen)

    done = offline("config", "show")

    assert done.code == 2
    assert "api.listen" in done.err


@EACH
def test_ingest_is_the_door_alone(
    offline: Run, monkeypatch: pytest.MonkeyPatch, disk: Path, verb: str
) -> None:
    monkeypatch.setenv("TRACKER_INGEST__SPOOL", str(disk / "spool.sqlite"))
    given: dict[str, bool] = {}
    monkeypatch.setattr(serve_module, "serve", lambda *_, **options: given.update(options) or True)

    assert offline(verb).code == 0

    assert given == {"door_alone": verb == "ingest"}


@EACH
def test_one_that_stops_by_itself_ends_with_1(
    offline: Run, monkeypatch: pytest.MonkeyPatch, disk: Path, verb: str
) -> None:
    """So that its service manager starts another."""
    monkeypatch.setenv("TRACKER_INGEST__SPOOL", str(disk / "spool.sqlite"))
    monkeypatch.setattr(serve_module, "serve", lambda *_, **__: False)

    assert offline(verb).code == 1
