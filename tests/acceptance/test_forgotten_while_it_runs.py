"""A parcel is forgotten while workers work on it: nothing of it comes back unasked."""

from __future__ import annotations

import json

from plant import Plant
from running_worker import until

NUMBER = "AB123456"


def test_a_running_calls_answer_is_discarded_and_a_later_request_is_answered_and_stored(
    plant: Plant,
) -> None:
    plant.settings |= {"limits.call_timeout_seconds": 30.0, "limits.lease_seconds": 60.0}
    slug = plant.courier(held=True)
    plant.hire(processes=2).ready()
    plant.producer.put(slug, NUMBER, id="before")
    until(lambda: plant.calls(slug), 5.0, "the call arrives")

    done = plant.command("forget", slug, NUMBER, "--yes", "--json")
    told = json.loads(done.stdout)
    assert (told["calls"], told["cancelled"]) == (1, 1)
    assert plant.endings.state("before") == "CANCELLED"
    plant.producer.put(slug, NUMBER, id="after")
    plant.site.behave(slug)

    until(lambda: plant.endings.state("after") == "SUCCESS", 20.0, "it is asked again")
    first, second = plant.calls(slug)
    document = plant.document(slug, NUMBER)
    assert document
    assert (document["tracked_count"], len(document["attempts"])) == (1, 1)
    # Nothing of the first answer is left: the document begins with the second call.
    assert document["created_at"].timestamp() > first.arrived_ns / 1e9
    assert second.arrived_ns > first.arrived_ns
