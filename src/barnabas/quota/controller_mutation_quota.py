"""The partitions that one request may still create and delete, against its client's credits.

Made for each CreateTopics, CreatePartitions and DeleteTopics by `ControllerMutationQuotaManager`, recorded to by
`metadata.topic_admin` on the thread that handles the request, read afterwards by the thread that answers it.
Kafka: ControllerMutationQuota, StrictControllerMutationQuota, PermissiveControllerMutationQuota (KIP-599).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.quota.quota_sensor import TokenSensor


class ControllerMutationQuota(Protocol):
    """The quota of one request."""

    def record(self, permits: int) -> None:
        """Count `permits` partitions about to be created or deleted. Raises ApiError: THROTTLING_QUOTA_EXCEEDED."""

    def throttle_time_ms(self) -> int:
        """Return how long the client's connection is to be muted, from now on."""


class UnboundedControllerMutationQuota:
    """The quota of a request where none is configured."""

    def record(self, permits: int) -> None:
        """Count nothing."""

    def throttle_time_ms(self) -> int:
        """Return 0."""
        return 0


UNBOUNDED: Final = UnboundedControllerMutationQuota()


class _MeasuredQuota:
    """A quota against a sensor. now_ms: milliseconds of a clock that does not go back."""

    def __init__(self, sensor: TokenSensor, now_ms: Callable[[], int]) -> None:
        self._sensor = sensor
        self._now_ms = now_ms
        self._throttle_time_ms = 0
        self._recorded_ms = 0

    def throttle_time_ms(self) -> int:
        """Return what is left of the throttle time: the request may have waited in a purgatory since."""
        return max(0, self._throttle_time_ms - (self._now_ms() - self._recorded_ms))


# CreateTopics v6, DeleteTopics v5 and CreatePartitions v3 were made for clients that know THROTTLING_QUOTA_EXCEEDED.
class StrictControllerMutationQuota(_MeasuredQuota):
    """Refuses once the credits are used up; while one is left, any number of partitions may pass."""

    def record(self, permits: int) -> None:
        """Count `permits` partitions. Raises ApiError: THROTTLING_QUOTA_EXCEEDED when the quota is exceeded already."""
        now_ms = self._now_ms()
        # One call of the sensor, under its lock: of two requests at once only one may take the last credit.
        wait_ms = self._sensor.record_unless_exceeded(permits, now_ms)
        if wait_ms:
            self._throttle_time_ms, self._recorded_ms = wait_ms, now_ms
            raise ApiError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, ErrorCode.THROTTLING_QUOTA_EXCEEDED.message)


class PermissiveControllerMutationQuota(_MeasuredQuota):
    """Never refuses, but makes the client wait: for versions that do not know the error."""

    def record(self, permits: int) -> None:
        """Count `permits` partitions."""
        now_ms = self._now_ms()
        self._sensor.record(permits, now_ms)
        wait_ms = self._sensor.wait_ms(now_ms)
        if wait_ms:
            self._throttle_time_ms, self._recorded_ms = wait_ms, now_ms
