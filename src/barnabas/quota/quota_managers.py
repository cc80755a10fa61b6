"""All client quotas of a broker: the windows in which they are measured, the settings, the metrics.

Made by `broker` at start. `update` is called by `metadata.client_quota_store`, one call at a time; the managers are
charged by `api.throttle`, which is notified of changes. Threads and locks of a manager: as ClientQuotaManager. The
metrics have Kafka's names, one set for each share of a quota while the share exists; any thread reads them.
Kafka: QuotaFactory.QuotaManagers, QuotaConfigHandler, ClientRequestQuotaManager, ControllerMutationQuotaManager, and
the metrics of ClientQuotaManager (`kafka.server:type=Produce,user=..`).
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from barnabas.config.kafka_config import KafkaConfig
from barnabas.config.setting import Settings, setting
from barnabas.metrics.metrics_registry import MBeanName, MetricsRegistry, Sample
from barnabas.metrics.rate import Rate, SampleWindow
from barnabas.quota.client_quota_manager import ClientQuotaManager, QuotaWindows
from barnabas.quota.quota_entity import (
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    KafkaQuotaEntity,
    QuotaType,
)
from barnabas.quota.quota_limits import Share
from barnabas.quota.quota_sensor import QuotaSensor, TokenSensor
from barnabas.runtime.clock import NANOSECONDS_PER_MILLISECOND, Clock

if TYPE_CHECKING:
    from barnabas.quota.controller_mutation_quota import ControllerMutationQuota

logger = logging.getLogger(__name__)

PERCENT_OF_A_SECOND: Final = 100 / 1_000_000_000
"""A nanosecond of a thread, as percent of a second."""


def _in_milliseconds(seconds: int) -> int:
    return seconds * 1000


class QuotaConfig(Settings):
    """The windows: numbers of samples, and the length of one. They change with the file only.

    statistics: of rates that are shown and limit nothing. Kafka: ClientQuotaManagerConfig.
    """

    client_samples: int = setting("quota.window.num")
    client_window_ms: int = setting("quota.window.size.seconds", _in_milliseconds)
    controller_samples: int = setting("controller.quota.window.num")
    controller_window_ms: int = setting("controller.quota.window.size.seconds", _in_milliseconds)
    replication_samples: int = setting("replication.quota.window.num")
    replication_window_ms: int = setting("replication.quota.window.size.seconds", _in_milliseconds)
    alter_log_dirs_samples: int = setting("alter.log.dirs.replication.quota.window.num")
    alter_log_dirs_window_ms: int = setting("alter.log.dirs.replication.quota.window.size.seconds", _in_milliseconds)
    statistics_samples: int = setting("metrics.num.samples")
    statistics_window_ms: int = setting("metrics.sample.window.ms")


class ClientRequestQuotaManager(ClientQuotaManager):
    """The quota of thread time, in percent of one thread, request handler and network thread together.

    No client waits for longer than one sample of the window. `_exempt_lock` guards the rate of the time that is charged
    to no client.
    """

    def __init__(self, windows: QuotaWindows) -> None:
        super().__init__(QuotaType.REQUEST, windows, "request-time")
        self._max_throttle_time_ms = windows.quota.sample_ms
        self._exempt_lock = threading.Lock()
        self._exempt = Rate(windows.statistics)

    def record_time_and_get_throttle_time_ms(self, user: str, client_id: str, time_ns: int, now_ms: int) -> int:
        """Count the time that a client's request took, and return how long its connection is to be muted."""
        wait_ms = self.record_and_get_throttle_time_ms(user, client_id, time_ns * PERCENT_OF_A_SECOND, now_ms)
        # As in Kafka: one sample is the longest wait, although the rate may still be above the quota after it.
        return min(wait_ms, self._max_throttle_time_ms)

    def record_network_time(self, user: str, client_id: str, time_ns: int, now_ms: int) -> None:
        """Count the time of receiving the request and sending its answer, which is known only afterwards."""
        self.record_no_throttle(user, client_id, time_ns * PERCENT_OF_A_SECOND, now_ms)

    def record_exempt(self, time_ns: int, now_ms: int) -> None:
        """Count time that is charged to no client."""
        with self._exempt_lock:
            self._exempt.record(time_ns * PERCENT_OF_A_SECOND, now_ms)

    def exempt_request_time(self, now_ms: int) -> float:
        """Return the value of the gauge `exempt-request-time`."""
        with self._exempt_lock:
            return self._exempt.measure(now_ms)


class ControllerMutationQuotaManager(ClientQuotaManager):
    """The quota of created and deleted partitions (credits). now_ms: milliseconds of a clock that does not go back."""

    def __init__(self, windows: QuotaWindows, now_ms: Callable[[], int]) -> None:
        super().__init__(QuotaType.CONTROLLER_MUTATION, windows)
        self._now_ms = now_ms

    def quota_for(self, user: str, client_id: str, *, strict: bool) -> ControllerMutationQuota:
        """Return the quota of one request. strict: the request may be refused, because its version knows that error."""
        # Here, since a broker that creates no topics on request needs none.
        from barnabas.quota.controller_mutation_quota import (  # noqa: PLC0415
            UNBOUNDED,
            PermissiveControllerMutationQuota,
            StrictControllerMutationQuota,
        )

        if not self.limits:
            return UNBOUNDED
        sensor = self.sensor_of(user, client_id, self._now_ms())
        assert isinstance(sensor, TokenSensor)
        made = StrictControllerMutationQuota if strict else PermissiveControllerMutationQuota
        return made(sensor, self._now_ms)

    def _new_sensor(self, share: Share, now_ms: int) -> QuotaSensor:
        return TokenSensor(share, self._windows.quota, self._windows.statistics, now_ms)


