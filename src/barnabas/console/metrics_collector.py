"""Hands the broker's metrics to prometheus-client, under names made from Kafka's.

Called on the thread that answers a scrape. The registry is its only state. The names follow the rule of the
jmx_exporter's example for Kafka, so dashboards made for it find `kafka_server_brokertopicmetrics_messagesin_total` and
`kafka_network_requestmetrics_totaltimems{request="Produce",quantile="0.99"}`:

- `group_type_name`, in lower case; all characters but letters, digits and underscores become underscores.
- A meter loses its `PerSec` and the rest of its name, and gains `_total`: it is a counter, and Prometheus makes rates.
- A histogram is a summary: its name with `quantile`, `_count`, `_sum`; and gauges `_min` and `_max`.
- A quota's attributes become `kafka_server_quota_...`, with the labels `resource`, `user` and `clientId`.
- A share of time (`...Percent`) has two names, since published rule sets have both: `...percent`, and `..._percent`.
- All other tags become labels; `-` becomes `_`.
- A percentile has the digits of its JMX attribute: `50thPercentile` is `quantile="0.50"`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import Final

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from barnabas.metrics.histogram import PERCENTILES
from barnabas.metrics.metrics_registry import MBeanName, MetricsRegistry, Sample

COUNTER_SUFFIX: Final = "_total"
QUANTILES: Final = tuple(f"{percentile:.3f}".removesuffix("0") for percentile in PERCENTILES)
"""The label `quantile` of each percentile: at least two digits, as in the names of Kafka's JMX attributes."""
_QUOTA_LABELS: Final = {"user": "user", "client-id": "clientId"}
_PERCENT: Final = re.compile(r"(.*)Percent\w*")
_PER_SECOND: Final = re.compile(r"PerSec\w*$")
_NOT_ALLOWED: Final = re.compile(r"[^a-zA-Z0-9_]")


def is_counter(sample: Sample) -> bool:
    """Return whether the sample only grows, and is no histogram."""
    return sample.distribution is None and (sample.rates is not None or sample.is_counter)


def prometheus_names(sample: Sample) -> tuple[str, ...]:
    """Return the names of a sample's metric, with `_total` for a counter; a share of time has two of them."""
    name = sample.name
    if _is_of_quota(name):
        return (_name("kafka.server", "quota", name.name, is_counter(sample)),)
    return _names(name.group, name.type, name.name, is_counter(sample), name.is_attribute)


def labels_of(name: MBeanName) -> dict[str, str]:
    """Return the labels that a metric's tags become."""
    if _is_of_quota(name):
        return {"resource": name.type} | {_QUOTA_LABELS[tag]: value for tag, value in name.tags}
    return {_label(tag): value for tag, value in name.tags}


def _is_of_quota(name: MBeanName) -> bool:
    return name.is_attribute and bool(name.tags) and all(tag in _QUOTA_LABELS for tag, _ in name.tags)


# Cached, because thousands of partitions have the same names. Their number is that of the names in the code.
@cache
def _names(group: str, kind: str, name: str, counter: bool, is_attribute: bool) -> tuple[str, ...]:
    plain = _name(group, kind, name, counter)
    share = None if is_attribute else _PERCENT.fullmatch(name)
    return (plain,) if share is None else (plain, _name(group, kind, f"{share[1]}_percent", counter))


@cache
def _name(group: str, kind: str, name: str, counter: bool) -> str:
    if counter:
        name = _PER_SECOND.sub("", name).removesuffix("-total") + COUNTER_SUFFIX
    return _NOT_ALLOWED.sub("_", f"{group}_{kind}_{name}").lower()


@cache
def _label(tag: str) -> str:
    return _NOT_ALLOWED.sub("_", tag)


def help_of(name: MBeanName) -> str:
    """Return the name of the metric's MBean in Kafka, without the values of its tags."""
    tags = tuple((tag, "*") for tag, _ in name.tags)
    return name._replace(tags=tags).mbean


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
