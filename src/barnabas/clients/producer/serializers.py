"""The conversion of a record's key and value to bytes, by name or by a function of the user's.

Called by `Producer.send` on the user's thread, one for keys and one for values; no state of its own, so no lock.
Kafka: Serializer.

    Producer(..., key_serializer="str", value_serializer="json")
    Producer(..., value_serializer=lambda topic, order: order.SerializeToString())

A schema registry fits in as an object with `serialize`, which may also add headers to the record:

    class AvroSerializer:
        def serialize(self, topic, value, headers):
            schema_id, data = registry.encode(f"{topic}-value", value)
            headers.append(("schema-id", str(schema_id).encode()))
            return data
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias, runtime_checkable

from barnabas.clients.errors import SerializationFailed
from barnabas.config.config_error import nearest_hint
from barnabas.records.compression import Buffer

MutableHeaders: TypeAlias = list[tuple[str, Buffer | None]]


@runtime_checkable
class HeaderSerializer(Protocol):
    """A serializer that sees the record's headers."""

    def serialize(self, topic: str, value: Any, headers: MutableHeaders) -> bytes | None:
        """Return the bytes, None for a null. Headers that are appended go with the record."""


Serializer: TypeAlias = Callable[[str, Any], bytes | None] | HeaderSerializer


def as_bytes(name: str, data: object) -> bytes | None:
    """Return a copy, because the caller may change the original while the record waits. Raises TypeError."""
    if data is None:
        return None
    if isinstance(data, bytes | bytearray | memoryview):
        return bytes(data)
    raise TypeError(f"{name} must be bytes or None, not {type(data).__name__}")


def _from_str(_topic: str, value: Any) -> bytes | None:
    """Return text as UTF-8, and None as it is. Raises TypeError for any other type."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise TypeError(f"the serializer 'str' takes str or None, not {type(value).__name__}")
    return value.encode()


def _to_json(_topic: str, value: Any) -> bytes | None:
    # As Kafka's JsonSerializer, None stays a null, which deletes the key in a compacted topic. "null" would not.
    return None if value is None else json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


SERIALIZERS: dict[str, Serializer | None] = {"bytes": None, "str": _from_str, "json": _to_json}
"""The serializers that have names. `bytes` is none at all."""


def serializer_of(setting: str, value: str | Serializer) -> Serializer | None:
    """Return the serializer that a setting means; None for bytes as they are.

    Raises ValueError for an unknown name, TypeError for what is no serializer.
    """
    if isinstance(value, str):
        if value not in SERIALIZERS:
            hint = nearest_hint(value, SERIALIZERS)
            raise ValueError(f"{setting} must be {', '.join(SERIALIZERS)} or a function, not {value!r}{hint}")
        return SERIALIZERS[value]
    if not callable(value) and not isinstance(value, HeaderSerializer):
        raise TypeError(f"{setting} must be a name, a function or an object with `serialize`, not {value!r}")
    return value


def serialize(
    serializer: Serializer | None, what: str, topic: str, value: Any, headers: MutableHeaders
) -> bytes | None:
    """Return the bytes of a key or value (`what`). Raises SerializationFailed, TypeError for what is not bytes."""
    if serializer is None:
        return as_bytes(what, value)
    try:
        data = (
            serializer.serialize(topic, value, headers)
            if isinstance(serializer, HeaderSerializer)
            else serializer(topic, value)
        )
    except Exception as error:  # the user's function may raise anything; its error is chained
        raise SerializationFailed(
            f"Cannot serialize the {what} of a record for topic {topic}, of type {type(value).__name__}: {error}"
        ) from error
    if data is not None and not isinstance(data, bytes):
        raise SerializationFailed(
            f"The serializer of the {what}s of topic {topic} returned {type(data).__name__} for"
            f" {type(value).__name__}; expected bytes or None"
        )
    return data
