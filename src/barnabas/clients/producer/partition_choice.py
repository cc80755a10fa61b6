"""The choice of a partition by the key's hash, in turn, or by a function of the user's.

Called by `RecordAppender`, on the threads that send. A function comes first. Without one the key's hash decides, and
for records without a key the accumulator's sticky partitioner. The hash is Murmur2 with Kafka's seed: every client must
put a key on the same partition. Kafka: Partitioner, RoundRobinPartitioner, Utils.murmur2.
"""

from __future__ import annotations

import functools
import itertools
import struct
from collections.abc import Callable, Iterator
from typing import TypeAlias

from barnabas.clients.metadata.cluster import Cluster
from barnabas.config.config_error import nearest_hint

Partitioner: TypeAlias = Callable[[str, bytes | None, bytes | None, Cluster], int]
"""A function of topic, key, value (both serialized) and cluster. Returns the number of a partition."""

_MURMUR2_SEED = 0x9747B28C
_MURMUR2_MULTIPLIER = 0x5BD1E995
_MASK_OF_32_BITS = 0xFFFFFFFF
_words = struct.Struct("<I").iter_unpack


def murmur2(data: bytes) -> int:
    """Return the unsigned 32-bit hash. Kafka's int has the same bits, signed."""
    length = len(data)
    whole = length & ~3
    value = _MURMUR2_SEED ^ length
    for (word,) in _words(data[:whole]):
        word = word * _MURMUR2_MULTIPLIER & _MASK_OF_32_BITS  # noqa: PLW2901
        word = (word ^ word >> 24) * _MURMUR2_MULTIPLIER & _MASK_OF_32_BITS  # noqa: PLW2901
        value = value * _MURMUR2_MULTIPLIER & _MASK_OF_32_BITS ^ word
    rest = data[whole:]
    if rest:
        value = (value ^ int.from_bytes(rest, "little")) * _MURMUR2_MULTIPLIER & _MASK_OF_32_BITS
    value = (value ^ value >> 13) * _MURMUR2_MULTIPLIER & _MASK_OF_32_BITS
    return value ^ value >> 15


@functools.lru_cache(maxsize=8192)
def partition_for_key(key: bytes, partition_count: int) -> int:
    """Return the partition of a key. Results are cached, because keys repeat. Kafka: partitionForKey."""
    # Kafka clears the sign bit of the hash rather than taking its absolute value, which would move half of all keys.
    return (murmur2(key) & 0x7FFFFFFF) % partition_count


class RoundRobinPartitioner:
    """Takes the available partitions of each topic in turn, whatever the key. Any thread may call it."""

    def __init__(self) -> None:
        self._turns: dict[str, Iterator[int]] = {}

    def __call__(self, topic: str, _key: bytes | None, _value: bytes | None, cluster: Cluster) -> int:
        """Return the next partition; one without a leader only when none has a leader."""
        turns = self._turns.get(topic)
        if turns is None:
            # Two threads may both find none: setdefault keeps one counter, and `next` of a counter is atomic.
            turns = self._turns.setdefault(topic, itertools.count())
        partitions = cluster.available_partitions(topic) or range(cluster.partition_count(topic) or 1)
        return partitions[next(turns) % len(partitions)]


def partitioner_of(value: str | Partitioner) -> Partitioner | None:
    """Return the partitioner that a setting means; None for `sticky`.

    Raises ValueError for an unknown name, TypeError for what is no function.
    """
    if isinstance(value, str):
        if value not in ("sticky", "round_robin"):
            hint = nearest_hint(value, ("sticky", "round_robin"))
            raise ValueError(f"partitioner_class must be sticky, round_robin or a function, not {value!r}{hint}")
        return None if value == "sticky" else RoundRobinPartitioner()
    if not callable(value):
        raise TypeError(f"partitioner_class must be a name or a function, not {value!r}")
    return value


def checked_choice(
    partitioner: Partitioner, topic: str, key: bytes | None, value: bytes | None, cluster: Cluster
) -> int:
    """Return the partition that the user's function chooses. Raises ValueError for a partition that does not exist."""
    chosen: object = partitioner(topic, key, value, cluster)
    count = cluster.partition_count(topic) or 0
    if not isinstance(chosen, int) or not 0 <= chosen < count:
        raise ValueError(f"The partitioner chose partition {chosen!r} of topic {topic}, which has {count} partitions")
    return chosen
