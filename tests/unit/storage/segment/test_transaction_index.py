"""`.txnindex` files: Kafka's bytes, look-ups, truncation, and files that cannot belong to the segment."""

from __future__ import annotations

import errno

import pytest

from barnabas.storage.segment.file import OpenFiles, SegmentFile
from barnabas.storage.segment.index_file import CorruptIndex
from barnabas.storage.segment.transaction_index import AbortedTransactionEntry, TransactionIndex
from tests.support.simulated_files import SimulatedFiles
from tests.unit.storage.log_harness import Broker, fault_once

PATH = "/data/00000000000000000100.txnindex"
ENTRIES = [
    AbortedTransactionEntry(1, 50, 110, 105),
    AbortedTransactionEntry(2, 105, 120, 121),
    AbortedTransactionEntry(1, 130, 140, 135),
    AbortedTransactionEntry(3, 135, 150, 151),
]


def new_disk() -> SimulatedFiles:
    files = SimulatedFiles()
    files.make_dirs("/data")
    return files


def index_of(files: SimulatedFiles) -> TransactionIndex:
    file = SegmentFile(PATH, OpenFiles(files))
    return TransactionIndex(file, 100, is_new=not file.exists())


def filled(files: SimulatedFiles) -> TransactionIndex:
    index = index_of(files)
    for entry in ENTRIES:
        index.append(entry)
    return index


def test_bytes_are_those_of_kafka() -> None:
    """AbortedTxn of Kafka 3.9.2."""
    golden = "00000000011f71fb04cb000000000000002a00000000000003e900000000000003ea"
    assert AbortedTransactionEntry(1_234_567_890_123, 42, 1001, 1002).encode().hex() == golden


def test_there_is_no_file_before_the_first_entry() -> None:
    files = new_disk()
    index = index_of(files)
    index.sync()
    index.reset()
    index.truncate_to(0)
    index.sanity_check()
    assert index.entries() == []
    index.file.close()
    index.file.delete()
    assert files.list_dir("/data") == []


def test_a_segment_changes_its_name_whatever_files_its_indexes_have() -> None:
    segment = Broker(new_disk()).log().local.segments.active
    transactions = segment.indexes.transactions
    for old, new in (("", ".deleted"), (".deleted", "")):
        segment.change_suffix(old, new)
        assert transactions.path.endswith(".txnindex" + new)
        assert not transactions.file.exists()


def test_entries_are_found_again() -> None:
    files = new_disk()
    filled(files).file.close()
    index = index_of(files)
    index.sanity_check()
    assert index.entries() == ENTRIES
    with pytest.raises(ValueError, match="must increase sequentially"):
        index.append(AbortedTransactionEntry(9, 0, 150, 0))
    index.append(AbortedTransactionEntry(9, 150, 151, 152))
    assert len(files.read_bytes(PATH)) == 5 * 34


@pytest.mark.parametrize(
    ("start", "upper", "expected", "complete"),
    [
        (0, 100, [0], True),  # what came after the stable offset 105 cannot reach below 100
        (100, 106, [0, 1], True),
        (111, 130, [1], True),
        (121, 131, [2], True),
        (141, 1000, [3], False),
        (151, 1000, [], False),
    ],
)
def test_collects_what_overlaps(start: int, upper: int, expected: list[int], complete: bool) -> None:
    found, is_complete = filled(new_disk()).collect(start, upper)
    assert found == [ENTRIES[number] for number in expected]
    assert is_complete is complete


def test_truncation_drops_markers() -> None:
    for offset in range(105, 155):
        files = new_disk()
        index = filled(files)
        index.truncate_to(offset)
        kept = [entry for entry in ENTRIES if entry.last_offset < offset]
        assert index.entries() == kept
        assert index_of(files).entries() == kept
        index.append(AbortedTransactionEntry(7, offset, offset, offset))


def test_a_write_that_fails_changes_nothing() -> None:
    files = new_disk()
    index = filled(files)
    files.fault = fault_once("write", OSError(errno.ENOSPC, "full"))
    with pytest.raises(OSError, match="full"):
        index.append(AbortedTransactionEntry(9, 150, 200, 201))
    assert index.entries() == ENTRIES
    index.append(AbortedTransactionEntry(9, 150, 160, 161))
    assert index_of(files).entries() == [*ENTRIES, AbortedTransactionEntry(9, 150, 160, 161)]


@pytest.mark.parametrize(
    "content",
    [
        ENTRIES[0].encode() + b"\0",
        b"\0" * 20,
        AbortedTransactionEntry(1, 50, 99, 60).encode(),
        ENTRIES[1].encode() + ENTRIES[0].encode(),
        ENTRIES[0].encode() + bytes(34),
        b"\0\1" + ENTRIES[0].encode()[2:],
    ],
)
def test_a_file_that_cannot_belong_to_the_segment_is_noticed(content: bytes) -> None:
    files = new_disk()
    files.write_bytes(PATH, content)
    with pytest.raises(CorruptIndex):
        index_of(files).sanity_check()
