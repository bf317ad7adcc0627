"""What was counted, as Prometheus reads it.

Families are made for each scrape out of plain sums: the library's own counters would be
another truth, and could not take what another process counted.
"""

from __future__ import annotations

import itertools
import platform
import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import assert_never
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.registry import Collector

from service import VERSION
from service.observe.counts import NOTHING_YET, SUM_US, Counts, Key
from service.observe.events import Event
from service.observe.log import Emit
from service.observe.metrics import BOUNDS_US, BUILD, METRICS, By, Kind, Metric

REST_SECONDS = 3_600.0
"""Between two looks whether to stop serving, which nobody asks for. A scrape wakes it at once."""

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4

Family = CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily

_BUILD: Mapping[Key, float] = {(BUILD.name, VERSION, platform.python_version()): 1}
_BOUNDS = (*(f"{bound / 1e6:g}" for bound in BOUNDS_US), "+Inf")


class _Families(Collector):
    """What one process tells: its counters, and how it stands now."""

    def __init__(
        self, by: Collection[By], counts: Counts, standing: Callable[[], Mapping[Key, float]]
    ) -> None:
        self._metrics = [metric for metric in METRICS if metric.by in {By.EVERY, *by}]
        self._counts = counts
        self._standing = standing

    def collect(self) -> Iterator[Family]:
        """Make the families; the library calls it."""
        # A copy: the sums grow meanwhile in another thread.
        found: Mapping[Key, float] = {
            **NOTHING_YET,
            **_BUILD,
            **self._counts.sums,
            **self._standing(),
        }
        by_name: dict[str, list[tuple[Key, float]]] = defaultdict(list)
        for (name, *labels), value in found.items():
            by_name[name].append((tuple(labels), value))
        for metric in self._metrics:
            yield _family(metric, by_name[metric.name])

    def describe(self) -> Iterable[Family]:
        """Name nothing in advance; the library calls it."""
        return ()


def text(by: Collection[By], counts: Counts, standing: Mapping[Key, float]) -> bytes:
    """Write everything that a process of these kinds tells now."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Families(by, counts, lambda: standing))
    return generate_latest(registry)


def serve(
    listen: tuple[str, int], counts: Counts, standing: Callable[[], Mapping[Key, float]], emit: Emit
) -> None:
    """Serve what a worker's parent knows, in threads of its own; `standing` is called there.

    Where nobody can listen the log says so, and that is all: workers do not need it.
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Families({By.WORKER}, counts, standing))
    host, port = listen
    try:
        server, _ = start_http_server(port, host, registry)
        threading.Thread(target=_serve_at_rest, args=(server,), daemon=True).start()
    except OSError as error:
        emit(
            Event.NO_METRICS,
            server=f"{host}:{port}",
            error=error.strerror or f"{error}",
            fix='Give [metrics] listen an address that is free, or "" for none.',
        )


def _serve_at_rest(server: WSGIServer) -> None:
    """Serve in place of the library's thread, which looks twice a second whether to stop."""
    server.shutdown()
    server.serve_forever(REST_SECONDS)


def _family(metric: Metric, found: list[tuple[Key, float]]) -> Family:
    match metric.kind:
        case Kind.COUNTER:
            counter = CounterMetricFamily(metric.name, metric.meaning, labels=metric.labels)
            for labels, value in found:
                counter.add_metric(labels, value)
            if not metric.labels and not found:
                counter.add_metric((), 0)
            return counter
        case Kind.GAUGE:
            gauge = GaugeMetricFamily(metric.name, metric.meaning, labels=metric.labels)
            for labels, value in found:
                gauge.add_metric(labels, value)
            return gauge
        case Kind.HISTOGRAM:
            return _histogram(metric, found)
    assert_never(metric.kind)


def _histogram(metric: Metric, found: list[tuple[Key, float]]) -> Family:
    family = HistogramMetricFamily(metric.name, metric.meaning, labels=metric.labels)
    series: dict[Key, dict[str, float]] = defaultdict(dict)
    for key, value in found:
        series[key[:-1]][key[-1]] = value
    for labels, told in series.items():
        each = (told.get(str(index), 0) for index in range(len(_BOUNDS)))
        buckets = list(zip(_BOUNDS, itertools.accumulate(each), strict=True))
        family.add_metric(labels, buckets, told.get(SUM_US, 0) / 1e6)
    return family
