"""The metrics of the broker by Kafka's names, and their current values for the parts that publish them.

Filled by `broker` and the parts it builds, ticked by the scheduler, read by any thread. `_lock` guards the tables and
is not held while a gauge is read. Metrics with many members (one per topic, per partition) are registered as one family
that lists its members when they are read, so that a partition costs nothing here.
Kafka: KafkaMetricsGroup, KafkaYammerMetrics; and for attributes Metrics, its second metrics library.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, Protocol, TypeVar

from barnabas.metrics.histogram import Distribution, DurationTimer, Histogram
from barnabas.metrics.meter import Meter, Rates

logger = logging.getLogger(__name__)

TICK_INTERVAL_MS = 5000
NO_TAGS: Mapping[str, str] = {}


class MBeanName(NamedTuple):
    """Kafka's name of a metric: group (`kafka.server`), type (`ReplicaManager`), name (`LeaderCount`), and tags."""

    group: str
    type: str
    name: str
    tags: tuple[tuple[str, str], ...] = ()
    is_attribute: bool = False
    """Whether the metric is of Kafka's second library, where `name` is an attribute of the bean, not a part of its
    name."""

    @property
    def mbean(self) -> str:
        """The name as JMX shows it: `kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec,topic=t`.

        An attribute follows its bean: `kafka.server:type=Produce,client-id=c/byte-rate`.
        """
        tags = "".join(f",{key}={value}" for key, value in self.tags)
        if self.is_attribute:
            return f"{self.group}:type={self.type}{tags}/{self.name}"
        return f"{self.group}:type={self.type},name={self.name}{tags}"


class Sample(NamedTuple):
    """A metric at one moment. `value` of a meter and of a histogram is its count.

    description: what the metric says, for the help text of `/metrics` and for docs/metrics.md.
    """

    name: MBeanName
    value: float
    description: str
    rates: Rates | None = None
    distribution: Distribution | None = None
    is_counter: bool = False
    """Whether the value only grows, though it has no rates: an attribute `...-total`."""


class MetricFamily(Protocol):
    """A group of metrics that come and go with the objects that they measure."""

    def samples(self) -> Iterable[Sample]:
        """Return the current value of every member."""

    def tick(self, elapsed_seconds: float) -> None:
        """Take the events since the last tick into the rates."""


Gauge = Callable[[], float]
"""A metric that is computed when it is read."""
AnyMetric = Gauge | Meter | Histogram | DurationTimer
Metric = TypeVar("Metric", bound=AnyMetric)


class _Registered(NamedTuple):
    metric: AnyMetric
    description: str


class MetricsRegistry:
    """The table of all metrics. Registering a name again replaces its metric."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._metrics: dict[MBeanName, _Registered] = {}
        self._families: list[MetricFamily] = []
        self._ticked_ns: int | None = None

    def register(
        self,
        group: str,
        kind: str,
        name: str,
        description: str,
        metric: Metric,
        tags: Mapping[str, str] = NO_TAGS,
    ) -> Metric:
        """Register a metric, and return it. A text is a gauge of 1 with the text in the tag `value`."""
        with self._lock:
            self._metrics[MBeanName(group, kind, name, tuple(tags.items()))] = _Registered(metric, description)
        return metric

    def register_attribute(
        self, group: str, kind: str, name: str, description: str, gauge: Gauge, tags: Mapping[str, str] = NO_TAGS
    ) -> None:
        """Register a metric of Kafka's second library.

        `kind` is its group there (`Produce`), `name` what is measured (`byte-rate`). One that ends in `-total` only
        grows.
        """
        with self._lock:
            self._metrics[MBeanName(group, kind, name, tuple(tags.items()), True)] = _Registered(gauge, description)

    def family(self, family: MetricFamily) -> None:
        """Register metrics that come and go, such as those of partitions and clients."""
        with self._lock:
            self._families.append(family)

    def remove(self, group: str, kind: str, name: str, tags: Mapping[str, str] = NO_TAGS) -> None:
        """Forget a metric of any sort, because its subject is gone. An unknown one is no error."""
        plain = MBeanName(group, kind, name, tuple(tags.items()))
        with self._lock:
            self._metrics.pop(plain, None)
            self._metrics.pop(plain._replace(is_attribute=True), None)

    def tick(self, now_ns: int) -> None:
        """Bring all rates up to date; `now_ns` is monotonic time. Called by one thread at a time."""
        with self._lock:
            before, self._ticked_ns = self._ticked_ns, now_ns
            metrics = [each.metric for each in self._metrics.values()]
            ticking = [each for each in metrics if isinstance(each, Meter | Histogram | DurationTimer)]
            families = list(self._families)
        # The first tick only sets the origin. The metrics tick without the lock, since a family may take locks of its
        # own.
        if before is None or now_ns <= before:
            return
        elapsed_seconds = (now_ns - before) / 1e9
        for each in (*ticking, *families):
            try:
                each.tick(elapsed_seconds)
            except Exception:
                logger.exception("the rates of %s could not be computed", each)

    def collect(self) -> list[Sample]:
        """Return the current value of every metric. A gauge that fails is logged and left out."""
        with self._lock:
            metrics = list(self._metrics.items())
            families = list(self._families)
        # Without the lock from here on: a gauge may take locks of its own, in an order that the registry does not know.
        samples = []
        for name, registered in metrics:
            try:
                samples.append(_sample(name, *registered))
            except Exception:
                logger.exception("reading %s failed", name.mbean)
        for family in families:
            try:
                samples += family.samples()
            except Exception:
                logger.exception("reading the metrics of %s failed", family)
        return samples


def _sample(name: MBeanName, metric: AnyMetric, description: str) -> Sample:
    """Return the current value of a metric. Raises what a gauge raises."""
    if isinstance(metric, Meter):
        return Sample(name, metric.count, description, metric.rates)
    if isinstance(metric, Histogram):
        spread = metric.distribution()
        return Sample(name, spread.count, description, distribution=spread)
    if isinstance(metric, DurationTimer):
        spread = metric.durations.distribution()
        return Sample(name, spread.count, description, metric.meter.rates, spread)
    return Sample(name, metric(), description, is_counter=name.is_attribute and name.name.endswith("-total"))
