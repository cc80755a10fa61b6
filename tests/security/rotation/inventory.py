"""Holds what the brokers have against what the writers were told, and sees which connections clients have.

Called by the campaign, on its thread, while every writer rests. The reader is independent of all the clients: requests
on a connection of its own to the leader of each partition.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from tests.chaos.ledger import Ledger, PartitionLedger
from tests.chaos.verification import Found, fetched
from tests.security.rotation.place import Place
from tests.support.raw_client import RawClient

_ESTABLISHED = "01"


def check_exactly_once(place: Place, ledger: Ledger) -> int:
    """Every record is there once, in the order of sending, at the offset of its acknowledgement; their number."""
    for partition, found in _partitions(place, ledger):
        book = ledger.partitions[partition]
        assert not book.failed, f"{ledger.topic}-{partition}: {len(book.failed)} deliveries failed"
        assert [record.value for record in found] == book.sent, f"{ledger.topic}-{partition}: other records"
        _check_offsets(ledger.topic, partition, book, found)
    return ledger.acknowledged


def check_acknowledged(place: Place, ledger: Ledger) -> int:
    """Every acknowledged record is there, at its offset; none is there twice or out of order. Their number."""
    for partition, found in _partitions(place, ledger):
        book = ledger.partitions[partition]
        place_of = {value: number for number, value in enumerate(book.sent)}
        numbers = [place_of[record.value or b""] for record in found]
        assert all(earlier < later for earlier, later in pairwise(numbers)), f"{ledger.topic}-{partition}: out of order"
        _check_offsets(ledger.topic, partition, book, found)
    return ledger.acknowledged


def _partitions(place: Place, ledger: Ledger) -> list[tuple[int, list[Found]]]:
    with place.admin() as admin:
        leaders = {
            each.partition: each.leader for each in admin.describe_topics([ledger.topic])[ledger.topic].partitions
        }
    found = []
    for partition in range(len(ledger.partitions)):
        leader = leaders[partition]
        assert leader is not None
        with RawClient(place.brokers[leader]) as client:
            found.append((partition, fetched(client, ledger.topic, partition)))
    return found


def _check_offsets(topic: str, partition: int, book: PartitionLedger, found: list[Found]) -> None:
    at = {record.value: record.offset for record in found}
    lost = [value for value, offset in book.acknowledged.items() if at.get(value) != offset]
    assert not lost, f"{topic}-{partition}: {len(lost)} acknowledged records are not at their offsets, {lost[:3]}"


def connections_to(ports: set[int]) -> set[int]:
    """The local ports of the established connections to these ports of 127.0.0.1."""
    found = set()
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, local, remote, state, *_ = line.split()
        if state == _ESTABLISHED and int(remote.rpartition(":")[2], 16) in ports:
            found.add(int(local.rpartition(":")[2], 16))
    return found
