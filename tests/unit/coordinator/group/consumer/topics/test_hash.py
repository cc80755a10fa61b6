"""The hash of a group's topics, bit by bit Kafka 4.3.1's (hash4j's XXH3, Utils.computeTopicHash, computeGroupHash)."""

from __future__ import annotations

import pytest

from barnabas.coordinator.group.consumer.topics.hash import TopicHashes, xxh3_64
from barnabas.metadata.metadata_image import BrokerMetadata, MetadataImage, PartitionMetadata, TopicMetadata

# hash4j 0.22, of bytes (131 * i + 7) & 255: one of each way through the algorithm, and where they meet.
HASHES = {
    0: 3244421341483603138,
    1: 5502495245947142431,
    2: 3010103725172346478,
    3: 7943829059066201772,
    4: 6650799683851767871,
    7: 5090693914820600895,
    8: -433104430451296011,
    9: 8944394699905593055,
    15: -5528828582810638987,
    16: -8742622969447446440,
    17: -5364924204495744911,
    31: 5207339628089618566,
    32: -2057812048208419218,
    33: -6566554354575335565,
    63: 3515624616226464315,
    64: 1338082372350062813,
    65: -7510104758670172471,
    95: 3583899285532673677,
    96: -9139658339728870555,
    97: -1061261424723314211,
    127: -1347431566829023819,
    128: 1211889905577015873,
    129: 1605741916052902306,
    160: 7303868565341031498,
    200: -4540823641285081050,
    239: -1094000318848756019,
    240: -5273803999686196762,
    241: -7679571566553258082,
    300: -6564394176017959474,
    511: 6491897709703144074,
    512: -6851812253923438377,
    513: -7473678802563874101,
    1023: -6246496178641082140,
    1024: 8123710315364152507,
    1025: 7405123385822357415,
    1088: -847301810213770052,
    1089: 3547648957351721518,
    2048: -8410812437646067152,
    2049: 6349179943806269125,
    4096: -7071382859529790721,
    5000: -2017479414651090596,
}

ONE_ID = bytes.fromhex("01020304050607081112131415161718")
OTHER_ID = (-5).to_bytes(8, "big", signed=True) + b"\x7f" + b"\xff" * 7


def image(*topics: TopicMetadata, racks: dict[int, str | None] | None = None) -> MetadataImage:
    brokers = {number: BrokerMetadata(number, 0, rack, {}) for number, rack in (racks or {}).items()}
    return MetadataImage(
        brokers=brokers,
        topics={topic.name: topic for topic in topics},
        topic_names={topic.topic_id: topic.name for topic in topics},
    )


def topic(name: str, topic_id: bytes, count: int, replicas: tuple[int, ...] = (0,)) -> TopicMetadata:
    partitions = (PartitionMetadata(number, 0, 0, replicas, replicas, (), 0) for number in range(count))
    return TopicMetadata(name, topic_id, tuple(partitions))


@pytest.mark.parametrize("size", HASHES)
def test_xxh3(size: int) -> None:
    data = bytes((131 * index + 7) & 255 for index in range(size))
    assert xxh3_64(data) == HASHES[size] % 2**64


def test_topics_and_groups() -> None:
    partitions = tuple(PartitionMetadata(number, 0, 0, (number % 3, 3), (), (), 0) for number in range(5))
    now = image(
        topic("foo", ONE_ID, 3),
        topic("bar", OTHER_ID, 400),
        TopicMetadata("racks", ONE_ID, partitions),
        racks={0: None, 1: None, 2: None},
    )
    racked = image(*now.topics.values(), racks={0: "r0", 1: "r1", 2: "r2", 3: "a-rack"})
    hashes = TopicHashes()
    assert hashes.group_hash(["foo"], now) == -6477936092594051171
    assert hashes.group_hash([], now) == hashes.group_hash(["none"], now) == 0
    # Kafka hashed `racks` with a rack for each replica, the others with none.
    assert _combined(-5587040646635751638, -8832753732432981234, 8576179108759525167) == 875446861741720580
    assert hashes.group_hash(["racks"], racked) == _signed(_combined(8576179108759525167))
    assert hashes.group_hash(["foo", "bar"], now) == _signed(_combined(-5587040646635751638, -8832753732432981234))


def test_what_changes_it_and_what_does_not() -> None:
    hashes = TopicHashes()
    before = hashes.group_hash(["foo"], image(topic("foo", ONE_ID, 3)))
    assert hashes.group_hash(["foo"], image(topic("foo", ONE_ID, 3, (1, 2)))) == before
    assert hashes.group_hash(["foo"], image(topic("foo", ONE_ID, 4))) != before
    assert hashes.group_hash(["foo"], image(topic("foo", OTHER_ID, 3))) != before
    assert hashes.group_hash(["foo"], image(topic("foo", ONE_ID, 3), racks={0: "here"})) != before


def _combined(*hashes: int) -> int:
    return _signed(xxh3_64(b"".join((each % 2**64).to_bytes(8, "little") for each in hashes)))


def _signed(value: int) -> int:
    return value - 2**64 if value >> 63 else value
