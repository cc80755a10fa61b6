"""What a client library must do in these tests, the records it carries, and the round trip that it makes with them.

One driver a library (`*_driver.py`).
"""

from __future__ import annotations

import random
import zlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

import pytest

from tests.support.server_fixtures import MODES, Server
from tests.support.stored_batches import CODECS, stored_batches

Headers = tuple[tuple[str, bytes], ...]


class SentRecord(NamedTuple):
    """A record as the test hands it to a client."""

    partition: int
    key: bytes | None
    value: bytes
    headers: Headers


class ReadRecord(NamedTuple):
    """A record as a client hands it back."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes
    headers: Headers


class ClientDriver(Protocol):
    """One client library with its default settings."""

    name: str
    partitions: int
    """Partitions of the topic it is given: 1 for a producer that cannot choose."""
    carries_bytes: bool
    """False: keys and values must be printable (command line tools that split their input)."""
    headers_per_record: bool
    """False: all records of a partition carry the same headers."""

    def create_topic(self, bootstrap_servers: str, topic: str, partitions: int) -> None:
        """Create a topic; return when it exists."""

    def produce(self, bootstrap_servers: str, topic: str, codec: str, records: Sequence[SentRecord]) -> None:
        """Send all records in order, compressed with `codec`; return when all are acknowledged, raise if one is not."""

    def read(self, bootstrap_servers: str, topic: str, offsets: Mapping[int, int], count: int) -> Iterable[ReadRecord]:
        """Read `count` records of the assigned partitions, each from the offset given; no group, no commit."""


def make_records(driver: ClientDriver, count: int, seed: int) -> list[SentRecord]:
    """Seeded records that compress well even one at a time, so that no client gives up compressing a batch of one."""
    random_source = random.Random(seed)
    return [_make_record(driver, index, random_source) for index in range(count)]


def _make_record(driver: ClientDriver, index: int, random_source: random.Random) -> SentRecord:
    partition = index % driver.partitions
    text = f"record {index} " + f"{random_source.randrange(1_000_000)} " * random_source.randrange(20, 30)
    key, value = b"key-%d" % (index % 97), text.encode()
    if driver.carries_bytes:
        key += b"\x00\xff\n"
        value += bytes(range(0, 256, 5))
    if not driver.headers_per_record:
        return SentRecord(partition, key, value, (("origin", b"test"), ("partition", b"%d" % partition)))
    headers = (("index", b"%d" % index), ("empty", b""), ("index", b"a header may come twice"))
    return SentRecord(partition, key, value, headers)


# -- the round trip of one client

RECORDS = 10_000
# every codec in the first mode, one in the others: the codec changes nothing about who runs the request
CASES = [(MODES[0], codec) for codec in CODECS] + [(mode, "zstd") for mode in MODES[1:]]
each_case = pytest.mark.parametrize(("server", "codec"), CASES, indirect=["server"])


def round_trip(server: Server, driver: ClientDriver, codec: str, topic: str) -> None:
    sent = make_records(driver, RECORDS, seed=zlib.crc32(f"{driver.name} {codec}".encode()))
    driver.create_topic(server.bootstrap_servers, topic, driver.partitions)
    driver.produce(server.bootstrap_servers, topic, codec, sent)

    expected = _as_stored(sent)
    counts = {partition: len(records) for partition, records in expected.items()}
    _assert_stored(server, topic, codec, counts)

    everything = driver.read(server.bootstrap_servers, topic, dict.fromkeys(counts, 0), RECORDS)
    assert by_partition(everything) == expected

    half = {partition: count // 2 for partition, count in counts.items()}
    rest = sum(counts[partition] - half[partition] for partition in counts)
    second_half = driver.read(server.bootstrap_servers, topic, half, rest)
    assert by_partition(second_half) == {p: records[half[p] :] for p, records in expected.items()}


def _as_stored(sent: list[SentRecord]) -> dict[int, list[ReadRecord]]:
    """What was sent to each partition, with the offsets that its order gives."""
    partitions: defaultdict[int, list[ReadRecord]] = defaultdict(list)
    for record in sent:
        placed = partitions[record.partition]
        placed.append(ReadRecord(record.partition, len(placed), record.key, record.value, record.headers))
    return dict(partitions)


def by_partition(records: Iterable[ReadRecord]) -> dict[int, list[ReadRecord]]:
    partitions: defaultdict[int, list[ReadRecord]] = defaultdict(list)
    for record in records:
        partitions[record.partition].append(record)
    return dict(partitions)


def _assert_stored(server: Server, topic: str, codec: str, counts: dict[int, int]) -> None:
    for partition, count in counts.items():
        batches = stored_batches(server.data_dir, topic, partition)
        assert {batch.codec for batch in batches} == {codec}
        assert sum(batch.count for batch in batches) == count
        assert [batch.base_offset for batch in batches[1:]] == [batch.last_offset + 1 for batch in batches[:-1]]
