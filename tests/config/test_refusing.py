"""What is wrong stops the start, names the key and says what to write."""

from __future__ import annotations

from pathlib import Path

import pytest
from config_problems import problem, problems

from service.config.load import load


def test_an_unknown_key_is_refused_with_its_line_and_the_closest_name(tmp_path: Path) -> None:
    found = problem(tmp_path, "[limits]\n\nconcurent = 3\n")
    assert found.path == "limits.concurent"
    assert found.where.endswith("config.toml:3")
    assert found.fix == "Did you mean limits.concurrent?"


def test_an_unknown_table_is_refused(tmp_path: Path) -> None:
    found = problem(tmp_path, '[redsi]\nurl = "x"\n')
    assert (found.path, found.fix) == ("redsi", "Did you mean redis?")


def test_an_unknown_variable_is_refused_with_the_closest_variable(tmp_path: Path) -> None:
    found = problem(tmp_path, TRACKER_LIMITS__PER_SECNOD="2")
    assert found.where == "TRACKER_LIMITS__PER_SECNOD"
    assert found.fix == "Did you mean TRACKER_LIMITS__PER_SECOND?"


def test_a_wrong_type_says_what_was_found_and_what_is_expected(tmp_path: Path) -> None:
    found = problem(tmp_path, '[limits]\nper_second = "fast"\n')
    assert found.path == "limits.per_second"
    assert found.found == "'fast'"
    assert found.expected == "a whole number from 1 up to 1000000"
    assert found.fix == "Write for example per_second = 2."


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("[limits]\nconcurrent = 0\n", "limits.concurrent"),
        ("[limits]\nper_second = 0\n", "limits.per_second"),
        ("[limits]\nconcurrent = true\n", "limits.concurrent"),
        ("[limits]\nconcurrent = 20.0\n", "limits.concurrent"),
        ("[limits]\ncall_timeout_seconds = nan\n", "limits.call_timeout_seconds"),
        ("[limits]\ncall_timeout_seconds = inf\n", "limits.call_timeout_seconds"),
        ('[limits]\nday_resets_at = "24:00"\n', "limits.day_resets_at"),
        ('[limits]\nday_resets_at = "09:00\\n"\n', "limits.day_resets_at"),
        ("[worker]\nprocesses = 0\n", "worker.processes"),
        ("[beanstalkd]\nservers = []\n", "beanstalkd.servers"),
        ("[beanstalkd]\nservers = [11300]\n", "beanstalkd.servers"),
        ('[beanstalkd]\nservers = "a:1"\n', "beanstalkd.servers"),
        ('[log]\nlevel = "loud"\n', "log.level"),
        ('[mongodb]\ncollection = "a.b"\n', "mongodb.collection"),
        ('[couriers.usps]\nkeep = "x"\n', "couriers.usps.keep"),
        ('[couriers.usps]\nmodule = "../x"\n', "couriers.usps.module"),
        ("[couriers.usps]\nclient_id = 3\n", "couriers.usps.client_id"),
        ('[couriers.usps.client]\nid = "x"\n', "couriers.usps.client"),
        ('[couriers.usps]\ncredentials = "x"\n', "couriers.usps.credentials"),
        ("[limits]\nfill_ms = 60001\n", "limits.fill_ms"),
        ("[limits]\ntogether = 10\n", "limits.together"),
        ("[limits.slugs.fedex]\ntogether = 0\n", "limits.slugs.fedex.together"),
        ("[couriers.usps]\nnumbers_per_call = 101\n", "couriers.usps.numbers_per_call"),
        ("redis = 3\n", "redis"),
        ('[ingest]\ndomain = "In.example.com"\n', "ingest.domain"),
        ('[ingest]\ndomain = "https://in.example.com"\n', "ingest.domain"),
        ('[ingest]\ndomain = ".example.com"\n', "ingest.domain"),
        ("[ingest]\ntube_mib = 1\n", "ingest.tube_mib"),
    ],
)
def test_a_value_out_of_its_bounds_is_refused(tmp_path: Path, text: str, path: str) -> None:
    assert problem(tmp_path, text).path == path


def test_a_courier_key_that_is_almost_a_setting_is_no_credential(tmp_path: Path) -> None:
    found = problem(tmp_path, '[couriers.usps]\nbas_url = "http://x"\n')
    assert found.fix == "Did you mean couriers.usps.base_url?"


