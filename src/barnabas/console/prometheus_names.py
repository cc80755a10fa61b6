"""The Prometheus names of metrics, made from Kafka's names by the rule of the jmx_exporter's example for Kafka.

Pure; used by `metrics_collector` and by docs/metrics.md. The rule:

- `group_type_name`, in lower case; all characters but letters, digits and underscores become underscores.
- A meter loses its `PerSec` and the rest of its name, and gains `_total`: it is a counter, and Prometheus makes rates.
- A histogram is a summary: its name with `quantile`, `_count`, `_sum`; and gauges `_min` and `_max`.
- Tags become labels; `-` becomes `_`.

So dashboards made for Kafka behind the jmx_exporter find `kafka_server_brokertopicmetrics_messagesin_total`,
`kafka_network_requestmetrics_totaltimems{request="Produce",quantile="0.99"}`.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from barnabas.metrics.metrics_registry import MBeanName, Sample

COUNTER_SUFFIX: Final = "_total"
_PER_SECOND: Final = re.compile(r"PerSec\w*$")
_NOT_ALLOWED: Final = re.compile(r"[^a-zA-Z0-9_]")


def is_counter(sample: Sample) -> bool:
    """Return whether the sample only grows, and is no histogram."""
    return sample.distribution is None and (sample.rates is not None or sample.is_counter)


def prometheus_name(sample: Sample) -> str:
    """Return the name of a sample's metric, with `_total` for a counter."""
    name = sample.name
    return _name(name.group, name.type, name.name, is_counter(sample))


def labels_of(name: MBeanName) -> dict[str, str]:
    """Return the labels that a metric's tags become."""
    return {_label(tag): value for tag, value in name.tags}


# Cached, because thousands of partitions have the same names. Their number is that of the names in the code.
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