class QuotaManagers:
    """client: window of produce, fetch and request quotas; controller: that of controller mutations."""

    def __init__(self, client: QuotaWindows, controller: QuotaWindows, clock: Clock) -> None:
        self._nanoseconds = clock.nanoseconds
        self.produce = ClientQuotaManager(QuotaType.PRODUCE, client)
        self.fetch = ClientQuotaManager(QuotaType.FETCH, client)
        self.request = ClientRequestQuotaManager(client)
        self.controller_mutation = ControllerMutationQuotaManager(controller, self.now_ms)
        self._on_change: Callable[[], None] | None = None
        self._settings: tuple[tuple[str, Callable[[str], float], ClientQuotaManager], ...] = (
            # Kafka's byte rates are of type LONG, the other two of type DOUBLE: `1.5` is no byte rate.
            (PRODUCER_BYTE_RATE, int, self.produce),
            (CONSUMER_BYTE_RATE, int, self.fetch),
            (REQUEST_PERCENTAGE, float, self.request),
            (CONTROLLER_MUTATION_RATE, float, self.controller_mutation),
        )

    @classmethod
    def from_kafka_config(cls, config: KafkaConfig, clock: Clock) -> QuotaManagers:
        """Make the managers with the windows of the configuration."""
        quotas = QuotaConfig.from_kafka_config(config)
        statistics = SampleWindow(quotas.statistics_samples, quotas.statistics_window_ms)
        client = SampleWindow(quotas.client_samples, quotas.client_window_ms)
        controller = SampleWindow(quotas.controller_samples, quotas.controller_window_ms)
        return cls(QuotaWindows(client, statistics), QuotaWindows(controller, statistics), clock)

    def __iter__(self) -> Iterator[ClientQuotaManager]:
        return iter((self.produce, self.fetch, self.request, self.controller_mutation))

    def now_ms(self) -> int:
        """Return the time of all quotas, in milliseconds of a clock that does not go back."""
        return self._nanoseconds() // NANOSECONDS_PER_MILLISECOND

    def on_change(self, changed: Callable[[], None]) -> None:
        """Register a callable that is called after each update."""
        self._on_change = changed

    def update(self, entity: KafkaQuotaEntity, settings: Mapping[str, str]) -> None:
        """Give an entity these quotas, and no others. A value that is no number is logged, and that quota kept."""
        for name, parse, manager in self._settings:
            text = settings.get(name)
            try:
                bound = None if text is None else float(parse(text))
                # Every comparison with NaN is false: as a limit it would never be reached.
                if bound is not None and math.isnan(bound):
                    raise ValueError(text)
            except (ValueError, OverflowError):
                logger.warning("Ignoring the quota %s=%s of %s: the value is not a number", name, text, entity)
                continue
            manager.update_quota(entity, bound)
        if self._on_change is not None:
            self._on_change()

    def expire_sensors(self) -> None:
        """Drop sensors that were unused for long (a task of the scheduler)."""
        now_ms = self.now_ms()
        for manager in self:
            manager.expire_sensors(now_ms)


GROUP = "kafka.server"
DESCRIPTIONS = {
    "byte-rate": "Bytes a second",
    "request-time": "Percent of a thread's time spent on the client's requests",
    "mutation-rate": "Partitions created and deleted a second",
    "tokens": "Partitions that may be created or deleted at once",
    "throttle-time": "Mean milliseconds that quotas held the client up",
}
"""Kafka's name of a sensor's value -> its description."""


class QuotaMetrics:
    """A family of metrics (MetricsRegistry): its members are the sensors of one manager."""

    def __init__(self, manager: ClientQuotaManager, quotas: QuotaManagers) -> None:
        self._manager = manager
        self._quotas = quotas

    def samples(self) -> Iterable[Sample]:
        """Return every share's values now. A tag without a value is left out, as JMX does."""
        return list(self._samples())

    def tick(self, elapsed_seconds: float) -> None:
        """Do nothing: these rates are computed when they are read."""

    def _samples(self) -> Iterator[Sample]:
        now_ms = self._quotas.now_ms()
        kind = self._manager.quota_type.value
        for sensor in self._manager.sensors():
            share = sensor.share
            tags = tuple((tag, text) for tag, text in (("user", share.user), ("client-id", share.client_id)) if text)
            for name, value in sensor.values(now_ms):
                yield Sample(MBeanName(GROUP, kind, name, tags, is_attribute=True), value, DESCRIPTIONS[name])


def register_quota_metrics(registry: MetricsRegistry, quotas: QuotaManagers) -> None:
    """Register the metrics of all quotas."""
    for manager in quotas:
        registry.family(QuotaMetrics(manager, quotas))
        kind, text = manager.quota_type.value, "Connections held up by this quota now"
        registry.register_attribute(GROUP, kind, "queue-size", text, _queue_size_of(manager))
    registry.register_attribute(
        GROUP,
        "Request",
        "exempt-request-time",
        "Percent of a thread's time spent on requests that no quota is for",
        lambda: quotas.request.exempt_request_time(quotas.now_ms()),
    )


def _queue_size_of(manager: ClientQuotaManager) -> Callable[[], float]:
    return lambda: manager.throttled_channels
