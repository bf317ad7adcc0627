"""`show` lists the requests of a parcel, and finds each by the id that it lists."""

from __future__ import annotations

import json

import redis
from command_line import Run

NUMBER = "9405903699300184125060"


def test_show_lists_the_requests_of_a_parcel(run: Run, store: redis.Redis) -> None:
    name = f"usps:{NUMBER}"
    waits = {"status": "WAITING", "tracking": name, "at": 1}
    output = {"code": "courier_down", "message": "503"}
    ended = waits | {"status": "ERROR", "startedAt": "A", "finishedAt": "Z", "output": output}
    store.set("tracking:status:order-1", json.dumps(waits))
    store.set("tracking:status:order-0", json.dumps(ended), ex=60)
    store.zadd(f"tracking:operations:{name}", {"order-0": 2, "older": 1})
    record = {"since": 1, "newest": ["order-1"], "ids": 1, "anon": {"id": "job", "count": 2}}
    store.hset("wait_requests:usps", NUMBER, json.dumps(record))
    store.rpush("wait_list:usps", NUMBER)

    rows = [line.split() for line in run("show", "usps", NUMBER).lines[-5:]]

    assert rows == [
        ["request", "state", "started", "finished", "outcome"],
        ["order-1", "WAITING"],
        [f"{name}:job", "WAITING"],
        ["order-0", "ERROR", "A", "Z", "courier_down:", "503"],
        ["older", "ended"],
    ]
    (told,) = run("show", "usps", NUMBER, "--json").json
    assert [each["id"] for each in told["operations"]] == [row[0] for row in rows[1:]]
    assert told["operations"][2] == {"id": "order-0", **{k: ended[k] for k in ended if k != "at"}}
    assert run("show", "--id", f"{name}:job").lines[0] == f"{name}:job: WAITING"
