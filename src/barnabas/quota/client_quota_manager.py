"""The usage of one kind of resource by each client, and its limits.

One for each quota type, made by `broker`. Quotas are changed by `metadata.client_quota_store` on a scheduler's
thread, usage is recorded by whichever thread answers a request. `_lock` guards the table of sensors; a sensor has a
lock of its own. Limits are an immutable snapshot, replaced by one assignment under `_lock`.

A sensor without a recording for an hour is dropped (Kafka: InactiveSensorExpirationTimeSeconds). Client ids come from
clients, so the table is bounded as well: when it is full, sensors that have been idle for the whole window go, which
loses nothing, and if those are too few, the ones idle longest.

Two differences from Kafka: time is monotonic; and where no limit is left, measuring stops (Kafka measures
until it is restarted). Kafka: kafka.server.ClientQuotaManager.
"""

from __future__ import annotations

import logging
import threading
from typing import Final, NamedTuple

from barnabas.metrics.rate import SampleWindow
from barnabas.quota.quota_entity import KafkaQuotaEntity, QuotaType
from barnabas.quota.quota_limits import QuotaLimits, Share
from barnabas.quota.quota_sensor import QuotaSensor, RateSensor

logger = logging.getLogger(__name__)

INACTIVE_SENSOR_EXPIRATION_MS: Final = 3_600_000
# Names count towards the weight, because a client may send an id of 32 KB with every request.
SENSOR_WEIGHT: Final = 256
MAX_WEIGHT: Final = 1 << 22
"""The weight of a sensor besides its names, and of all sensors of a manager: some 15,000 with names of ordinary
length."""

NO_LIMITS: Final = QuotaLimits({})


class QuotaWindows(NamedTuple):
    """Windows of measurement. quota: of usage. statistics: of values that are only shown (`metrics.num.samples`)."""

    quota: SampleWindow
    statistics: SampleWindow


class ClientQuotaManager:
    """The quota of bytes that clients produce, or fetch. rate_name: the name of the metric."""

    def __init__(self, quota_type: QuotaType, windows: QuotaWindows, rate_name: str = "byte-rate") -> None:
        self.quota_type = quota_type
        self.limits = NO_LIMITS
        self.throttled_channels = 0
        """The number of connections that are muted now, for the gauge `queue-size`."""
        self._windows = windows
        self._rate_name = rate_name
        self._lock = threading.Lock()
        self._sensors: dict[tuple[str, str], QuotaSensor] = {}
        self._weight = 0

    @property
    def is_enabled(self) -> bool:
        """Whether there is any limit."""
        return bool(self.limits)

    def update_quota(self, entity: KafkaQuotaEntity, bound: float | None) -> None:
        """Set the limit of an entity, or remove it. The usage of its clients so far counts against the new limit."""
        with self._lock:
            # Read under the lock, too: of two changes at once one would otherwise be lost.
            before = self.limits.of(entity)
            # An update reaches all four managers, most of whose limits stay as they are: those log nothing.
            if before == bound:
                return
            if bound is None:
                logger.info("Removing %s quota for %s", self.quota_type.value, entity)
            else:
                logger.info("Changing %s quota for %s to %s", self.quota_type.value, entity, bound)
            self.limits = self.limits.changed(entity, bound)

    # -- usage

    def record_and_get_throttle_time_ms(self, user: str, client_id: str, value: float, now_ms: int) -> int:
        """Count what a client used, and return how long its connection is to be muted; 0: not at all."""
        sensor = self.sensor_of(user, client_id, now_ms)
        sensor.record(value, now_ms)
        return sensor.wait_ms(now_ms)

    def record_no_throttle(self, user: str, client_id: str, value: float, now_ms: int) -> None:
        """Count what a client used; its next request may wait for it. A negative value takes a count back."""
        self.sensor_of(user, client_id, now_ms).record(value, now_ms)

    def max_value_in_quota_window(self, user: str, client_id: str) -> float:
        """Return the most that a client can use at once without waiting afterwards, whatever it used before."""
        window = self._windows.quota
        return self.limits.share_of(user, client_id).bound * (window.samples - 1) * window.sample_ms / 1000

    def throttling_started(self, user: str, client_id: str, throttle_time_ms: int, now_ms: int) -> None:
        """Note that a connection is muted for that long; `throttling_ended` follows."""
        self.sensor_of(user, client_id, now_ms).record_throttle_time(throttle_time_ms, now_ms)
        with self._lock:
            self.throttled_channels += 1

    def throttling_ended(self) -> None:
        """Note that a connection's throttle time is over."""
        with self._lock:
            self.throttled_channels -= 1

    # -- sensors

    def sensor_of(self, user: str, client_id: str, now_ms: int) -> QuotaSensor:
        """Return the sensor that counts for a client, with the limit in force now."""
        # Read without the lock: a request that races with a change is measured against one limit or the other.
        share = self.limits.share_of(user, client_id)
        key = (share.user, share.client_id)
        with self._lock:
            sensor = self._sensors.get(key)
            if sensor is None:
                sensor = self._sensors[key] = self._new_sensor(share, now_ms)
                self._weight += _weight_of(key)
                if self._weight > MAX_WEIGHT:
                    # The new sensor was recorded at `now_ms`, hence is the last to be dropped.
                    self._make_room(now_ms)
        # Outside the lock: it is one assignment, and a sensor reads its share once a measurement.
        if sensor.share.bound != share.bound:
            sensor.share = share
        return sensor

    def sensors(self) -> list[QuotaSensor]:
        """Return the sensors that exist now, for their metrics."""
        with self._lock:
            return list(self._sensors.values())

    def expire_sensors(self, now_ms: int) -> None:
        """Drop sensors that have been idle for long; called every now and then."""
        with self._lock:
            self._drop_idle_since(now_ms - INACTIVE_SENSOR_EXPIRATION_MS)

    def _new_sensor(self, share: Share, now_ms: int) -> QuotaSensor:
        windows = self._windows
        return RateSensor(share, windows.quota, windows.statistics, self._rate_name, now_ms)

    def _make_room(self, now_ms: int) -> None:
        """Drop sensors down to half of the limit, so that this is rare."""
        self._drop_idle_since(now_ms - self._windows.quota.duration_ms)
        if self._weight <= MAX_WEIGHT // 2:
            return
        # Dropping a sensor in use forgives its client what it used so far; Kafka's table has no bound.
        logger.warning("Too many clients at once for their %s quotas: some start anew", self.quota_type.value)
        for key, _ in sorted(self._sensors.items(), key=lambda item: item[1].last_recorded_ms):
            if self._weight <= MAX_WEIGHT // 2:
                return
            self._drop(key)

    def _drop_idle_since(self, then_ms: int) -> None:
        # A copy, since `_drop` changes the table.
        for key in [key for key, sensor in self._sensors.items() if sensor.last_recorded_ms < then_ms]:
            self._drop(key)

    def _drop(self, key: tuple[str, str]) -> None:
        del self._sensors[key]
        self._weight -= _weight_of(key)


def _weight_of(key: tuple[str, str]) -> int:
    return SENSOR_WEIGHT + len(key[0]) + len(key[1])