SIGN_UP = '[mail]\nhost = "h"\nsender = "a@b.example"\n[web]\nsign_up = "domain"\n'


@pytest.mark.parametrize(
    ("text", "path", "word"),
    [
        ('[redis]\nurl = "redis+cluster://h"\n', "redis.url", "Cluster"),
        ('[redis]\nurl = "rediscluster://h"\n', "redis.url", "Cluster"),
        ('[redis]\nurl = "redis://a:1,b:2/0"\n', "redis.url", "Cluster"),
        ('[redis]\nurl = "sentinel://h"\n', "redis.url", "redis.sentinels"),
        ('[redis]\nurl = "http://h"\n', "redis.url", "redis://"),
        ('[redis]\nurl = "redis://h/zero"\n', "redis.url", "database"),
        ('[redis]\nurl = "redis://h:99999"\n', "redis.url", "port"),
        ('[redis]\nurl = "unix://"\n', "redis.url", "path"),
        ('[redis]\nsentinels = ["h:26379"]\n', "redis.service", "mymaster"),
        ('[redis]\nservice = "mymaster"\n', "redis.sentinels", "26379"),
        ('[redis]\nsentinels = ["h"]\nservice = "m"\n', "redis.sentinels", "host:port"),
        ('[redis]\nsentinel_username = "u"\n', "redis.sentinels", "redis.sentinel_username"),
        ('[redis]\nsentinel_password = "p"\n', "redis.sentinels", "redis.sentinel_password"),
        (
            '[redis]\nurl = "unix:///r"\nsentinels = ["h:1"]\nservice = "m"\n',
            "redis.url",
            "rediss://",
        ),
        ('[mongodb]\nuri = "http://h"\n', "mongodb.uri", "mongodb://"),
        ('[mongodb]\nuri = "mongodb:///x"\n', "mongodb.uri", "mongodb://"),
        ('[mongodb]\nuri = "mongodb://h:99999"\n', "mongodb.uri", "1 to 65535"),
        ('[mongodb]\nuri = "mongodb://h:"\n', "mongodb.uri", "1 to 65535"),
        ('[mongodb]\nuri = "mongodb://u:p@w@h"\n', "mongodb.uri", "%40"),
        ('[mongodb]\nuri = "mongodb://u:p/w@h"\n', "mongodb.uri", "%2F"),
        ('[mongodb]\nuri = "mongodb://u:5%@h"\n', "mongodb.uri", "%25"),
        ('[beanstalkd]\nservers = ["h"]\n', "beanstalkd.servers", "host:port"),
        ('[beanstalkd]\nservers = ["h:0"]\n', "beanstalkd.servers", "host:port"),
        ('[beanstalkd]\nservers = ["::1:11300"]\n', "beanstalkd.servers", "[::1]:11300"),
        ('[beanstalkd]\nservers = ["h:1", "h:1"]\n', "beanstalkd.servers", "once"),
        ('[metrics]\nlisten = "9400"\n', "metrics.listen", "host:port"),
        ('[couriers.usps]\nbase_url = "ftp://h"\n', "couriers.usps.base_url", "https://"),
        ('[couriers.usps]\nbase_url = "https://u:p@h"\n', "couriers.usps.base_url", "credentials"),
        ('[couriers.x]\nmodule = "json_feed"\n', "couriers.x.base_url", "{base_url}"),
        ('[couriers."Royal_Mail"]\nkeep = "-"\n', "couriers.Royal_Mail", "slug"),
        ("[limits.slugs.a--b]\nconcurrent = 1\n", "limits.slugs.a--b", "slug"),
        ("[limits]\ncall_timeout_seconds = 31.0\n", "limits.lease_seconds", "2 x"),
        ("[limits]\nlease_seconds = 61.0\n", "limits.lease_seconds", "at most 60"),
        ("[limits.slugs.ups]\nlease_seconds = 59.0\n", "limits.slugs.ups.lease_seconds", "2 x"),
        ("[retry]\ncap_seconds = 5.0\n", "retry.cap_seconds", "retry.first_seconds = 10"),
        ('[http]\ntrusted_proxies = ["10.0.0.7/8"]\n', "http.trusted_proxies", "zeros behind"),
        ('[http]\nuser_header = "X-Email"\n', "http.trusted_proxies", "an empty list"),
        ('[web]\nsign_up = "open"\n', "mail.host", 'web.sign_up = "closed"'),
        (f'{SIGN_UP}sign_up_account = "main"\n', "web.sign_up_domains", '["example.com"]'),
        (f'{SIGN_UP}sign_up_domains = ["a.example"]\n', "web.sign_up_account", "account list"),
        (
            f'{SIGN_UP}sign_up_account = "main"\nsign_up_domains = ["A.example"]\n',
            "web.sign_up_domains",
            "small letters",
        ),
        ('[couriers.usps]\nclient_id = "a\\nb"\n', "couriers.usps.client_id", "line break"),
        ('[couriers.usps]\nbase_url = "http://h:0"\n', "couriers.usps.base_url", "https://"),
        ('[couriers.usps]\nbase_url = "http://a\\\\b"\n', "couriers.usps.base_url", "https://"),
        ('[couriers.usps]\nmodule = "jsonfeed"\n', "couriers.usps.module", '"json_feed"'),
        ('[couriers.upps]\nclient_id = "x"\n', "couriers.upps", "Did you mean couriers.ups?"),
        ('[couriers.acme]\nclient_id = "x"\n', "couriers.acme", 'set module = "json_feed"'),
        ("[couriers.dpduk]\n[couriers.dpd-uk]\n", "couriers.dpduk", "[couriers.dpd-uk]"),
        ("[limits.slugs.upps]\nconcurrent = 1\n", "limits.slugs.upps", "limits.slugs.ups?"),
        ("[limits.slugs.acme]\nconcurrent = 1\n", "limits.slugs.acme", "[couriers.acme]"),
        ("[limits.slugs.hkpost]\nper_second = 1\n", "limits.slugs.hkpost", "hong-kong-post"),
        ("[limits.slugs.fedex]\ntogether = 31\n", "limits.slugs.fedex.together", "together = 30"),
        ("[limits.slugs.ups]\ntogether = 2\n", "limits.slugs.ups.together", "Remove it"),
        (
            """
            [couriers.usps]
            base_url = "http://h/tracking/v3/"
            [limits.slugs.usps]
            together = 35
            """,
            "limits.slugs.usps.together",
            "Remove it",
        ),
        (
            """
            [couriers.acme]
            module = "json_feed"
            base_url = "http://h"
            numbers_per_call = 5
            [limits.slugs.acme]
            together = 6
            """,
            "limits.slugs.acme.together",
            "couriers.acme.numbers_per_call",
        ),
        (
            "[couriers.usps]\nnumbers_per_call = 5\n",
            "couriers.usps.numbers_per_call",
            "[limits.slugs.usps] together",
        ),
    ],
)
def test_what_does_not_make_sense_together_is_refused(
    tmp_path: Path, text: str, path: str, word: str
) -> None:
    found = problem(tmp_path, text)
    assert found.path == path
    assert word in str(found)


