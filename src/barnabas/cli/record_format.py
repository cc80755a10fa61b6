"""The forms in which `barnabas consume` prints a record: that of Kafka's console consumer, or JSON. Pure."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from barnabas.clients.consumer import ConsumerRecord

TIMESTAMP_NAMES = {0: b"CreateTime", 1: b"LogAppendTime"}
NULL = b"null"


class RecordFormat:
    """A maker of one line for each record: timestamp, partition, offset, headers and key if wanted, then the value."""

    def __init__(
        self, separator: str, *, timestamp: bool, partition: bool, offset: bool, headers: bool, key: bool
    ) -> None:
        self._separator = separator.encode()
        self._timestamp = timestamp
        self._partition = partition
        self._offset = offset
        self._headers = headers
        self._key = key

    def __call__(self, record: ConsumerRecord) -> bytes:
        """Return the line, without its end. Bytes of keys and values are left as they are."""
        parts = []
        if self._timestamp:
            name = TIMESTAMP_NAMES.get(record.timestamp_type, b"NoTimestampType")
            parts.append(b"%s:%d" % (name, record.timestamp_ms))
        if self._partition:
            parts.append(b"Partition:%d" % record.partition)
        if self._offset:
            parts.append(b"Offset:%d" % record.offset)
        if self._headers:
            pairs = (b"%s:%s" % (name.encode(), _or_null(value)) for name, value in record.headers)
            parts.append(b",".join(pairs) or b"NO_HEADERS")
        if self._key:
            parts.append(_or_null(record.key))
        parts.append(_or_null(record.value))
        return self._separator.join(parts)


def as_json(record: ConsumerRecord) -> bytes:
    """Return the whole record as one JSON object. Bytes that are not UTF-8 become {"base64": ...}."""
    fields: dict[str, Any] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        # Headers are a list of pairs, because a record may have several with the same name.
        "headers": [[name, _text(value)] for name, value in record.headers],
        "key": _text(record.key),
        "value": _text(record.value),
    }
    return json.dumps(fields, ensure_ascii=False).encode()


def _or_null(data: bytes | None) -> bytes:
    return NULL if data is None else bytes(data)


def _text(data: bytes | None) -> str | dict[str, str] | None:
    if data is None:
        return None
    try:
        return bytes(data).decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}
