"""What a client library must do in these tests, and the records it carries.

One driver a library (`*_driver.py`), one test for all of them (`test_round_trip.py`).
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

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
