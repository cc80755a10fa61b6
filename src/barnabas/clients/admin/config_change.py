"""Whose settings the admin client shows and changes, and what a change is. Immutable."""

from __future__ import annotations

from typing import NamedTuple, Self

from barnabas.protocol.config_codes import ConfigOperation, ConfigResourceType


class ConfigResource(NamedTuple):
    """What has settings: a topic, or a broker by its number ("": what holds for all that say nothing else)."""

    type: ConfigResourceType
    name: str

    @classmethod
    def topic(cls, name: str) -> Self:
        """A topic."""
        return cls(ConfigResourceType.TOPIC, name)

    @classmethod
    def broker(cls, broker_id: int) -> Self:
        """A broker."""
        return cls(ConfigResourceType.BROKER, str(broker_id))

    @classmethod
    def all_brokers(cls) -> Self:
        """The default of brokers that have no setting of their own."""
        return cls(ConfigResourceType.BROKER, "")

    @classmethod
    def broker_loggers(cls, broker_id: int) -> Self:
        """The log levels of a broker."""
        return cls(ConfigResourceType.BROKER_LOGGER, str(broker_id))


class ConfigChange(NamedTuple):
    """What to do to one setting: SET, DELETE (back to the default), APPEND to a list, SUBTRACT from one."""

    name: str
    operation: ConfigOperation
    value: str | None = None
