"""Hands the broker's metrics to prometheus-client, under the names of `prometheus_names`.

Called on the thread that answers a scrape. The registry is its only state.
"""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from barnabas.console.prometheus_names import (
    COUNTER_SUFFIX,
    QUANTILES,
    help_of,
    is_counter,
    labels_of,
    prometheus_names,
)
from barnabas.metrics.metrics_registry import MetricsRegistry, Sample


class MetricsCollector(Collector):
    """A Collector of prometheus-client over the broker's registry."""

    def __init__(self, metrics: MetricsRegistry) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        """Return the present values of all metrics, those of one name together."""
        # The text format requires that the samples of one name stand together, under one help text.
        families: dict[str, Metric] = {}
        for sample in self._metrics.collect():
            labels = labels_of(sample.name)
            for name in prometheus_names(sample):
                if sample.distribution is not None:
                    _add_summary(families, name, labels, sample)
                elif is_counter(sample):
                    base = name.removesuffix(COUNTER_SUFFIX)
                    _family(families, base, "counter", sample).add_sample(name, labels, sample.value)
                else:
                    _family(families, name, "gauge", sample).add_sample(name, labels, sample.value)
        return families.values()


def _family(families: dict[str, Metric], name: str, kind: str, sample: Sample) -> Metric:
    family = families.get(name)
    if family is None:
        text = f"{sample.description} ({help_of(sample.name)})"
        family = families[name] = Metric(name, text, kind)
    return family


def _add_summary(families: dict[str, Metric], name: str, labels: dict[str, str], sample: Sample) -> None:
    spread = sample.distribution
    assert spread is not None
    summary = _family(families, name, "summary", sample)
    for quantile, value in zip(QUANTILES, spread.percentiles, strict=True):
        summary.add_sample(name, {**labels, "quantile": quantile}, value)
    summary.add_sample(f"{name}_count", labels, spread.count)
    summary.add_sample(f"{name}_sum", labels, spread.total)
    # Prometheus has no minimum and maximum in a summary, so they are gauges of their own.
    for suffix, value in (("_min", spread.minimum), ("_max", spread.maximum)):
        _family(families, name + suffix, "gauge", sample).add_sample(name + suffix, labels, value)
