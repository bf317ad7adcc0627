"""Every `curl` command of docs/http.md, typed as it stands there, has the status that it says."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from aiohttp import ClientTimeout
from door_ground import USPS, Client
from limits_bench import Worker
from operations_ground import Database
from test_parcels_over_http import DOCUMENT
from yarl import URL

PAGE = Path(__file__).parents[2] / "docs" / "http.md"
LINES = b'{"slug": "usps", "number": "9405903699300184125060"}\n{"slug": "usps", "number": "A"}\n'
KEYED = "$KEY"
"""What has a key is typed where there is one: here is none."""


def commands(page: str) -> Iterator[tuple[list[str], str]]:
    """The words of each command, and the status that its comment says; "2" where it says none."""
    for block in re.findall(r"```sh\n(.+?)```", page, re.DOTALL):
        text = block.replace("\\\n", " ")
        for command, comment in re.findall(r"^(curl .+)\n?((?:#.*\n)?)", text, re.MULTILINE):
            says = re.search(r"# (?:… )?(\d{3})\b", f"{command} {comment}")
            words = shlex.split(command, comments=True)
            if not any(KEYED in word for word in words):
                end = words.index("|") if "|" in words else None
                yield words[:end], says[1] if says else "2"


async def answered(api: Client, words: list[str]) -> tuple[int, str]:
    """Send what curl would send. Of a stream that does not end the beginning is enough."""
    method, headers, body, url = "", {}, None, ""
    options = iter(words[1:])
    for word in options:
        match word:
            case "-s" | "-sN":
                pass
            case "-X":
                method = next(options)
            case "-H":
                name, _, value = next(options).partition(": ")
                headers[name] = value
            case "-d":
                body = next(options).encode()
            case "--data-binary":
                assert next(options) == "@requests.ndjson"
                body = LINES
            case _:
                assert not url, f"{word} of {words} is not understood"
                url = word
    path = URL(re.sub(r"^http://127\.0\.0\.1:808[01]", "", url), encoded=True)
    method = method or ("GET" if body is None else "POST")
    patience = ClientTimeout(total=10.0)
    async with api.request(method, path, data=body, headers=headers, timeout=patience) as reply:
        return reply.status, "" if "/events" in url else await reply.text()


async def test_every_curl_command_is_answered_as_the_page_says(
    whole: Client, worker: Worker, collections: Database
) -> None:
    collections.tracking.insert_one(DOCUMENT)
    # The operation of the page waits, behind a call that takes the only place.
    await worker.granted("BUSY")
    await worker.parked(USPS["number"], id="order-4711")
    typed = 0
    secret = link = ""
    for words, status in commands(PAGE.read_text("utf-8")):
        # What the page shortens, and what would hold a reply for a minute.
        line = [
            word.replace("9f86…", secret).replace("6923…", link).replace("wait=60", "wait=0.1")
            for word in words
        ]

        found, text = await answered(whole, line)

        assert str(found).startswith(status), f"{shlex.join(line)}: {text}"
        typed += 1
        if made := re.search(r'"id":"(\w+)","url":"[^"]+/start/(\w+)"', text):
            link, secret = made.groups()
    assert typed > 20
