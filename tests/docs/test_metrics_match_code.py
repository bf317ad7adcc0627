"""docs/metrics.md lists the metrics that the code serves, and no others."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from service.observe.metrics import METRICS, By

PAGE = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text("utf-8")
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


def test_names_tell_units_and_counters_as_prometheus_wants_it() -> None:
    assert len({metric.name for metric in METRICS}) == len(METRICS)
    assert all(metric.name.endswith("_total") is (metric.kind == "counter") for metric in METRICS)
