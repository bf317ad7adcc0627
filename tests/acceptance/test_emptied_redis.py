"""A Redis that was emptied: with `[redis] mirror` what waited there is put again, ends once."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from plant import Plant
from running_worker import until

from limits.keys import TO_ARCHIVE

ENDED = {"finished_at": {"$ne": None}}


def operations(plant: Plant) -> Any:
    return plant.tracking.database["operations"]


def opened(plant: Plant) -> int:
    return int(operations(plant).count_documents({"finished_at": None}))


def recovered(plant: Plant, *more: str) -> list[dict[str, Any]]:
    done = plant.command("recover", "--redis", "--json", *more)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_what_waited_in_an_emptied_redis_is_put_again_and_ends_once(plant: Plant) -> None:
    plant.settings |= {"redis.mirror": True, "recheck.enabled": False, "retry.cap_seconds": 60.0}
    plant.settings["retry.first_seconds"] = 60.0
    slug = plant.courier(per_second=50, fault="status")
    worker = plant.hire().ready()
    plant.producer.put(slug, "AB000000", id="named-0")
    until(lambda: plant.calls(slug), 5.0, "its call fails")
    plant.command("pause", slug)
    for number in range(1, 41):
        plant.producer.put(slug, f"AB{number:06d}", id=f"named-{number}")
        plant.producer.put(slug, f"CD{number // 2:06d}")
    until(lambda: not plant.producer.held(), 10.0, "all jobs go, because all wait in Redis")
    assert opened(plant) == 81
    assert recovered(plant) == []
    assert opened(plant) == 81
    worker.vanish()
    plant.redis.flushdb()

    assert len(recovered(plant, "--dry-run")) == 81
    first = {each["id"]: each["number"] for each in recovered(plant)}
    # It may be done again: what has an id is put again, and is the same operation.
    assert {each["id"] for each in recovered(plant)} == {f"named-{number}" for number in range(41)}
    plant.site.behave(slug)
    plant.hire().ready()

    until(lambda: plant.redis.zcard(TO_ARCHIVE) == opened(plant) == 0, 60.0, "all of them end")
    ended = Counter(each["id"] for each in operations(plant).find(ENDED))
    assert ended == dict.fromkeys(first, 1)
    assert len(first) == 81
    assert all(plant.document(slug, number) for number in first.values())
    plant.held_to_limits()


def test_a_request_whose_job_is_still_there_ends_once_although_it_is_put_again(
    plant: Plant,
) -> None:
    plant.settings |= {"redis.mirror": True, "recheck.enabled": False}
    slug = plant.courier()
    plant.command("pause", slug)
    worker = plant.hire(FAILPOINT="drains.put_drain:after").ready()
    plant.producer.put(slug, "AB000002", id="waits")
    until(lambda: worker.events("process died"), 10.0, "it waits, and its job is not deleted")
    worker.vanish()
    assert plant.producer.held()
    plant.redis.flushdb()

    assert [each["id"] for each in recovered(plant)] == ["waits"]
    plant.hire().ready()

    until(lambda: plant.endings.state("waits") == "SUCCESS", 30.0, "it is answered")
    until(lambda: opened(plant) == 0, 20.0, "its end is archived")
    plant.endings.come(20.0)
    assert operations(plant).count_documents({"id": "waits", **ENDED}) == 1
    assert len(plant.calls(slug)) == 1
