"""A hash of the metadata of a consumer group's topics: when it changes, the group is assigned anew (KIP-1101).

Used by `ClusterTopics` under groups' locks. `TopicHashes` remembers the hash of each topic in a dict that is changed by
single steps: two threads that compute the same hash do no harm. The number is Kafka's, bit by bit, for it is stored.
Kafka: Utils.computeTopicHash and computeGroupHash of 4.1 and later.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final, TypeAlias

from barnabas.coordinator.group.consumer.topics.xxh3 import xxh3_64
from barnabas.metadata.metadata_image import MetadataImage, TopicMetadata

_MAGIC: Final = b"\x00"
_MOST_REMEMBERED: Final = 10_000
_INT64_SIZE: Final = 1 << 64
_Racks: TypeAlias = tuple[tuple[str, ...], ...]


class TopicHashes:
    """Hashes of topics, each computed when the topic has changed."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[tuple[str, bytes, int, _Racks], int] = {}

    def group_hash(self, names: Iterable[str], image: MetadataImage) -> int:
        """Return the hash of those topics that exist, 0 if none does: a signed number of 64 bits."""
        topics = image.topics
        hashes = [self._topic_hash(topics[name], image) for name in sorted(names) if name in topics]
        if not hashes:
            return 0
        found = xxh3_64(struct.pack(f"<{len(hashes)}Q", *hashes))
        return found - _INT64_SIZE if found >> 63 else found

    def _topic_hash(self, topic: TopicMetadata, image: MetadataImage) -> int:
        key = (topic.name, topic.topic_id, len(topic.partitions), _racks(topic, image))
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _MOST_REMEMBERED:
                self._known = {}
            found = self._known[key] = xxh3_64(_topic_bytes(*key))
        return found


def _racks(topic: TopicMetadata, image: MetadataImage) -> _Racks:
    """Return the racks of each partition's replicas, sorted; empty if no broker has a rack."""
    rack_of = {broker.id: broker.rack for broker in image.brokers.values() if broker.rack is not None}
    if not rack_of:
        return ()
    return tuple(
        tuple(sorted(rack_of[replica] for replica in partition.replicas if replica in rack_of))
        for partition in topic.partitions
    )


def _topic_bytes(name: str, topic_id: bytes, partitions: int, racks: _Racks) -> bytes:
    """Return the bytes to hash: numbers with their lowest byte first, text as UTF-16 and then its length."""
    # The id is hashed as Java's two longs, each with its lowest byte first.
    out = [_MAGIC, topic_id[7::-1], topic_id[:7:-1], _text(name), struct.pack("<i", partitions)]
    for partition in range(partitions):
        out.append(struct.pack("<i", partition))
        for rack in racks[partition] if racks else ():
            # The length stands in front as well: Kafka puts it there, because a rack may have any separator in it.
            encoded = _text(rack)
            out += [encoded[-4:], encoded]
    return b"".join(out)


def _text(text: str) -> bytes:
    encoded = text.encode("utf-16-le", "surrogatepass")
    return encoded + struct.pack("<i", len(encoded) // 2)
