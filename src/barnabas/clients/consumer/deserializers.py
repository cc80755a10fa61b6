"""The conversion of a record's key and value from bytes, by name or by a function of the user's.

Called by the FetchBuffer for the records that a poll returns, on the consumer's thread; no state of its own. Consumers
that take bytes as they are pay nothing. Kafka: Deserializer, Deserializers.

    Consumer(..., key_deserializer="str", value_deserializer="json")
    Consumer(..., value_deserializer=lambda topic, data: Order.FromString(data))
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

from barnabas.clients.consumer.consumer_record import ConsumerRecord
from barnabas.clients.errors import RecordDeserializationError
from barnabas.config.config_error import nearest_hint
from barnabas.protocol.topic_partition import TopicPartition

Deserializer: TypeAlias = Callable[[str, bytes], Any]
"""A function of topic and bytes. It is not called for a null, which stays None."""


def _to_str(_topic: str, data: bytes) -> str:
    return data.decode()


def _from_json(_topic: str, data: bytes) -> Any:
    return json.loads(data)


_NAMED: dict[str, Deserializer | None] = {"bytes": None, "str": _to_str, "json": _from_json}


class DeserializedRecords(NamedTuple):
    """The records in front of the first that cannot be deserialized, and the error of that one, or None."""

    records: list[ConsumerRecord]
    error: RecordDeserializationError | None


class Deserializers:
    """The deserializers of keys and of values; None for bytes as they are."""

    def __init__(self, key: str | Deserializer, value: str | Deserializer) -> None:
        """Find the deserializers that the settings mean. Raises ValueError, TypeError."""
        self._key = deserializer_of("key_deserializer", key)
        self._value = deserializer_of("value_deserializer", value)

    def __bool__(self) -> bool:
        """Return whether there is anything to do."""
        return self._key is not None or self._value is not None

    def apply(self, records: Sequence[ConsumerRecord]) -> DeserializedRecords:
        """Return the records with what the deserializers make of their keys and values."""
        key_of, value_of = self._key, self._value
        made: list[ConsumerRecord] = []
        is_key = True
        new = tuple.__new__
        try:
            for topic, partition, offset, timestamp_ms, timestamp_type, key, value, headers in records:
                is_key = True
                if key_of is not None and key is not None:
                    key = key_of(topic, key)  # noqa: PLW2901 - another tuple is made of these names
                is_key = False
                if value_of is not None and value is not None:
                    value = value_of(topic, value)  # noqa: PLW2901
                # Without the NamedTuple's constructor, a Python function, this takes half the time.
                made.append(
                    new(ConsumerRecord, (topic, partition, offset, timestamp_ms, timestamp_type, key, value, headers))
                )
        except Exception as error:  # noqa: BLE001 - the user's function may raise anything; its error is chained
            failed = records[len(made)]
            wrapped = RecordDeserializationError(
                TopicPartition(failed.topic, failed.partition), failed.offset, "key" if is_key else "value", error
            )
            wrapped.__cause__ = error
            return DeserializedRecords(made, wrapped)
        return DeserializedRecords(made, None)


def deserializer_of(setting: str, chosen: str | Deserializer) -> Deserializer | None:
    """Return the deserializer that a setting means; None for bytes as they are.

    Raises ValueError for an unknown name, TypeError for what is neither a name nor a function.
    """
    if isinstance(chosen, str):
        if chosen in _NAMED:
            return _NAMED[chosen]
        hint = nearest_hint(chosen, _NAMED)
        raise ValueError(f"{setting} must be {', '.join(_NAMED)} or a function, not {chosen!r}{hint}")
    if not callable(chosen):
        raise TypeError(f"{setting} must be a name or a function (topic, data), not {chosen!r}")
    return chosen
