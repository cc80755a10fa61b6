"""What one request may still create and delete: partitions, against its client's credits.

Made for each CreateTopics, CreatePartitions and DeleteTopics by `ControllerMutationQuotaManager`, recorded to by
`metadata.topic_admin` on the thread that handles the request, read again by the thread that answers it, after it.
Kafka: ControllerMutationQuota, StrictControllerMutationQuota, PermissiveControllerMutationQuota (KIP-599).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.quota.quota_sensor import TokenSensor


class ControllerMutationQuota(Protocol):
    """One request's."""

    def record(self, permits: int) -> None:
        """`permits` partitions are about to be created or deleted. May raise THROTTLING_QUOTA_EXCEEDED."""

    def throttle_time_ms(self) -> int:
        """How long the client's connection is to be muted, from now on."""


class UnboundedControllerMutationQuota:
    """Where no quota is configured."""

    def record(self, permits: int) -> None:
        """See ControllerMutationQuota."""

    def throttle_time_ms(self) -> int:
        """See ControllerMutationQuota."""
        return 0


UNBOUNDED: Final = UnboundedControllerMutationQuota()


class _MeasuredQuota:
    """now_ms: milliseconds of a clock that doesn't go back."""

    def __init__(self, sensor: TokenSensor, now_ms: Callable[[], int]) -> None:
        self._sensor = sensor
        self._now_ms = now_ms
        self._throttle_time_ms = 0
        self._recorded_ms = 0

    def throttle_time_ms(self) -> int:
        """What is left of it: the request may have waited in a purgatory since."""
        return max(0, self._throttle_time_ms - (self._now_ms() - self._recorded_ms))


class StrictControllerMutationQuota(_MeasuredQuota):
    """Refuses once the credits are used up; as long as there is one, any number of partitions is let through."""

    def record(self, permits: int) -> None:
        """See ControllerMutationQuota."""
        now_ms = self._now_ms()
        wait_ms = self._sensor.record_unless_exceeded(permits, now_ms)
        if wait_ms:
            self._throttle_time_ms, self._recorded_ms = wait_ms, now_ms
            raise ApiError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, ErrorCode.THROTTLING_QUOTA_EXCEEDED.message)


class PermissiveControllerMutationQuota(_MeasuredQuota):
    """Never refuses, but has the client wait: for those that don't know the error."""

    def record(self, permits: int) -> None:
        """See ControllerMutationQuota."""
        now_ms = self._now_ms()
        self._sensor.record(permits, now_ms)
        wait_ms = self._sensor.wait_ms(now_ms)
        if wait_ms:
            self._throttle_time_ms, self._recorded_ms = wait_ms, now_ms
