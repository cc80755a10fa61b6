"""The JSON in Kafka's znodes.

Used by the modules `*_zk_data` and `*_znodes` on any thread; stateless, so no lock. Kafka: kafka.utils.Json.

What becomes of a znode that cannot be understood, because another program or a person wrote it, or a version from the
future. One znode must not stop a cluster, and what is not understood is never written over:

    a topic, the state of a partition, the registration of a broker     left out with an error that names the znode, as
        if it were not there: the rest of the cluster works
    a notice                                                            ignored and removed, as a handled one
    settings, access control lists, tokens                              ZnodeFormatError: to go on without them could
        delete records, or permit what they forbid
    /controller_epoch, /cluster/id, the producer ids, the features      ZnodeFormatError: no controller, or no start
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from barnabas.protocol.topic_partition import TopicPartition

logger = logging.getLogger(__name__)

_T = TypeVar("_T")


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


@contextmanager
def reading_fields(data: bytes, what: str) -> Iterator[None]:
    """Turn the errors of missing fields, and of fields of other types, into ZnodeFormatError, which names `what`."""
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ZnodeFormatError(f"Failed to parse {what}: {data[:200]!r}") from error


def understood(path: str, decode: Callable[[], _T]) -> _T | None:
    """Return what `decode` returns; None, with an error in the log, if the data of the znode cannot be understood."""
    try:
        return decode()
    except ZnodeFormatError as error:
        # TRY400: the reason is in the error's text, and its place in our code helps no reader.
        logger.error("Leaving out %s, whose data stay as they are: %s", path, error)  # noqa: TRY400
        return None


def partitions_json(partitions: Iterable[TopicPartition]) -> list[dict[str, object]]:
    """Return partitions as several znodes list them, in order."""
    return [{"topic": tp.topic, "partition": tp.partition} for tp in sorted(partitions)]


def partitions_of(value: Mapping[str, Any]) -> set[TopicPartition]:
    """Return the partitions that such a znode lists."""
    return {TopicPartition(item["topic"], int(item["partition"])) for item in value["partitions"]}
