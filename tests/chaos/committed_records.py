"""Which records of transactional partitions are committed, and whether they are those that the writer was told.

Called by campaigns while writers rest and every broker runs. Reads files and markers, and shares no code with the
broker's transaction index, nor with the clients' filters.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from barnabas.records.end_transaction_marker import EndTransactionMarker
from barnabas.records.record_batch import batches
from tests.chaos.transaction_ledger import Outcome, TransactionEntry, TransactionLedger
from tests.chaos.verification import Found


class PartitionContent(NamedTuple):
    """The records of a partition. all_records: by value, with offsets. committed: those of committed transactions, in
    the order of offsets. open_producers: ids of producers whose last records have no marker."""

    all_records: Mapping[bytes, int]
    committed: Sequence[Found]
    open_producers: Sequence[int]
    end_offset: int


def content_of(log: bytes) -> PartitionContent:
    """Read the log of a partition. Raises AssertionError: a value is there twice."""
    pending: dict[int, list[Found]] = defaultdict(list)
    all_records: dict[bytes, int] = {}
    committed: list[Found] = []
    end_offset = 0
    for batch in batches(log):
        assert batch.base_offset == end_offset, f"offset {end_offset} is missing: a batch begins at {batch.base_offset}"
        end_offset = batch.next_offset
        if batch.is_control:
            marker = EndTransactionMarker.of(batch)
            records = pending.pop(batch.producer_id, [])
            if marker is not None and not marker.is_abort:
                committed += records
            continue
        assert batch.is_transactional, f"a batch outside of transactions at {batch.base_offset}"
        for record in batch.records():
            value = bytes(record.value or b"")
            assert value not in all_records, f"{value[:40]!r} is at {all_records[value]} and at {record.offset}"
            all_records[value] = record.offset
            pending[batch.producer_id].append(Found(record.offset, record.key, value))
    committed.sort(key=lambda record: record.offset)
    return PartitionContent(all_records, committed, list(pending), end_offset)


def check_transactions(ledger: TransactionLedger, contents: Sequence[PartitionContent]) -> int:
    """Committed transactions are there whole, once and in order; aborted ones are not; all others are whole or absent.

    contents: of each partition. Returns the group's offset that goes with the last committed transaction, 0 for none.
    """
    for partition, content in enumerate(contents):
        name = f"{ledger.topic}-{partition}"
        assert not content.open_producers, f"{name}: transactions of the producers {content.open_producers} are open"
        assert all(record.value for record in content.committed)
    everything = {value: offset for content in contents for value, offset in content.all_records.items()}
    wrong = {value[:40] for value, offset in ledger.acknowledged.items() if everything.get(value) != offset}
    assert not wrong, f"{ledger.topic}: not where they were acknowledged: {sorted(wrong)[:5]}"
    visible = {record.value for content in contents for record in content.committed}
    committed = [entry for entry in ledger.entries if _is_committed(ledger.topic, entry, visible)]
    for partition, content in enumerate(contents):
        expected = [each.value for entry in committed for each in entry.sent if each.partition == partition]
        found = [record.value for record in content.committed]
        assert found == expected, f"{ledger.topic}-{partition}: other committed records than were sent, or in disorder"
    return max((entry.number + 1 for entry in committed if entry.has_offset), default=0)


def _is_committed(topic: str, entry: TransactionEntry, visible: set[bytes | None]) -> bool:
    """Return whether a transaction's records are visible. Raises AssertionError: some are not, or it is not so."""
    seen = [each for each in entry.sent if each.value in visible]
    name = f"{topic}: transaction {entry.number}, which is {entry.outcome.value} to its producer,"
    assert len(seen) in (0, len(entry.sent)), f"{name} shows {len(seen)} of {len(entry.sent)} records"
    if entry.outcome is Outcome.COMMITTED:
        assert len(seen) == len(entry.sent), f"{name} is lost"
    if entry.outcome is Outcome.ABORTED:
        assert not seen, f"{name} is visible"
    return bool(seen)
