"""A hash of the metadata of a consumer group's topics: when it changes, the group gets a new assignment (KIP-1101).

Used by `ClusterTopics` under groups' locks. `TopicHashes` remembers the hash of each topic in a dict that is changed by
single steps: two threads that compute the same hash do no harm; all else is pure. The number is Kafka's, bit by bit,
for it is stored: Kafka takes XXH3 of com.dynatrace.hash4j, which is written here in Python, after the specification of
xxHash (doc/xxhash_spec.md). Kafka: Utils.computeTopicHash and computeGroupHash of 4.1 and later.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final, TypeAlias

from barnabas.metadata.metadata_image import MetadataImage, TopicMetadata

_TOPIC_HASH_MAGIC: Final = b"\x00"
_MOST_REMEMBERED: Final = 10_000
_INT64_SIZE: Final = 1 << 64
_Racks: TypeAlias = tuple[tuple[str, ...], ...]

_MASK_64: Final = 0xFFFFFFFFFFFFFFFF
_PRIME32_1: Final = 0x9E3779B1
_PRIME32_2: Final = 0x85EBCA77
_PRIME32_3: Final = 0xC2B2AE3D
_PRIME64_1: Final = 0x9E3779B185EBCA87
_PRIME64_2: Final = 0xC2B2AE3D27D4EB4F
_PRIME64_3: Final = 0x165667B19E3779F9
_PRIME64_4: Final = 0x85EBCA77C2B2AE63
_PRIME64_5: Final = 0x27D4EB2F165667C5
_MIX_1: Final = 0x9FB21C651E98DF25
_MIX_2: Final = 0x165667919E3779F9
_SECRET: Final = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221b8084674f743248e"
    "e03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8a8fa763fe39c343ff9dcbbc7c70b4f1d"
    "8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc"
    "8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)
_STRIPE: Final = 64
_STRIPES_PER_BLOCK: Final = (len(_SECRET) - _STRIPE) // 8
_EIGHT: Final = struct.Struct("<8Q")
_TWO: Final = struct.Struct("<2Q")


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
    out = [_TOPIC_HASH_MAGIC, topic_id[7::-1], topic_id[:7:-1], _text(name), struct.pack("<i", partitions)]
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


def xxh3_64(data: bytes) -> int:
    """Return XXH3 with 64 bits and seed 0, an unsigned number.

    Takes some microseconds for the bytes of a small topic, a third of a millisecond for one of a thousand partitions.
    """
    # The specification mixes each class of lengths in its own way. The offsets into the secret (3, 7, 11, 119 and so
    # on) have no meaning beyond that: they are given there.
    size = len(data)
    if size <= 16:
        return _xxh3_up_to_16(data)
    if size <= 128:
        return _xxh3_up_to_128(data)
    if size <= 240:
        return _xxh3_up_to_240(data)
    return _xxh3_long(data)


def _xxh3_up_to_16(data: bytes) -> int:
    size = len(data)
    if size > 8:
        low = _word(data, 0) ^ _word(_SECRET, 24) ^ _word(_SECRET, 32)
        high = _word(data, size - 8) ^ _word(_SECRET, 40) ^ _word(_SECRET, 48)
        swapped = int.from_bytes(low.to_bytes(8, "little"), "big")
        return _avalanche((size + swapped + high + _folded(low, high)) & _MASK_64)
    if size >= 4:
        first = int.from_bytes(data[:4], "little")
        last = int.from_bytes(data[-4:], "little")
        mixed = (last + (first << 32)) ^ _word(_SECRET, 8) ^ _word(_SECRET, 16)
        mixed ^= _rotated(mixed, 49) ^ _rotated(mixed, 24)
        mixed = mixed * _MIX_1 & _MASK_64
        mixed ^= (mixed >> 35) + size
        mixed = mixed * _MIX_1 & _MASK_64
        return mixed ^ mixed >> 28
    if size:
        combined = data[0] << 16 | data[size >> 1] << 24 | data[-1] | size << 8
        flip = int.from_bytes(_SECRET[:4], "little") ^ int.from_bytes(_SECRET[4:8], "little")
        return _avalanche_64(combined ^ flip)
    return _avalanche_64(_word(_SECRET, 56) ^ _word(_SECRET, 64))


def _xxh3_up_to_128(data: bytes) -> int:
    size = len(data)
    total = size * _PRIME64_1
    for pair in range((size - 1) // 32, -1, -1):
        total += _mixed(data, 16 * pair, 32 * pair) + _mixed(data, size - 16 * (pair + 1), 32 * pair + 16)
    return _avalanche(total & _MASK_64)


def _xxh3_up_to_240(data: bytes) -> int:
    size = len(data)
    total = size * _PRIME64_1 + sum(_mixed(data, 16 * index, 16 * index) for index in range(8))
    total = _avalanche(total & _MASK_64)
    total += sum(_mixed(data, 16 * index, 16 * (index - 8) + 3) for index in range(8, size // 16))
    total += _mixed(data, size - 16, 136 - 17)
    return _avalanche(total & _MASK_64)


def _xxh3_long(data: bytes) -> int:
    size = len(data)
    lanes = [_PRIME32_3, _PRIME64_1, _PRIME64_2, _PRIME64_3, _PRIME64_4, _PRIME32_2, _PRIME64_5, _PRIME32_1]
    for stripe in range((size - 1) // _STRIPE):
        place = stripe % _STRIPES_PER_BLOCK
        if stripe and not place:
            _scramble(lanes)
        _accumulate(lanes, data, stripe * _STRIPE, place * 8)
    # The loop scrambles where the next block begins. A block that ends with the last whole stripe has no next one.
    if (size - 1) // _STRIPE and (size - 1) // _STRIPE % _STRIPES_PER_BLOCK == 0:
        _scramble(lanes)
    # The last stripe is read from the end of the data, and overlaps the one before.
    _accumulate(lanes, data, size - _STRIPE, len(_SECRET) - _STRIPE - 7)
    total = size * _PRIME64_1
    for pair in range(4):
        low, high = _TWO.unpack_from(_SECRET, 11 + 16 * pair)
        total += _folded(lanes[2 * pair] ^ low, lanes[2 * pair + 1] ^ high)
    return _avalanche(total & _MASK_64)


def _accumulate(lanes: list[int], data: bytes, position: int, secret: int) -> None:
    words = _EIGHT.unpack_from(data, position)
    keys = _EIGHT.unpack_from(_SECRET, secret)
    for lane in range(8):
        keyed = words[lane] ^ keys[lane]
        lanes[lane ^ 1] = (lanes[lane ^ 1] + words[lane]) & _MASK_64
        lanes[lane] = (lanes[lane] + (keyed & 0xFFFFFFFF) * (keyed >> 32)) & _MASK_64


def _scramble(lanes: list[int]) -> None:
    keys = _EIGHT.unpack_from(_SECRET, len(_SECRET) - _STRIPE)
    for lane, key in enumerate(keys):
        value = lanes[lane]
        lanes[lane] = (value ^ value >> 47 ^ key) * _PRIME32_1 & _MASK_64


def _mixed(data: bytes, position: int, secret: int) -> int:
    low, high = _TWO.unpack_from(data, position)
    key_low, key_high = _TWO.unpack_from(_SECRET, secret)
    return _folded(low ^ key_low, high ^ key_high)


def _folded(one: int, other: int) -> int:
    product = one * other
    return product & _MASK_64 ^ product >> 64


def _word(data: bytes, position: int) -> int:
    return int.from_bytes(data[position : position + 8], "little")


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> 64 - bits) & _MASK_64


def _avalanche(value: int) -> int:
    value ^= value >> 37
    value = value * _MIX_2 & _MASK_64
    return value ^ value >> 32


def _avalanche_64(value: int) -> int:
    value ^= value >> 33
    value = value * _PRIME64_2 & _MASK_64
    value ^= value >> 29
    value = value * _PRIME64_3 & _MASK_64
    return value ^ value >> 32
