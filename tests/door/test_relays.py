"""Foreign requests: which are taken, what is kept of them, and what their senders are answered."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from door_ground import Client
from relay_ground import (
    DOMAIN,
    FORGED,
    LABEL,
    OWN,
    PATH,
    Answer,
    Sender,
    relay,
    relayed,
    written,
)

from devstack.servers import Server
from service.http import ingest as ingest_module
from service.worker.deliveries.foreign_request import BODY_MOST, HEAD_MOST

HOST = f"{LABEL}.{DOMAIN}"


@pytest.fixture
async def sender(disk: Path, beanstalkd: Server) -> AsyncIterator[Sender]:
    async with relay(disk / "spool.sqlite", beanstalkd) as made:
        yield made


@pytest.mark.parametrize(
    ("target", "host", "kept"),
    [
        (PATH, "127.0.0.1", "/"),
        (f"{PATH}/", "127.0.0.1:8081", "/"),
        (f"{PATH}?a=1", "any.example", "/?a=1"),
        (f"{PATH}/a/b%2F?x=%2e%2e&y", "any.example", "/a/b%2F?x=%2e%2e&y"),
        (PATH.replace(LABEL, LABEL.upper()), "any.example", "/"),
        ("/", HOST, "/"),
        ("/v1/requests", HOST, "/v1/requests"),
        ("/livez", HOST.upper() + ":443", "/livez"),
        (f"{PATH}/x", HOST, f"{PATH}/x"),
        ("//a//b/", HOST, "//a//b/"),
        ('/caf%C3%A9%ff/"<>^`{|}?', HOST, '/caf%C3%A9%ff/"<>^`{|}?'),
        (
            f"{PATH}/caf\xc3\xa9?q=\xe2\x82\xac\xff",
            "any.example",
            "/caf\xc3\xa9?q=\xe2\x82\xac\xff",
        ),
    ],
)
async def test_a_request_comes_in_by_a_host_or_by_a_path(
    sender: Sender, beanstalkd: Server, target: str, host: str, kept: str
) -> None:
    answer = await sender.posts(target, b"{}", Host=host)

    [found] = relayed(beanstalkd)
    assert (answer.status, answer.body) == (202, b"")
    assert (str(found.label), found.target, found.body) == (LABEL, kept, b"{}")
    assert found.url == f"https://{host}{target}"


async def test_head_and_body_are_kept_as_they_came_but_for_what_ends_at_the_hop(
    sender: Sender, beanstalkd: Server
) -> None:
    body = bytes(range(256)) * 10
    head = [
        b"PATCH /x HTTP/1.1",
        b"Host: " + HOST.encode(),
        b"x-A: 1",
        b"Content-Type: application/x; a=\xc3\xa9",
        b"X-a:  2 ",
        b"X-Empty:",
        b"Connection: close, X-Named",
        b"x-named: 3",
        b"Keep-Alive: 1",
        b"Proxy-Connection: 1",
        b"TE: trailers",
        b"Trailer: X-T",
        b"Content-Encoding: gzip",
        b"X-Forwarded-Proto: http",
        b"X-A: 1",
        b"Content-Length: %d" % len(body),
    ]
    answer = await sender.says(b"\r\n".join(head) + b"\r\n\r\n" + body)

    [found] = relayed(beanstalkd)
    assert (answer.status, found.method, found.body) == (202, "PATCH", body)
    assert found.url == f"http://{HOST}/x"
    assert found.headers == (
        ("x-A", "1"),
        ("Content-Type", "application/x; a=\xc3\xa9"),
        ("X-a", "2"),
        ("X-Empty", ""),
        ("Content-Encoding", "gzip"),
        ("X-Forwarded-Proto", "http"),
        ("X-A", "1"),
        ("Content-Length", f"{len(body)}"),
    )


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "PURGE", "FOO", "post", "A!#$.~9|"])
async def test_any_method_is_taken_in_its_case(
    sender: Sender, beanstalkd: Server, method: str
) -> None:
    assert (await sender.posts(method=method)).status == 202
    assert [each.method for each in relayed(beanstalkd)] == [method]


async def test_what_http_has_once_is_kept_as_often_as_it_came(
    sender: Sender, beanstalkd: Server
) -> None:
    twice = [("Content-Type", "a/b"), ("User-Agent", "c"), ("content-type", "d/e; f=\x01")]
    twice += [("User-Agent", "g"), ("ETag", ""), ("Server", "h"), ("ETag", "i"), ("Server", "j")]
    head = [f"POST {PATH} HTTP/1.1", "Host: a", *(f"{name}: {text}" for name, text in twice)]

    assert (await sender.says("\r\n".join([*head, "\r\n"]).encode())).status == 202
    assert [each.headers for each in relayed(beanstalkd)] == [tuple(twice)]


async def test_a_body_in_chunks_is_kept_whole(sender: Sender, beanstalkd: Server) -> None:
    head = written(Transfer_Encoding="chunked")
    answer = await sender.says(head, b"3\r\nabc\r\n", b"4;x=y\r\ndefg\r\n0\r\nX-T: 1\r\n\r\n")

    [found] = relayed(beanstalkd)
    assert (answer.status, found.body, found.headers) == (202, b"abcdefg", ())


async def test_a_mib_is_taken_and_a_byte_more_is_not(sender: Sender, beanstalkd: Server) -> None:
    assert (await sender.posts(body=b"x" * BODY_MOST)).status == 202
    assert (await sender.posts(body=b"x" * (BODY_MOST + 1))).status == 413
    chunk = b"%x\r\n%b\r\n0\r\n\r\n" % (BODY_MOST + 1, b"x" * (BODY_MOST + 1))
    answer = await sender.says(written(Transfer_Encoding="chunked"), chunk)

    assert answer.status == 413
    assert [len(each.body) for each in relayed(beanstalkd)] == [BODY_MOST]


async def test_who_asks_first_is_told_to_go_on_once_the_label_is_genuine(sender: Sender) -> None:
    assert (await sender.posts(body=b"x", Expect="100-continue")).status == 202
    answer = await sender.says(
        written(f"/in/{FORGED}", Expect="100-continue", Content_Length="1000000")
    )
    assert answer.status == 404


@pytest.mark.parametrize(
    ("target", "host"),
    [
        (f"/in/{FORGED}", "any.example"),
        ("/", f"{FORGED}.{DOMAIN}"),
        ("/v1/requests", f"{FORGED}.{DOMAIN}"),
        ("/metrics", f"nothing.{DOMAIN}"),
        ("/", f"a.{LABEL}.{DOMAIN}"),
        (f"/in/{LABEL}x/", "any.example"),
        ("/in/", "any.example"),
        ("/in/%2e", "any.example"),
    ],
)
async def test_a_forged_label_is_404_before_its_body_and_leaves_no_trace(
    sender: Sender, beanstalkd: Server, capfd: pytest.CaptureFixture[str], target: str, host: str
) -> None:
    answer = await sender.says(written(target, Host=host, Content_Length="1000000"))

    assert answer.status == 404
    assert relayed(beanstalkd) == []
    assert not sender.spool.exists()
    assert capfd.readouterr().out == ""
    assert (await sender.relays.figures())[("tracker_relayed_requests_total", "forged")] == 1


async def test_a_door_that_knows_no_key_yet_calls_no_label_forged(
    disk: Path, beanstalkd: Server
) -> None:
    async with relay(disk / "spool.sqlite", beanstalkd, known=False) as sender:
        answer = await sender.posts(PATH)
        assert (answer.status, b"Retry-After: 5" in answer.head) == (503, True)
        assert "which labels" in answer.detail
        assert (await sender.posts("/in/no-label")).status == 404
        assert (await sender.posts("/readyz", Host="localhost", method="GET")).status == 200


async def test_a_host_that_serves_the_api_takes_no_foreign_request(
    sender: Sender, beanstalkd: Server
) -> None:
    answer = await sender.posts(PATH, Host=f"{OWN}:443")

    assert answer.status == 421
    assert relayed(beanstalkd) == []


@pytest.mark.parametrize(
    "path",
    [
        *("/..", "/../x", "/a/../b", "/a/.", "/./", "/%2e%2E/x", "/a/.%2e", "/..%2fx", "/..;/x"),
        *("/a\\..\\b", "/a%5c..%5cb", "/%2f../x", "?x#f", "/x#y"),
    ],
)
async def test_segments_of_dots_and_fragments_are_refused(
    sender: Sender, beanstalkd: Server, path: str
) -> None:
    assert (await sender.posts(PATH + path)).status == 400
    assert relayed(beanstalkd) == []


@pytest.mark.parametrize("path", ["/...", "/a..b/..c/d..", "/.well-known/x", "/a?../..", "/%252e"])
async def test_dots_elsewhere_are_no_such_segments(sender: Sender, path: str) -> None:
    assert (await sender.posts(PATH + path)).status == 202


async def test_methods_for_proxies_are_refused(sender: Sender) -> None:
    for method in ("TRACE", "trace", "CONNECT"):
        answer = await sender.posts(method=method, target=PATH)
        assert (answer.status, b"Allow: GET" in answer.head) == (405, True)
    assert (await sender.posts(method="M" * 33)).status == 501
    connect = f"CONNECT {HOST}:443 HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode()
    assert (await sender.says(connect)).status == 405


async def test_a_head_that_is_too_large_is_refused_in_words(
    sender: Sender, beanstalkd: Server
) -> None:
    headers = {f"X-{number}": "x" * 8_000 for number in range(7)}
    answer = await sender.posts(PATH, **headers)
    assert (answer.status, f"{HEAD_MOST}" in answer.detail) == (431, True)
    assert (await sender.posts(PATH + "/" + "x" * 9_000)).status == 414
    assert relayed(beanstalkd) == []


async def test_every_answer_is_harmless_in_a_browser(sender: Sender) -> None:
    sender.knows(body='{"ok": true}', status=200)
    answers = [
        await sender.posts(),
        await sender.posts(f"/in/{FORGED}"),
        await sender.posts(f"{PATH}/.."),
        await sender.posts(method="TRACE"),
    ]
    sender.knows(body="<script>alert(1)</script>")
    answers.append(await sender.posts())

    for each in answers:
        assert b"\r\nX-Content-Type-Options: nosniff\r\n" in each.head
        assert b"\r\nContent-Security-Policy: sandbox\r\n" in each.head
        assert b"\r\nCache-Control: no-store\r\n" in each.head
        assert len(each.body) <= ingest_module.BODY_TEXT_MOST
    kinds = [each.head.partition(b"Content-Type: ")[2].split(b"\r\n")[0] for each in answers]
    assert kinds == [b"application/json"] * 4 + [b"text/plain"]


async def test_a_service_has_its_own_answer(sender: Sender, beanstalkd: Server) -> None:
    sender.knows(status=200, body="accepted")
    answer = await sender.posts()
    assert (answer.status, answer.body) == (200, b"accepted")
    sender.knows(status=204, body="")
    assert (await sender.posts()).status == 204
    assert len(relayed(beanstalkd)) == 2


@pytest.mark.parametrize("method", ["POST", "HEAD"])
@pytest.mark.parametrize("status", [200, 202, 204, 205, 299])
async def test_an_answer_is_the_same_whether_its_connection_goes_on_or_ends(
    sender: Sender, status: int, method: str
) -> None:
    """The door writes those of the first kind, and aiohttp those of the second."""
    sender.knows(status=status, body='{"ok": 1}')
    reader, writer = await asyncio.open_connection("127.0.0.1", sender.port)
    for last in ("keep-alive", "close"):
        writer.write(written(method=method, X_Request_Id="mine", Connection=last))
    async with asyncio.timeout(10):
        _, *answers = (await reader.read()).split(b"HTTP/1.1 ")
    writer.close()
    (first, body), (second, other) = (each.split(b"\r\n\r\n") for each in answers)
    lines = [
        sorted(line for line in head.split(b"\r\n") if not line.startswith(b"Date: "))
        for head in (first, second)
    ]

    assert b"X-Request-Id: mine" in lines[0]
    assert [*lines[0], b"Connection: close"] == [
        *(line for line in lines[1] if line != b"Connection: close"),
        b"Connection: close",
    ]
    assert b"\r\nDate: " in first
    assert body == other == (b"" if method == "HEAD" or status == 204 else b'{"ok": 1}')


def retry_after(answer: Answer) -> int:
    return int(answer.head.partition(b"Retry-After: ")[2].split(b"\r\n")[0])


async def test_more_requests_a_second_than_a_service_takes_are_told_when_to_come(
    sender: Sender, beanstalkd: Server
) -> None:
    sender.knows(per_second=2)
    answers = [await sender.posts() for _ in range(8)]

    limited = [each for each in answers if each.status == 429]
    assert {each.status for each in answers} == {202, 429}
    assert {retry_after(each) for each in limited} == {1}
    assert len(relayed(beanstalkd)) == 8 - len(limited)


@pytest.mark.parametrize("chunked", [False, True])
async def test_more_bytes_a_second_than_a_service_takes_are_too(
    sender: Sender, beanstalkd: Server, *, chunked: bool
) -> None:
    sender.knows(bytes_per_second=1_000)
    body = b"x" * 5_000
    said = written(body=body)
    if chunked:
        said = written(Transfer_Encoding="chunked") + b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)

    # One that is larger than a second's bytes passes, and those behind it wait for it.
    first, second = await sender.says(said), await sender.says(said)
    assert (first.status, second.status) == (202, 429)
    assert 3 <= retry_after(second) <= 5
    assert len(relayed(beanstalkd)) == 1
    sender.knows(bytes_per_second=1_000_000)
    assert (await sender.says(said)).status == 202


async def test_a_connection_is_used_again_after_a_request(sender: Sender) -> None:
    answer = await sender.says(written(body=b"a") + written(f"/in/{FORGED}", body=b"b"))
    assert answer.status == 202


async def test_what_is_no_http_behind_a_request_costs_that_request_nothing(
    sender: Sender, beanstalkd: Server
) -> None:
    for garbage in (b"\r\n", b"\n", b"\x00\x01", b"GARBAGE\r\n\r\n"):
        assert (await sender.says(written(body=b"a") + garbage)).status == 202
    assert [each.body for each in relayed(beanstalkd)] == [b"a"] * 4


async def test_a_head_is_refused_before_it_has_an_end_where_it_is_too_large(
    sender: Sender,
) -> None:
    answer = await sender.says(
        written()[:-2] + b"".join(b"X: %b\r\n" % (b"x" * 8_000) for _ in "1234567")
    )
    assert (answer.status, f"{HEAD_MOST}" in answer.detail) == (431, True)


async def test_what_would_speak_another_protocol_next_is_the_end_of_its_connection(
    sender: Sender, beanstalkd: Server
) -> None:
    said = written(body=b"a", Connection="Upgrade", Upgrade="websocket")
    answer = await sender.says(said + written(body=b"smuggled"))

    assert (answer.status, b"Connection: close" in answer.head) == (202, True)
    assert [each.body for each in relayed(beanstalkd)] == [b"a"]


async def test_the_routes_are_served_beside_it(sender: Sender) -> None:
    await sender.posts()
    answer = await sender.posts("/metrics", Host="localhost", method="GET")
    assert b'tracker_relayed_requests_total{outcome="taken"} 1' in answer.body
    ready = await sender.posts("/readyz", Host="localhost", method="GET")
    assert json.loads(ready.body)["ready"]


async def test_the_api_takes_none(whole: Client, beanstalkd: Server) -> None:
    assert (await whole.post(PATH, data=b"x")).status == 404
    assert relayed(beanstalkd) == []
