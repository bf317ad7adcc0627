"""The alert rules and the dashboard ask for metrics that are served, and the rules alert."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from service.observe.events import Event
from service.observe.metrics import METRICS, Kind

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples" / "monitoring"
PARTS = {Kind.HISTOGRAM: ("_bucket", "_sum", "_count")}
SERVED = {
    metric.name + part: {*metric.labels, *({"le"} if part == "_bucket" else ())}
    for metric in METRICS
    for part in PARTS.get(metric.kind, ("",))
}
OF_PROMETHEUS = {"up"}
LABELS_OF_PROMETHEUS = {"job", "instance"}
LANGUAGE = {
    *("sum", "max", "min", "avg", "count", "topk", "by", "on", "unless", "or", "offset", "vector"),
    *("rate", "increase", "avg_over_time", "min_over_time", "histogram_quantile"),
}


def rules() -> list[dict[str, Any]]:
    [group] = yaml.safe_load((FOLDER / "prometheus-rules.yml").read_text())["groups"]
    found: list[dict[str, Any]] = group["rules"]
    return found


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / "grafana-dashboard.json").read_text())
    return found


def expressions() -> list[str]:
    panels = dashboard()["panels"]
    shown = [target["expr"] for panel in panels for target in panel["targets"]]
    return [rule["expr"] for rule in rules()] + shown


def metrics_in(expression: str) -> dict[str, set[str]]:
    """The metrics of an expression, each with the labels that are asked of it in braces."""
    selectors = re.findall(r"\b([a-z]\w*)(?:\{([^}]*)\})?", _without_groups(expression))
    return {
        name: set(re.findall(r"(\w+)\s*[=!]~?", labels))
        for name, labels in selectors
        if name not in LANGUAGE
    }


def _without_groups(expression: str) -> str:
    """Without lists of labels and lengths of time."""
    return re.sub(r"\b(?:by|on) \([^)]*\)|\[[^]]*\]", "", expression)


def grouped_by(expression: str) -> set[str]:
    lists = re.findall(r"\b(?:by|on) \(([^)]*)\)", expression)
    return {label.strip() for each in lists for label in each.split(",")}


@pytest.mark.parametrize("expression", expressions())
def test_an_expression_asks_for_metrics_and_labels_that_are_served(expression: str) -> None:
    asked = metrics_in(expression)

    assert asked
    assert set(asked) <= set(SERVED) | OF_PROMETHEUS
    for name, labels in asked.items():
        assert labels <= SERVED.get(name, set()) | LABELS_OF_PROMETHEUS, name
    known = set[str]().union(*(SERVED.get(name, set()) for name in asked))
    assert grouped_by(expression) <= known | LABELS_OF_PROMETHEUS


def test_an_expression_with_a_wrong_metric_or_label_is_noticed() -> None:
    assert metrics_in('rate(courier_cals_total{slag="x"}[5m])') == {"courier_cals_total": {"slag"}}
    assert grouped_by("sum by (slug, outcom) (x)") == {"slug", "outcom"}


def test_the_dashboard_shows_every_metric() -> None:
    shown = {name for panel in expressions() for name in metrics_in(panel)}
    parts = {name for metric in METRICS for name in (metric.name, f"{metric.name}_bucket")}

    assert {each.name for each in METRICS} <= {name.removesuffix("_bucket") for name in shown}
    assert shown <= parts | OF_PROMETHEUS


def test_alerts_name_events_of_the_log_that_there_are() -> None:
    asked = re.findall(r'event=~?"([^"]+)"', "\n".join(expressions()))
    known = {event.value for event in Event if event.level in {"warning", "error"}}

    assert {event for each in asked for event in each.split("|")} <= known


def drills() -> dict[str, str]:
    """What the runbook says of each alert, by its heading."""
    text = (ROOT / "docs" / "runbook.md").read_text().split("\n## Alerts\n")[1].split("\n## ")[0]
    return dict(re.findall(r"^### (\w+)\n\n(.*?)(?=^### |\Z)", text, re.MULTILINE | re.DOTALL))


def test_the_runbook_says_what_to_look_at_on_each_alert_and_how_to_see_it_once() -> None:
    said = drills()

    assert list(said) == [rule["alert"] for rule in rules()]
    for text in said.values():
        look, drill = text.strip().split("\n\n")
        assert look
        assert drill.startswith("Drill: ")


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: str(rule["alert"]))
def test_an_alert_says_what_it_means_and_leads_to_its_place_in_the_runbook(
    rule: dict[str, Any],
) -> None:
    said = rule["annotations"]
    page, _, anchor = said["runbook_url"].partition("#")

    assert set(said) == {"summary", "description", "runbook_url"}
    assert said["description"].endswith(".")
    assert (ROOT / page).samefile(ROOT / "docs" / "runbook.md")
    assert anchor in {name.lower() for name in drills()}
    assert anchor == rule["alert"].lower()


def test_each_alert_is_seen_to_fire_in_the_rules_test() -> None:
    text = (FOLDER / "prometheus-rules-test.yml").read_text()

    named = {rule["alert"] for rule in rules()}
    assert named == {name for name in named if f'alertname="{name}"' in text or f": {name}" in text}


@pytest.mark.skipif(not shutil.which("promtool"), reason="promtool is not installed")
@pytest.mark.parametrize(
    "command",
    [
        ("check", "config", "prometheus.yml"),
        ("check", "config", "--agent", "prometheus-doors.yml"),
        ("test", "rules", "prometheus-rules-test.yml"),
    ],
)
def test_promtool_finds_nothing_wrong(command: tuple[str, ...]) -> None:
    done = subprocess.run(
        ["promtool", *command], cwd=FOLDER, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr
