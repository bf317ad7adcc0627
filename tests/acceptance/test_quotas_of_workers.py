"""A quota of calls that is set while workers run: as many calls arrive, and no others wait."""

from __future__ import annotations

import json

import pytest
from plant import Plant
from running_worker import until


@pytest.mark.guest
def test_an_account_has_its_calls_of_the_day_and_more_once_its_quota_is_raised(
    plant: Plant,
) -> None:
    slug, account = plant.courier(), "rationed"
    plant.hire().ready()
    plant.collection("accounts").insert_one({"_id": account})
    assert plant.command("account", "set", account, "calls_a_day=2").returncode == 0

    for n in range(4):
        plant.producer.put(slug, f"AB00000{n}", id=f"op-{n}", account=account)
    until(lambda: plant.redis.zcard(f"wait_later:{slug}") == 2, 10.0, "two wait for tomorrow")
    plant.producer.put(slug, "AB000009", id=f"{slug}-main")
    until(lambda: len(plant.calls(slug)) == 3, 10.0, "main's request is called")

    told = json.loads(plant.command("account", "list", "--json").stdout.splitlines()[-1])
    used = told["quotas"]["calls_a_day"]["used"]
    assert (used, len(plant.calls(slug))) == (2, 3)
    assert plant.command("account", "set", account, "calls_a_day=none").returncode == 0
    until(lambda: len(plant.calls(slug)) == 5, 20.0, "those go on who waited")
