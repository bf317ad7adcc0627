"""What limits, couriers and the log get of the configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from service.config.address import masked_value, secrets_of
from service.config.domain import courier_settings, rules_for
from service.config.load import load
from service.config.schema import (
    Config,
    Courier,
    Limits,
    Recheck,
    SlugLimits,
    SlugRecheck,
    recheck_for,
    silence_seconds,
    together_most,
)
from tracking.line import courier_line
from tracking.request import Slug

TEXT = """
[redis]
url = "redis://user:p%40ssw0rd@h/0"
[mongodb]
uri = "mongodb://u:m0ngo!pw@a,b/?x=1"
[limits]
concurrent = 10
per_hour = 500
day_resets_at = "17:30"
[limits.slugs.royal-mail]
concurrent = 1
per_day = 50
[couriers.royal-mail]
keep = "-"
client_id = "the-client-id"
client_secret = ""
"""


def config(folder: Path) -> Config:
    file = folder / "config.toml"
    file.write_text(TEXT)
    return load(str(file), {}, folder).config


def test_a_courier_gets_its_own_limits_over_those_of_all(tmp_path: Path) -> None:
    rules = rules_for(config(tmp_path), Slug("royal-mail"))
    assert (rules.concurrent, rules.per_second) == (1, 2)
    assert (rules.per_hour, rules.per_day) == (500, 50)
    assert rules.day_resets_at_seconds == 17 * 3600 + 30 * 60


def test_a_courier_without_its_own_gets_those_of_all(tmp_path: Path) -> None:
    rules = rules_for(config(tmp_path), Slug("usps"))
    assert (rules.concurrent, rules.per_hour, rules.per_day) == (10, 500, None)


@pytest.mark.parametrize(
    ("slug", "together"),
    [("fedex", 30), ("ups", 1), ("gls", 4), ("acme", 7), ("hong-kong-post", 3)],
)
def test_a_call_carries_what_the_module_or_the_feed_takes_or_less_where_it_is_set(
    tmp_path: Path, slug: str, together: int
) -> None:
    file = tmp_path / "config.toml"
    file.write_text(
        "[limits.slugs.gls]\ntogether = 4\n"
        '[couriers.acme]\nmodule = "json_feed"\nbase_url = "http://h"\nnumbers_per_call = 7\n'
        '[couriers.hkpost]\nmodule = "json_feed"\nbase_url = "http://h"\nnumbers_per_call = 3\n'
    )
    found = load(str(file), {}, tmp_path).config

    assert rules_for(found, courier_line(Slug(slug))).together == together
    assert together_most(found, slug) == (10 if slug == "gls" else together)


def test_the_older_service_of_usps_is_asked_for_one_number() -> None:
    older = Courier(base_url="https://apis.usps.com/tracking/v3/")
    found = Config(couriers={"usps": older})

    assert rules_for(found, courier_line(Slug("usps"))).together == 1
    assert together_most(found, "usps") == 1
    assert rules_for(Config(), courier_line(Slug("usps"))).together == 35


def test_how_long_calls_are_filled_and_what_quotas_count_may_be_set_for_one_courier() -> None:
    own = SlugLimits(fill_ms=500, quotas_count_numbers=True)
    found = Config(limits=Limits(fill_ms=3_000, slugs={"gls": own}))

    gls, usps = (rules_for(found, courier_line(Slug(slug))) for slug in ("gls", "usps"))

    assert (gls.fill_ms, gls.quotas_count_numbers) == (500, True)
    assert (usps.fill_ms, usps.quotas_count_numbers) == (3_000, False)
    assert rules_for(Config(), courier_line(Slug("gls"))).fill_ms == 2_000


def test_a_courier_gets_its_own_times_of_re_checks_over_those_of_all() -> None:
    own = SlugRecheck(in_transit_hours=12.0, exception_hours=0.0, enabled=False)
    recheck = Recheck(pending_hours=2.0, slugs={"royal-mail": own})

    found = recheck_for(Config(recheck=recheck), "royal-mail")

    assert (found.enabled, found.in_transit_hours, found.exception_hours) == (False, 12.0, 0.0)
    assert (found.pending_hours, found.expires_after_days) == (2.0, 30)
    assert recheck_for(Config(recheck=recheck), "usps") == recheck


def test_a_worker_may_hang_for_as_long_as_the_shortest_spare_time_of_a_lease() -> None:
    hasty = SlugLimits(lease_seconds=20.0, call_timeout_seconds=10.0)
    patient = SlugLimits(call_timeout_seconds=5.0)

    assert silence_seconds(Config()) == 30.0
    assert silence_seconds(Config(limits=Limits(slugs={"usps": hasty, "gls": patient}))) == 10.0


def test_empty_credentials_are_credentials_that_are_not_set(tmp_path: Path) -> None:
    settings = courier_settings(config(tmp_path))[Slug("royal-mail")]
    assert settings.credentials == {"client_id": "the-client-id"}
    assert settings.keep == "-"


def test_passwords_are_secrets_as_written_and_decoded(tmp_path: Path) -> None:
    secrets = secrets_of(config(tmp_path))
    assert {"p%40ssw0rd", "p@ssw0rd", "m0ngo!pw", "the-client-id"} <= secrets
    assert "" not in secrets


def test_secrets_are_masked_where_they_are_shown(tmp_path: Path) -> None:
    made = config(tmp_path)
    assert masked_value(("redis", "url"), made.redis.url) == "redis://user:***@h/0"
    assert masked_value(("mongodb", "uri"), made.mongodb.uri) == "mongodb://u:***@a,b/?x=1"
    assert masked_value(("couriers", "royal-mail", "client_id"), "the-client-id") == "***"
    assert masked_value(("couriers", "royal-mail", "keep"), "-") == "-"


def test_the_configuration_does_not_print_itself(tmp_path: Path) -> None:
    made = config(tmp_path)
    shown = f"{made!r} {made.redis} {made.couriers}"
    assert not [secret for secret in secrets_of(made) if secret in shown]
