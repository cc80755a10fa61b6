"""What the jmx_exporter makes of Kafka's metrics, by the rules of its example configuration for Kafka.

Applied by `metrics_page` to the metrics of a running broker: a dashboard made for Kafka behind the exporter must find
here each gauge, counter and percentile that it asks for, label by label.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from barnabas.console.metrics_collector import MetricsCollector
from barnabas.metrics.metrics_registry import MetricsRegistry, Sample

EXPORTER_RULES: tuple[tuple[str, str, dict[str, str]], ...] = (
    # What the example configuration of the exporter for Kafka makes of a bean `group<type=..., name=..., tag=...><>`
    # and an attribute: the first rule that matches decides. In a name and a label, {n} is the n-th group.
    (r"kafka.server<type=(.+), name=(.+), clientId=(.+), topic=(.+), partition=(.*)><>Value", "kafka_server_{1}_{2}",
     {"clientId": "{3}", "topic": "{4}", "partition": "{5}"}),
    (r"kafka.coordinator.(\w+)<type=(.+), name=(.+)><>Value", "kafka_coordinator_{1}_{2}_{3}", {}),
    (r"kafka.(\w+)<type=(.+), name=(.+)PerSec\w*, (.+)=(.+), (.+)=(.+)><>Count", "kafka_{1}_{2}_{3}_total",
     {"{4}": "{5}", "{6}": "{7}"}),
    (r"kafka.(\w+)<type=(.+), name=(.+)PerSec\w*, (.+)=(.+)><>Count", "kafka_{1}_{2}_{3}_total", {"{4}": "{5}"}),
    (r"kafka.(\w+)<type=(.+), name=(.+)PerSec\w*><>Count", "kafka_{1}_{2}_{3}_total", {}),
    (r"kafka.server<type=(.+), client-id=(.+)><>([a-z-]+)", "kafka_server_quota_{3}",
     {"resource": "{1}", "clientId": "{2}"}),
    (r"kafka.(\w+)<type=(.+), name=(.+), (.+)=(.+), (.+)=(.+)><>Value", "kafka_{1}_{2}_{3}",
     {"{4}": "{5}", "{6}": "{7}"}),
    (r"kafka.(\w+)<type=(.+), name=(.+), (.+)=(.+)><>Value", "kafka_{1}_{2}_{3}", {"{4}": "{5}"}),
    (r"kafka.(\w+)<type=(.+), name=(.+)><>Value", "kafka_{1}_{2}_{3}", {}),
    (r"kafka.(\w+)<type=(.+), name=(.+), (.+)=(.*), (.+)=(.+)><>(\d+)thPercentile", "kafka_{1}_{2}_{3}",
     {"{4}": "{5}", "{6}": "{7}", "quantile": "0.{8}"}),
    (r"kafka.(\w+)<type=(.+), name=(.+), (.+)=(.*)><>(\d+)thPercentile", "kafka_{1}_{2}_{3}",
     {"{4}": "{5}", "quantile": "0.{6}"}),
    (r"kafka.(\w+)<type=(.+), name=(.+)><>(\d+)thPercentile", "kafka_{1}_{2}_{3}", {"quantile": "0.{4}"}),
)  # fmt: skip
PERCENTILES = ("50", "75", "95", "98", "99", "999")
NOT_IN_THE_EXAMPLE = {"VerificationFailureRate", "cleaner-io"}
"""Meters without PerSec: docs/metrics.md."""


def exported(sample: Sample) -> set[str]:
    """The series that the exporter's example makes of a metric, as text; none for attributes without a rule."""
    name = sample.name
    tags = "".join(f", {tag}={value}" for tag, value in name.tags)
    if name.is_attribute:
        attributes = [(f"{name.group}<type={name.type}{tags}>", name.name)]
    else:
        kinds: tuple[str, ...] = ("Value",) if sample.rates is None else ("Count",)
        if sample.distribution is not None:
            kinds = tuple(f"{percentile}thPercentile" for percentile in PERCENTILES)
        attributes = [(f"{name.group}<type={name.type}, name={name.name}{tags}>", kind) for kind in kinds]
    series = set()
    for bean, attribute in attributes:
        for pattern, made, labels in EXPORTER_RULES:
            if (found := re.fullmatch(f".*(?:{pattern}).*", f"{bean}<>{attribute}")) is not None:
                values = ("", *found.groups())
                text = {key.format(*values): value.format(*values) for key, value in labels.items()}
                series.add(_series(made.format(*values).lower(), text))
                break
    return series


def _series(name: str, labels: dict[str, str]) -> str:
    safe = {re.sub(r"\W", "_", key): value for key, value in labels.items()}
    return f"{re.sub(r'[^a-z0-9_]', '_', name)} {sorted(safe.items())}"


class _Family:
    """Samples of earlier, as a metric family."""

    def __init__(self, samples: Iterable[Sample]) -> None:
        self._samples = list(samples)

    def samples(self) -> Iterable[Sample]:
        return self._samples

    def tick(self, elapsed_seconds: float) -> None:
        """Do nothing."""


def missing_series(samples: list[Sample]) -> tuple[int, list[str]]:
    """Return how many series the example makes of these metrics, and those that are not published."""
    registry = MetricsRegistry()
    registry.family(_Family(samples))
    published = {
        _series(sample.name, sample.labels)
        for family in MetricsCollector(registry).collect()
        for sample in family.samples
    }
    expected = {
        series
        for sample in samples
        # The example's rules are for beans of at most two tags; of more tags they make one label.
        if sample.name.name not in NOT_IN_THE_EXAMPLE and (len(sample.name.tags) <= 2 or _is_lag(sample))
        for series in exported(sample)
    }
    return len(expected), sorted(expected - published)


def _is_lag(sample: Sample) -> bool:
    return sample.name.type == "FetcherLagMetrics"