@pytest.mark.parametrize(
    "text",
    [
        '[metrics]\nlisten = ""\n',
        '[redis]\nurl = "rediss://user:p%40ss@h:6380/3"\n',
        '[redis]\nurl = "redis://[::1]:6379"\n',
        '[redis]\nurl = "unix:///run/redis.sock?db=2"\n',
        '[redis]\nurl = "redis://:pw@ignored/1"\nsentinels = ["a:26379"]\nservice = "m"\n',
        '[mongodb]\nuri = "mongodb://u:p@a:1,b:2/?replicaSet=rs0&tls=true"\n',
        '[mongodb]\nuri = "mongodb+srv://u:p%40w@cluster.example.com/?appName=x"\n',
        '[mongodb]\nuri = "mongodb://[::1]:27017,h,%2Ftmp%2Fm.sock/bucket?w=1"\n',
        '[beanstalkd]\nservers = ["[::1]:11300", "127.0.0.1:11300"]\n',
        "[limits]\ncall_timeout_seconds = 5\nlease_seconds = 10\n",
        '[couriers.my-feed]\nmodule = "json_feed"\nbase_url = "http://127.0.0.1:8080/feed"\n',
    ],
)
def test_what_is_allowed_is_not_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "config.toml"
    file.write_text(text)
    load(str(file), {}, tmp_path)


def test_a_courier_of_ones_own_may_have_limits(tmp_path: Path) -> None:
    feed = '[couriers.acme]\nmodule = "json_feed"\nbase_url = "http://127.0.0.1:1"\n'
    file = tmp_path / "config.toml"
    file.write_text(f"{feed}[limits.slugs.acme]\nper_second = 1\n")
    assert load(str(file), {}, tmp_path).config.limits.slugs["acme"].per_second == 1


