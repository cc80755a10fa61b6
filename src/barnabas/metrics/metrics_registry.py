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
from typing import Any, NamedTuple, Protocol

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
    """A metric at one moment. `value` of a meter and of a histogram is its count."""

    name: MBeanName
    value: float
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


class MetricsRegistry:
    """The table of all metrics. Registering a name again replaces its metric."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._gauges: dict[MBeanName, Callable[[], float]] = {}
        self._meters: dict[MBeanName, Meter] = {}
        self._histograms: dict[MBeanName, Histogram] = {}
        self._timers: dict[MBeanName, DurationTimer] = {}
        self._families: list[MetricFamily] = []
        self._ticked_ns: int | None = None

    def gauge(
        self, group: str, kind: str, name: str, value: Callable[[], float], tags: Mapping[str, str] = NO_TAGS
    ) -> None:
        """Register a metric that is computed when it is read."""
        with self._lock:
            self._gauges[MBeanName(group, kind, name, tuple(tags.items()))] = value

    def meter(
        self, group: str, kind: str, name: str, meter: Meter | None = None, tags: Mapping[str, str] = NO_TAGS
    ) -> Meter:
        """Register a counter with rates: `meter`, or a new one. Returns it."""
        registered = Meter() if meter is None else meter
        with self._lock:
            self._meters[MBeanName(group, kind, name, tuple(tags.items()))] = registered
        return registered

    def histogram(
        self,
        group: str,
        kind: str,
        name: str,
        histogram: Histogram | None = None,
        tags: Mapping[str, str] = NO_TAGS,
    ) -> Histogram:
        """Register numbers counted by size: `histogram`, or a new one. Returns it."""
        registered = Histogram() if histogram is None else histogram
        with self._lock:
            self._histograms[MBeanName(group, kind, name, tuple(tags.items()))] = registered
        return registered

    def timer(
        self, group: str, kind: str, name: str, timer: DurationTimer | None = None, tags: Mapping[str, str] = NO_TAGS
    ) -> DurationTimer:
        """Register durations with rates: `timer`, or a new one. Returns it."""
        registered = DurationTimer() if timer is None else timer
        with self._lock:
            self._timers[MBeanName(group, kind, name, tuple(tags.items()))] = registered
        return registered

    def attribute(
        self, group: str, kind: str, name: str, value: Callable[[], float], tags: Mapping[str, str] = NO_TAGS
    ) -> None:
        """Register a gauge of Kafka's second library. One that ends in `-total` only grows.

        `kind` is its group there (`Produce`), `name` what is measured (`byte-rate`).
        """
        with self._lock:
            self._gauges[MBeanName(group, kind, name, tuple(tags.items()), is_attribute=True)] = value

    def text(
        self,
        group: str,
        kind: str,
        name: str,
        text: str,
        tags: Mapping[str, str] = NO_TAGS,
        *,
        is_attribute: bool = False,
    ) -> None:
        """Register a text that does not change. It is published as a gauge of 1 with the tag `value`."""
        tagged = (*tags.items(), ("value", text))
        with self._lock:
            self._gauges[MBeanName(group, kind, name, tagged, is_attribute=is_attribute)] = lambda: 1

    def family(self, family: MetricFamily) -> None:
        """Register metrics whose number changes."""
        with self._lock:
            self._families.append(family)

    def remove(self, group: str, kind: str, name: str, tags: Mapping[str, str] = NO_TAGS) -> None:
        """Forget a metric of any sort, because its subject is gone. An unknown one is no error."""
        plain = MBeanName(group, kind, name, tuple(tags.items()))
        tables: tuple[dict[MBeanName, Any], ...] = (self._gauges, self._meters, self._histograms, self._timers)
        with self._lock:
            for table in tables:
                table.pop(plain, None)
            self._gauges.pop(plain._replace(is_attribute=True), None)

    def tick(self, now_ns: int) -> None:
        """Bring all rates up to date; `now_ns` is monotonic time. Called by one thread at a time."""
        with self._lock:
            before, self._ticked_ns = self._ticked_ns, now_ns
            ticking: list[Meter | Histogram | DurationTimer | MetricFamily] = [
                *self._meters.values(),
                *self._histograms.values(),
                *self._timers.values(),
                *self._families,
            ]
        # The first tick only sets the origin. The metrics tick without the lock, since a family may take locks of its
        # own.
        if before is None or now_ns <= before:
            return
        elapsed_seconds = (now_ns - before) / 1e9
        for each in ticking:
            try:
                each.tick(elapsed_seconds)
            except Exception:
                logger.exception("the rates of %s could not be computed", each)

    def collect(self) -> list[Sample]:
        """Return the current value of every metric. A gauge that fails is logged and left out."""
        with self._lock:
            gauges = list(self._gauges.items())
            meters = list(self._meters.items())
            histograms = list(self._histograms.items())
            timers = list(self._timers.items())
            families = list(self._families)
        # Without the lock from here on: a gauge may take locks of its own, in an order that the registry does not know.
        samples = []
        for name, value in gauges:
            try:
                is_counter = name.is_attribute and name.name.endswith("-total")
                samples.append(Sample(name, value(), is_counter=is_counter))
            except Exception:
                logger.exception("reading %s failed", name.mbean)
        samples += [Sample(name, meter.count, meter.rates) for name, meter in meters]
        for name, histogram in histograms:
            spread = histogram.distribution()
            samples.append(Sample(name, spread.count, distribution=spread))
        for name, timer in timers:
            spread = timer.durations.distribution()
            samples.append(Sample(name, spread.count, timer.meter.rates, spread))
        for family in families:
            try:
                samples += family.samples()
            except Exception:
                logger.exception("reading the metrics of %s failed", family)
        return samples
