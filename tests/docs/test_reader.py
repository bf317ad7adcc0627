"""What pages have their readers type is typed, block by block, and does what it says.

Of README, docs/http.md and examples/README.md each block of `sh` is typed into a shell as it is
printed; docs/cli.md's are run in this process, as its hundred commands would take a minute to
start. A block that is not typed has a mark above it, with who runs it or why nobody does:
`<!-- run by tests/… -->`, `<!-- run by nobody: why -->`.
"""

from __future__ import annotations

import datetime as dt
import io
import json
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pymongo
import pytest
from reader import PAGES, ROOT, Block, blocks, clone, commands, settings_of

from devstack.servers import Server
from devstack.site.remote import CourierSite
from service.console import main
from service.console.arguments import Exit
from service.console.examples import USAGES
from service.operator.service_wishes import new_sealing_key

NUMBER = "9405903699300184125060"
SOME_KEY = "tk_0123456789ab"


def is_keyed(block: Block) -> bool:
    """Whether it makes a key, or needs what a block did that makes one."""
    return "$KEY" in block.text or "tracker account" in block.text or "key add" in block.text


@pytest.fixture
def addresses(beanstalkd: Server, redis_url: str, mongo_uri: str, database: str) -> dict[str, str]:
    return {
        "TRACKER_BEANSTALKD__SERVERS": f'["{beanstalkd.url}"]',
        "TRACKER_REDIS__URL": redis_url,
        "TRACKER_MONGODB__URI": mongo_uri,
        "TRACKER_MONGODB__DATABASE": database,
    }


@pytest.mark.prove
def test_each_block_is_typed_and_does_what_it_says(
    addresses: dict[str, str], site: CourierSite, disk: Path
) -> None:
    typed = [each for page in PAGES for each in blocks(page) if not each.mark]
    done = 0
    with clone(disk, settings_of(addresses, site.url)) as shell:
        # As soon as there is a key, each request needs one.
        for block in sorted(typed, key=is_keyed):
            for command, statuses in commands(block.text):
                code, printed = shell.type(command)

                answered = shell.statuses()
                assert code == 0, f"{command}{printed}"
                assert bool(answered) is command.startswith("curl"), command
                assert all(each in (statuses or {"200", "202"}) for each in answered), (
                    f"{command}{answered} {printed}"
                )
                done += 1
                if "--signature hmac" in command:
                    key, secret = re.findall(r"(\S+)$", printed.strip(), re.MULTILINE)[-2:]
                    shell.type(f"KEY={key} SECRET={secret}; sleep 6")  # doors read keys each 5 s
    assert done > 40


def dead(name: str, reason: str) -> dict[str, Any]:
    """A record of a request that got no answer."""
    job = {"type": "requests_flow", "payload": {"slug": "usps", "number": "94001", "id": name}}
    members = {"_id": name, "slug": "usps", "number": "94001", "operations": [name]}
    why = {"reason": reason, "detail": "", "body": json.dumps(job), "at": dt.datetime.now(dt.UTC)}
    return {**members, **why, "server": None, "job": None}


def expected(line: str) -> set[int]:
    """Give the exit codes with which a command ends well: 1 where its `--help` says of what."""
    if "mail" in line or "--first" in line:
        return {Exit.WRONG}  # no server takes mails here, and there are users
    words = line.split()[1:]
    usage = USAGES.get(" ".join(words[:2])) or USAGES[words[0]]
    return {Exit.DONE, *([Exit.NEGATIVE] if usage.negative else [])}


def typed_of(page: str) -> list[str]:
    """The commands of a page, those behind all others that take away what others look at."""
    text = "\n".join(each.text for each in blocks(page) if not each.mark)
    lines = [line for line in text.splitlines() if "--watch" not in line]  # which goes on
    return sorted(lines, key=lambda line: bool(re.search(" (remove|forget|purge) ", line)))


@pytest.mark.prove
def test_each_command_line_is_run_and_ends_well(
    addresses: dict[str, str],
    site: CourierSite,
    disk: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    settings = settings_of(addresses, site.url) | {"TRACKER_WEBHOOKS__KEYS": new_sealing_key()}
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(disk)
    codes: dict[str, int] = {}
    told: dict[str, str] = {}
    client: pymongo.MongoClient[dict[str, Any]]
    with clone(disk, settings), pymongo.MongoClient(settings["MONGODB_URI"]) as client:
        assert main(["put", "usps", NUMBER, "--id", "order-1042", "--wait", "30s"]) == 0
        assert main(["key", "add", "main", "--scope", "read"]) == 0
        for name in ("ann@example.com", "ben@example.com"):
            assert main(["user", "add", name, "--role", "owner"]) == 0
        assert main(["service", "add", "shopify", "https://shop.example/"]) == 0
        bucket = client[settings["MONGODB_DATABASE"]]
        records = {"RECORD": "rejected", "a": "courier_down", "b": "bad_number"}
        bucket.dead.insert_many(dead(name, reason) for name, reason in records.items())
        for line in typed_of("docs/cli.md"):
            keys = list(bucket.keys.find({"account": "main", "ends_at": None}))
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
            words = shlex.split(line.replace(SOME_KEY, keys[-1]["_id"] if keys else ""))
            try:
                codes[line] = main(words[1:])
            except SystemExit as ended:
                codes[line] = int(ended.code or 0)
            told[line] = "".join(capfd.readouterr())
    unwell = {line: told[line] for line, code in codes.items() if code not in expected(line)}
    assert unwell == {}, unwell


@pytest.mark.parametrize("name", [*PAGES, "docs/cli.md"])
def test_each_block_is_of_commands_or_says_who_reads_it(name: str) -> None:
    typed = "text" if name == "docs/cli.md" else "sh"

    assert [each for each in blocks(name) if each.language != typed and not each.mark] == []


def test_what_is_said_to_run_a_block_is_there() -> None:
    named = {each.mark for page in PAGES for each in blocks(page)}

    tests = sorted(each for each in named if each.startswith("tests/"))
    assert [each for each in tests if not (ROOT / each).exists()] == []


def test_a_command_is_read_with_its_lines_and_the_statuses_behind_it() -> None:
    block = "curl a \\\n  -d '{\n}'\n# 202 {}\n\ncurl b   # 204\ntracker put"

    assert list(commands(block)) == [
        ("curl a \\\n  -d '{\n}'\n", {"202"}),
        ("curl b   # 204\n", {"204"}),
        ("tracker put\n", set()),
    ]
