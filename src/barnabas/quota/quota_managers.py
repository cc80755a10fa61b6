"""All client quotas of a broker, and the settings that change them.

Made by `broker` at start. `update` is called by `metadata.client_quota_listener`, one call at a time; the managers are
charged by `api.throttle`, which is notified of changes.

Kafka: QuotaFactory.QuotaManagers, QuotaConfigHandler.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Mapping

from barnabas.config.kafka_config import KafkaConfig
from barnabas.metrics.sampled_total import SampleWindow
from barnabas.quota.client_quota_manager import ClientQuotaManager, QuotaWindows
from barnabas.quota.client_request_quota_manager import ClientRequestQuotaManager
from barnabas.quota.controller_mutation_quota_manager import ControllerMutationQuotaManager
from barnabas.quota.quota_config import QuotaConfig
from barnabas.quota.quota_entity import (
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    QuotaEntity,
    QuotaType,
)
from barnabas.runtime.clock import NANOSECONDS_PER_MILLISECOND, Clock

logger = logging.getLogger(__name__)


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

    def update(self, entity: QuotaEntity, settings: Mapping[str, str]) -> None:
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
