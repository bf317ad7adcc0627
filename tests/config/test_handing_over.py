"""What limits, couriers and the log get of the configuration."""

from __future__ import annotations

from pathlib import Path

from service.config.address import masked_value, secrets_of
from service.config.domain import courier_settings, rules_for
from service.config.load import load
from service.config.schema import (
    Config,
    Limits,
    Recheck,
    SlugLimits,
    SlugRecheck,
    recheck_for,
    silence_seconds,
)
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
