"""MongoDB's failures in words, never the driver's dictionaries; and which are of one document."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.errors import (
    BulkWriteError,
    InvalidURI,
    NotPrimaryError,
    OperationFailure,
    PyMongoError,
    ServerSelectionTimeoutError,
)
from store_parcels import answered, call, on_its_way, recheck_of, scan

from devstack.kinds import MONGODB, Durability
from devstack.servers import Server, running
from service.worker.results.connection import LOOK_SECONDS, Store
from service.worker.results.database import Names
from service.worker.results.failure import DUPLICATE_KEY, faults_in, mongodb_down, refuses_writes
from service.worker.results.trackings import Trackings
from tracking.errors import ResultsDown

RAW = {"ok": 0.0, "errmsg": "no space", "code": 14031}
INVALID = 121


def _arguments(port: int, folder: Path, durability: Durability) -> list[str]:
    return [*MONGODB.arguments(port, folder, durability), "--auth"]


@pytest.fixture(scope="module")
def guarded() -> Iterator[Server]:
    """A mongod that wants a password; the user `reader` may read one database."""
    with running(dataclasses.replace(MONGODB, arguments=_arguments)) as server:
        client: MongoClient[dict[str, Any]]
        with MongoClient(server.url) as client:
            client.admin.command({"createUser": "admin", "pwd": "right", "roles": ["root"]})
        with MongoClient(server.url.replace("://", "://admin:right@")) as client:
            roles = [{"role": "read", "db": "bucket"}]
            client.admin.command({"createUser": "reader", "pwd": "right", "roles": roles})
            client.admin.command({"createUser": "writer", "pwd": "right", "roles": []})
        yield server


def test_a_server_that_says_nothing_is_told_as_silent() -> None:
    error = ServerSelectionTimeoutError("No servers found yet, Timeout: 3.0s, Topology: <…>")
    assert str(mongodb_down(error)).startswith("MongoDB does not answer (no answer in time)")


def failure(uri: str) -> ResultsDown:
    client: MongoClient[dict[str, Any]]
    with MongoClient(uri, timeoutMS=2_000) as client, pytest.raises(PyMongoError) as caught:
        client.bucket.tracking.insert_one({"message": "a parcel"})
    return mongodb_down(caught.value)


@pytest.mark.parametrize(
    ("login", "what", "fix"),
    [
        ("", "asks for a user name and a password", "Set them in mongodb.uri (USER:"),
        ("admin:wrong@", "refuses the user name or the password", "Correct them in mongodb.uri"),
        (
            "reader:right@",
            "forbids a command (not authorized on bucket)",
            "Give the user in mongodb.uri the role readWrite",
        ),
    ],
)
def test_a_real_mongod_that_lets_nobody_in_says_which_setting_to_correct(
    guarded: Server, login: str, what: str, fix: str
) -> None:
    told = failure(guarded.url.replace("://", f"://{login}"))

    assert told.message == f"MongoDB {what}"
    assert told.fix.startswith(fix)


def test_a_real_mongod_that_is_not_there_says_so() -> None:
    told = failure("mongodb://127.0.0.1:1")

    assert told.message == "MongoDB does not answer (127.0.0.1:1: Connection refused)"
    assert told.fix == "Start it, or correct mongodb.uri."


@pytest.mark.parametrize(
    ("error", "what"),
    [
        (OperationFailure("no space", 14031, RAW), "did not do what it was asked (no space)"),
        (BulkWriteError({"writeErrors": [{"op": "a parcel"}]}), "(batch op errors occurred)"),
        (NotPrimaryError("not primary", RAW), "takes no writes (it is not the primary)"),
        (InvalidURI("Username must be escaped"), "at its address (Username must be escaped)"),
        (ServerSelectionTimeoutError("Got response id 8 but expected 9"), "is not what answers"),
        (
            ServerSelectionTimeoutError("h:1: timed out (configured timeouts: x), Timeout: 3s, …"),
            "does not answer (h:1: timed out)",
        ),
    ],
)
def test_no_dictionary_and_no_topology_of_the_driver_is_shown(error: Exception, what: str) -> None:
    told = mongodb_down(error)

    assert what in told.message
    assert "{" not in str(told)


async def test_a_real_mongod_that_takes_no_results_is_away_until_it_takes_them(
    guarded: Server, notices: list[Exception | None]
) -> None:
    """It answers, and so does a ping: calls would go on whose answers cannot be stored."""
    login = {"grantRolesToUser": "writer", "roles": [{"role": "readWrite", "db": "bucket"}]}
    of, answer = call(), on_its_way(scan("2026-02-27T08:00:00", "Accepted"))
    store = Store(Names(guarded.url.replace("://", "://writer:right@")), notices.append)
    trackings = Trackings(store, recheck_of)
    client: MongoClient[dict[str, Any]]
    with MongoClient(guarded.url.replace("://", "://admin:right@")) as client:
        with pytest.raises(ResultsDown, match="forbids a command"):
            await answered(trackings, of, answer)
        assert not trackings.is_available
        waiting = asyncio.create_task(trackings.available())
        await asyncio.sleep(2 * LOOK_SECONDS)
        assert not waiting.done(), "a ping is no write"

        client.admin.command(login)
        await asyncio.wait_for(waiting, 10.0)
        await answered(trackings, of, answer)

    await store.close()
    assert [type(each) for each in notices] == [OperationFailure, type(None)]


@pytest.mark.parametrize(
    ("code", "refuses"),
    [(13, True), (371, True), (8000, True), (14031, True), (10107, True), (121, False), (2, False)],
)
def test_what_a_server_refuses_whatever_is_written_is_told_from_what_it_says_of_one_document(
    code: int, *, refuses: bool
) -> None:
    alone = OperationFailure("no", code)
    among_others = BulkWriteError({"writeErrors": [{"code": 11000}, {"code": code}]})

    assert (refuses_writes(alone), refuses_writes(among_others)) == (refuses, refuses)


def error(*codes: int, unconfirmed: bool = False, **more: Any) -> BulkWriteError:
    faults = [
        {"index": index, "code": code, "errmsg": f"of {index}", **more}
        for index, code in enumerate(codes)
    ]
    waited = [{"code": 64, "errmsg": "timed out"}] if unconfirmed else []
    return BulkWriteError({"writeErrors": faults, "writeConcernErrors": waited})


def test_documents_that_are_there_already_are_named() -> None:
    assert faults_in(error(DUPLICATE_KEY, DUPLICATE_KEY)) == ([0, 1], {})


@pytest.mark.parametrize(
    "each",
    [error(INVALID), error(DUPLICATE_KEY, keyPattern={"number": 1})],
    ids=["a validator", "a unique index of others"],
)
def test_a_document_that_is_never_taken_is_refused_alone(each: BulkWriteError) -> None:
    assert faults_in(each) == ([], {0: "MongoDB refuses it: of 0"})


@pytest.mark.parametrize(
    "other",
    [
        error(DUPLICATE_KEY, 14031),
        error(DUPLICATE_KEY, unconfirmed=True),
        error(INVALID, unconfirmed=True),
        error(unconfirmed=True),
    ],
    ids=["a full disk", "no majority for the rest", "nor for a refusal", "no majority"],
)
def test_anything_else_is_an_error_of_the_whole(other: BulkWriteError) -> None:
    with pytest.raises(BulkWriteError):
        faults_in(other)