def test_what_is_missing_is_missed_in_its_table(tmp_path: Path) -> None:
    found = problem(tmp_path, '[log]\n[couriers.acme]\nmodule = "json_feed"\n')
    assert (found.path, found.where[-13:]) == ("couriers.acme.base_url", "config.toml:2")


def test_several_wrong_values_are_told_together(tmp_path: Path) -> None:
    text = "[limits]\nconcurent = 3\nper_second = 0\n"
    found = problems(tmp_path, text, TRACKER_WORKER__PROCESSES="many", TRACKER_REDIS__ULR="x")
    assert {each.path for each in found} == {
        "limits.concurent",
        "limits.per_second",
        "worker.processes",
        "redis.ulr",
    }


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[redis]\nurl = \n", 2),
        ('[beanstalkd]\nservers = ["a:1"\nallow_loss = true\n', 3),
        ("[worker]\n[log]\n[worker]\nprocesses = 2\n", 3),
        ("[log]\nlevel = info\n", 2),
    ],
)
def test_text_that_is_no_toml_is_refused_with_its_line(
    tmp_path: Path, text: str, line: int
) -> None:
    found = problem(tmp_path, text)
    assert found.where.endswith(f"config.toml:{line}")
    assert "not TOML" in found.found
    assert 'KEY = "text"' in found.fix


@pytest.mark.parametrize(
    ("name", "text", "word"),
    [
        ("TRACKER_WORKER__PROCESSES", "", "as JSON"),
        ("TRACKER_BEANSTALKD__SERVERS", "a:1", "as JSON"),
        ("TRACKER_redis__url", "redis://h", "TRACKER_REDIS__URL"),
        ("TRACKER_WORKER__PROCESSES_FILE", "/etc/hostname", "TRACKER_WORKER__PROCESSES"),
        ("TRACKER_MONGODB__URI_FILE", "/nonexistent/uri", "readable file"),
        ("TRACKER_SERVICE_HOST", "10.0.0.1", "enableServiceLinks"),
        ("TRACKER_WORKER_PORT_80_TCP_ADDR", "10.0.0.1", "enableServiceLinks"),
    ],
)
def test_a_variable_that_cannot_be_meant_is_refused(
    tmp_path: Path, name: str, text: str, word: str
) -> None:
    assert word in str(problem(tmp_path, **{name: text}))


def test_a_setting_in_a_variable_and_in_a_file_at_once_is_refused(tmp_path: Path) -> None:
    variables = {"TRACKER_REDIS__URL": "redis://h", "TRACKER_REDIS__URL_FILE": "/etc/hostname"}
    assert problem(tmp_path, **variables).path == "redis.url"


def test_every_complaint_ends_with_what_to_write(tmp_path: Path) -> None:
    text = f"[couriers.{'x' * 60}]\nkeep = 3\n[limits.slugs.{'y' * 60}]\nper_day = 'z'\n"
    for found in problems(tmp_path, text, TRACKER_COURIERS__USPS__MODULE="Z" * 300):
        assert found.fix.endswith((".", "?"))
        assert found.fix != "Correct it."
        assert str(found).endswith(found.fix)


@pytest.mark.parametrize(
    "text",
    [
        '[redis]\nurl = "redis+cluster://u:hunter22@h"\n',
        '[redis]\nurl = "http://h/?password=hunter22"\n',
        '[mongodb]\nuri = "mongo://u:hunter22@h"\n',
        '[couriers.usps]\nclient_secret = ["hunter22"]\n',
        '[couriers.usps]\nbase_url = "https://u:hunter22@h"\n',
        'redis = "redis://:hunter22@h"\n',
    ],
)
def test_no_complaint_quotes_a_password(tmp_path: Path, text: str) -> None:
    assert "hunter22" not in str(problem(tmp_path, text))


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("TRACKER_REDIS_URL", "TRACKER_REDIS__URL"),
        ("TRACKER_LIMITS_PER_SECOND", "TRACKER_LIMITS__PER_SECOND"),
        ("TRACKER_COURIERS_USPS_CLIENT_ID", "TRACKER_COURIERS__USPS__CLIENT_ID"),
    ],
)
def test_one_underscore_in_the_place_of_two_is_named(tmp_path: Path, name: str, meant: str) -> None:
    found = problem(tmp_path, **{name: "3"})

    assert found.fix == f"Did you mean {meant}?"
