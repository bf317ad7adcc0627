"""No problem of a configuration hides another, and none is told that may not be one."""

from __future__ import annotations

from pathlib import Path

import pytest
from config_problems import problem, problems

LAYERS = """\
[worker]
processes = many
[limits]
per_second = "fast"
concurent = 3
[retry]
cap_seconds = 5.0
[redis]
url = "redis+cluster://h"
[couriers.upps]
client_id = "x"
[limits.slugs.acme]
per_second = 1
"""


def test_no_problem_hides_another_of_whatever_kind_they_are(tmp_path: Path) -> None:
    found = problems(tmp_path, LAYERS, TRACKER_LOG__LEVEL="loud", TRACKER_DEAD__KEEP_DAYS="x")
    assert {each.path: each.where.rpartition(":")[2] for each in found} == {
        "worker.processes": "2",
        "limits.per_second": "4",
        "limits.concurent": "5",
        "retry.cap_seconds": "7",
        "redis.url": "9",
        "couriers.upps": "10",
        "limits.slugs.acme": "12",
        "log.level": "TRACKER_LOG__LEVEL",
        "dead.keep_days": "TRACKER_DEAD__KEEP_DAYS",
    }


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ('[limits]\ncall_timeout_seconds = "x"\nlease_seconds = 50\n', "call_timeout_seconds"),
        ("[limits]\ncall_timeout_seconds = x\nlease_seconds = 50\n", "call_timeout_seconds"),
        ('[retry]\nfirst_seconds = "x"\ncap_seconds = 5.0\n', "first_seconds"),
        ('[redis]\nsentinels = [1]\nservice = "m"\n', "sentinels"),
        ("[couriers.acme]\nmodule = json_feed\n", "module"),
        ("[couriers.acme\n[limits.slugs.acme]\nper_second = 1\n", "acme"),
        ("couriers = 3\n[limits.slugs.acme]\nper_second = 1\n", "couriers"),
    ],
)
def test_what_depends_on_a_wrong_value_is_not_complained_of(
    tmp_path: Path, text: str, path: str
) -> None:
    assert problem(tmp_path, text).path.rpartition(".")[2] == path


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("[redis]\nurl = \n", [2]),
        ("[worker]\nprocesses = 1o\n[log]\nlevel = info\n", [2, 4]),
        ('[beanstalkd]\nservers = ["a:1"\nallow_loss = true\n[log]\nlevel = "debug"\n', [2]),
        ('[beanstalkd]\nservers = [\n"a:1"\n"b:1"\n]\nallow_loss = no\n', [2, 6]),
        ('[redis]\nurl = """x\n[log]\nlevel = "debug"\n', [2]),
        ("[worker]\n[log]\n[worker]\nprocesses = 2\n", [3]),
        ("[log]\nlevel = 'debug'\nlevel = 'info'\n", [3]),
        ("[worker\nprocesses = 0\nlevel = 3\n[log]\nlevel = 'debug'\n", [1]),
        ("processes 2\n[log]\nlevel = debug\n", [1, 3]),
    ],
)
def test_text_that_is_no_toml_is_refused_slip_by_slip(
    tmp_path: Path, text: str, lines: list[int]
) -> None:
    found = problems(tmp_path, text)
    assert [int(each.where.rpartition(":")[2]) for each in found] == lines
    assert all("not TOML" in each.found for each in found)


def test_a_slip_says_how_to_write_the_setting(tmp_path: Path) -> None:
    found = problem(tmp_path, "[log]\nlevel = info\n")
    assert found.path == "log.level"
    assert found.expected == 'one of "debug", "error", "info", "warning"'
    assert found.fix == 'Write for example level = "info".'


def test_a_file_of_something_else_is_refused_after_some_slips(tmp_path: Path) -> None:
    assert len(problems(tmp_path, "key = no value\n" * 1000)) == 20
