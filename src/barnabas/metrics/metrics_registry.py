"""The metrics of the broker by Kafka's names: what each is now, for whoever publishes them.

Filled by `broker` and the parts it builds, ticked by the scheduler, read by any thread. `_lock` guards the tables and
is not held while a gauge is asked. Many-membered metrics (one per topic, per partition) are registered as one family
that lists its members when asked, so that a partition costs nothing here.

Kafka: org.apache.kafka.server.metrics.KafkaMetricsGroup, KafkaYammerMetrics.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, Protocol

from barnabas.metrics.meter import Meter, Rates

logger = logging.getLogger(__name__)

TICK_INTERVAL_MS = 5000
NO_TAGS: Mapping[str, str] = {}


class MetricName(NamedTuple):
    """Kafka's name of a metric: group (`kafka.server`), type (`ReplicaManager`), name (`LeaderCount`), and tags."""

    group: str
    type: str
    name: str
    tags: tuple[tuple[str, str], ...] = ()

    @property
    def mbean(self) -> str:
        """As JMX shows it: `kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec,topic=t`."""
        tags = "".join(f",{key}={value}" for key, value in self.tags)
        return f"{self.group}:type={self.type},name={self.name}{tags}"


class Sample(NamedTuple):
    """A metric at one moment. A meter's `value` is its count, and it has rates."""

    name: MetricName
    value: float
    rates: Rates | None = None


class MetricFamily(Protocol):
    """Metrics that come and go with what they measure."""

    def samples(self) -> Iterable[Sample]:
        """Every member now."""

    def tick(self, elapsed_seconds: float) -> None:
        """Take what happened since the last tick into the rates."""


class MetricsRegistry:
    """All metrics. Registering a name again replaces it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._gauges: dict[MetricName, Callable[[], float]] = {}
        self._meters: dict[MetricName, Meter] = {}
        self._families: list[MetricFamily] = []
        self._ticked_ns: int | None = None

    def gauge(
        self, group: str, kind: str, name: str, value: Callable[[], float], tags: Mapping[str, str] = NO_TAGS
    ) -> None:
        """A metric that is computed when somebody asks."""
        with self._lock:
            self._gauges[MetricName(group, kind, name, tuple(tags.items()))] = value

    def meter(
        self, group: str, kind: str, name: str, meter: Meter | None = None, tags: Mapping[str, str] = NO_TAGS
    ) -> Meter:
        """A counter with rates: `meter`, or a new one."""
        registered = Meter() if meter is None else meter
        with self._lock:
            self._meters[MetricName(group, kind, name, tuple(tags.items()))] = registered
        return registered

    def family(self, family: MetricFamily) -> None:
        """Metrics whose number changes."""
        with self._lock:
            self._families.append(family)

    def tick(self, now_ns: int) -> None:
        """Bring all rates up to date; `now_ns` is monotonic time. Called by one thread at a time."""
        with self._lock:
            before, self._ticked_ns = self._ticked_ns, now_ns
            meters = list(self._meters.values())
            families = list(self._families)
        if before is None or now_ns <= before:
            return
        elapsed_seconds = (now_ns - before) / 1e9
        for meter in meters:
            meter.tick(elapsed_seconds)
        for family in families:
            family.tick(elapsed_seconds)

    def collect(self) -> list[Sample]:
        """Every metric now. A gauge that fails is logged and left out."""
        with self._lock:
            gauges = list(self._gauges.items())
            meters = list(self._meters.items())
            families = list(self._families)
        samples = []
        for name, value in gauges:
            try:
                samples.append(Sample(name, value()))
            except Exception:
                logger.exception("reading %s failed", name.mbean)
        samples += [Sample(name, meter.count, meter.rates) for name, meter in meters]
        for family in families:
            samples += family.samples()
        return samples
