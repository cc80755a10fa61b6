"""Resources with settings, and changes of settings, for the admin client. Immutable. Kafka: ConfigResource."""

from __future__ import annotations

from typing import NamedTuple, Self

from barnabas.protocol.config_codes import ConfigOperation, ConfigResourceType


class ConfigResource(NamedTuple):
    """A topic by its name, or a broker by its number. "" stands for the common defaults of all brokers."""

    type: ConfigResourceType
    name: str

    @classmethod
    def topic(cls, name: str) -> Self:
        """Return the resource of a topic."""
        return cls(ConfigResourceType.TOPIC, name)

    @classmethod
    def broker(cls, broker_id: int) -> Self:
        """Return the resource of a broker."""
        return cls(ConfigResourceType.BROKER, str(broker_id))

    @classmethod
    def all_brokers(cls) -> Self:
        """Return the resource of the brokers' common defaults."""
        return cls(ConfigResourceType.BROKER, "")

    @classmethod
    def broker_loggers(cls, broker_id: int) -> Self:
        """Return the resource of a broker's log levels."""
        return cls(ConfigResourceType.BROKER_LOGGER, str(broker_id))


class ConfigChange(NamedTuple):
    """A change of one setting: SET, DELETE (back to the default), APPEND to a list, SUBTRACT from one."""

    name: str
    operation: ConfigOperation
    value: str | None = None
