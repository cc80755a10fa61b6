"""A part of the broker that takes over the dynamic fields of its config class, whichever they are.

Made by `reconfigurable_parts`, called by DynamicBrokerConfig. A setting that becomes dynamic in its table reaches the
part without another line: which settings concern the part follows from the fields that its config class declares.
Holds nothing that changes, so no lock. Kafka: the implementations of kafka.server.BrokerReconfigurable.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from barnabas.config.kafka_config import KafkaConfig
from barnabas.config.setting import Settings

S = TypeVar("S", bound=Settings)


def _accept(_config: object) -> None:
    """Find nothing wrong with the new settings: their rows and the rules between them have checked all there is."""


class SettingsFollower(Generic[S]):
    """A link that hands new settings to a part of the broker.

    kind: the config class whose dynamic settings the part follows. take_over: gives the part its new settings. check:
    raises ConfigError where the part cannot have them.
    """

    def __init__(self, kind: type[S], take_over: Callable[[S], object], check: Callable[[S], None] = _accept) -> None:
        self._kind = kind
        self._take_over = take_over
        self._check = check
        self.settings = kind.dynamic_names()

    def validate(self, current: KafkaConfig, proposed: KafkaConfig) -> None:
        """Check the new settings. Raises ConfigError: the part cannot have them."""
        self._check(self._kind.from_kafka_config(proposed))

    def reconfigure(self, previous: KafkaConfig, current: KafkaConfig) -> None:
        """Hand the new settings to the part."""
        self._take_over(self._kind.from_kafka_config(current))
