"""The partitions that each client creates and deletes, against its credits.

Made by `broker`; threads and locks as its base class.

Kafka: kafka.server.ControllerMutationQuotaManager.
"""

from __future__ import annotations

from collections.abc import Callable

from barnabas.quota.client_quota_manager import ClientQuotaManager, QuotaWindows
from barnabas.quota.controller_mutation_quota import (
    UNBOUNDED,
    ControllerMutationQuota,
    PermissiveControllerMutationQuota,
    StrictControllerMutationQuota,
)
from barnabas.quota.quota_entity import QuotaType
from barnabas.quota.quota_limits import Share
from barnabas.quota.quota_sensor import QuotaSensor, TokenSensor


class ControllerMutationQuotaManager(ClientQuotaManager):
    """The quota of created and deleted partitions. now_ms: milliseconds of a clock that does not go back."""

    def __init__(self, windows: QuotaWindows, now_ms: Callable[[], int]) -> None:
        super().__init__(QuotaType.CONTROLLER_MUTATION, windows)
        self._now_ms = now_ms

    def quota_for(self, user: str, client_id: str, *, strict: bool) -> ControllerMutationQuota:
        """Return the quota of one request. strict: the request may be refused, because its version knows that error."""
        if not self.limits:
            return UNBOUNDED
        sensor = self.sensor_of(user, client_id, self._now_ms())
        assert isinstance(sensor, TokenSensor)
        made = StrictControllerMutationQuota if strict else PermissiveControllerMutationQuota
        return made(sensor, self._now_ms)

    def _new_sensor(self, share: Share, now_ms: int) -> QuotaSensor:
        return TokenSensor(share, self._windows.quota, self._windows.statistics, now_ms)
