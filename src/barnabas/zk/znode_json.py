"""The JSON in Kafka's znodes.

Used by the modules `*_zk_data` on any thread; stateless, so no lock. Kafka: kafka.utils.Json.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from barnabas.protocol.topic_partition import TopicPartition


class ZnodeFormatError(Exception):
    """The error of a znode whose content Kafka would not have written."""


def encode_json(value: object) -> bytes:
    """Return JSON without blanks, in UTF-8, as Jackson writes it."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def decode_json(data: bytes, what: str) -> dict[str, Any]:
    """Return the JSON object in `data`. Raises ZnodeFormatError, which names `what` was expected."""
    try:
        value = json.loads(data)
    except (UnicodeDecodeError, ValueError) as error:
        raise ZnodeFormatError(f"Failed to parse {what}: {data[:200]!r}") from error
    if not isinstance(value, dict):
        raise ZnodeFormatError(f"Failed to parse {what}: {data[:200]!r}")
    return value


def partitions_json(partitions: Iterable[TopicPartition]) -> list[dict[str, object]]:
    """Return partitions as several znodes list them, in order."""
    return [{"topic": tp.topic, "partition": tp.partition} for tp in sorted(partitions)]


def partitions_of(value: Mapping[str, Any]) -> set[TopicPartition]:
    """Return the partitions that such a znode lists."""
    return {TopicPartition(item["topic"], int(item["partition"])) for item in value["partitions"]}
