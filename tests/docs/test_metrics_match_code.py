"""docs/metrics.md lists the metrics that the code serves, and no others."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from service.observe.counts import Counts
from service.observe.exposition import text
from service.observe.metrics import METRICS, By, Kind

PAGE = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text("utf-8")
NAME = re.compile(r"tracker(_[a-z]+)+")
NO_BASE_UNITS = {"ms", "us", "milliseconds", "minutes", "hours", "days", "kb", "mb", "percent"}
ROW = re.compile(r"^\| `(\w+)` \| (\w+) \| (.*) \| (.+) \|$", re.MULTILINE)


@pytest.mark.parametrize("by", list(By))
def test_the_page_lists_each_metric_with_its_kind_labels_and_meaning(by: By) -> None:
    section = PAGE.split(f"<!-- {by.name.lower()} -->")[1].split("<!--")[0]
    listed = [
        (name, kind, tuple(re.findall(r"`(\w+)`", labels)), meaning)
        for name, kind, labels, meaning in ROW.findall(section)
    ]

    served = [metric for metric in METRICS if metric.by is by]
    assert listed == [(each.name, each.kind, each.labels, each.meaning) for each in served]


def exposed() -> str:
    """What processes of every kind tell, with a series of each metric."""
    counts = Counts()
    for metric in METRICS:
        if metric.kind == Kind.HISTOGRAM:
            counts.time(metric.name, *metric.labels, 1_000)
        else:
            counts.add((metric.name, *metric.labels))
    return text(list(By), counts, {}).decode()


def test_names_tell_units_and_counters_as_prometheus_wants_it() -> None:
    families = list(text_string_to_metric_families(exposed()))

    # The library takes `_total` off the name of a counter's family.
    told = {each.name + "_total" * (each.type == "counter"): each for each in families}
    assert sorted(told) == sorted(metric.name for metric in METRICS)
    assert {name for name in told if not NAME.fullmatch(name)} == set()
    for name, family in told.items():
        assert family.samples
        assert family.documentation
        assert name.endswith("_total") is (family.type == "counter"), name
        assert name.endswith("_seconds") or family.type != "histogram", name
        assert {*name.split("_")}.isdisjoint(NO_BASE_UNITS), name
        assert family.type == "gauge" or not name.endswith("_info"), name


@pytest.mark.skipif(not shutil.which("promtool"), reason="promtool is not installed")
def test_promtool_finds_nothing_wrong_with_what_is_served() -> None:
    done = subprocess.run(
        ["promtool", "check", "metrics"],
        input=exposed(),
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stdout + done.stderr) == (0, "")
