"""The lines of `barnabas log dump`, which are those of Kafka's DumpLogSegments."""

from __future__ import annotations

import pytest

from barnabas.protocol.errors import DecodeError
from barnabas.records.compression import Codec
from barnabas.storage.checkpoints import MalformedCheckpoint
from barnabas.storage.dump import Complaint, DumpTerms, IndexCheck, RecordText, dump_file
from barnabas.storage.producers.entry import BatchMetadata, ProducerStateEntry
from barnabas.storage.producers.snapshot import encode_snapshot
from barnabas.storage.segment.transaction_index import AbortedTransactionEntry
from tests.support.simulated_files import SimulatedFiles
from tests.unit.storage.log_harness import NOW, Broker, batch, log_config

STEM = "/data/topic-0/00000000000000000000"


def written() -> SimulatedFiles:
    files = SimulatedFiles()
    broker = Broker(files, config=log_config(index_interval_bytes=100))
    log = broker.log()
    for number in range(5):
        log.append_as_leader(batch(2, codec=Codec(number), timestamp=NOW + number * 10), 4)
    broker.manager.shutdown()
    return files


def test_log() -> None:
    lines = list(dump_file(STEM + ".log", written()))
    assert lines[:2] == [f"Dumping {STEM}.log", "Log starting offset: 0"]
    assert len(lines) == 7
    assert lines[2] == (
        "baseOffset: 0 lastOffset: 1 count: 2 baseSequence: -1 lastSequence: -1 producerId: -1 producerEpoch: -1"
        " partitionLeaderEpoch: 4 isTransactional: false isControl: false deleteHorizonMs: OptionalLong.empty"
        f" position: 0 CreateTime: {NOW + 1} size: {len(batch(2))} magic: 2 compresscodec: none"
        f" crc: {int.from_bytes(batch(2)[17:21], 'big')} isvalid: true"
    )
    assert "compresscodec: zstd" in lines[6]


def test_records() -> None:
    lines = list(dump_file(STEM + ".log", written(), DumpTerms(contents=True)))
    assert lines[3] == (
        f"| offset: 0 CreateTime: {NOW} keySize: 3 valueSize: 20 sequence: -1 headerKeys: [] key: key payload: "
        + "\0" * 20
    )


def test_records_are_decoded() -> None:
    def decode(key: bytes | None, value: bytes | None) -> RecordText:
        return RecordText(f"<{(key or b'').decode()}>", f"{len(value or b'')} bytes")

    lines = list(dump_file(STEM + ".log", written(), DumpTerms(decoder=decode)))
    assert lines[3].endswith("headerKeys: [] key: <key> payload: 20 bytes")
    assert not any(isinstance(line, Complaint) for line in lines)


def test_a_record_that_cannot_be_decoded_is_told_and_the_next_one_shown() -> None:
    def decode(key: bytes | None, value: bytes | None) -> RecordText:
        raise DecodeError("no such version")

    lines = list(dump_file(STEM + ".log", written(), DumpTerms(decoder=decode)))
    records = [line for line in lines if line.startswith("|")]
    assert len(records) == 10
    assert all(isinstance(line, Complaint) and "cannot be decoded: no such version" in line for line in records)


def test_damage_is_told() -> None:
    files = written()
    content = files.read_bytes(STEM + ".log")
    files.write_bytes(STEM + ".log", content[:-5])
    lines = list(dump_file(STEM + ".log", files))
    assert "invalid bytes at the end of" in lines[-1]
    assert isinstance(lines[-1], Complaint)
    files.write_bytes(STEM + ".log", content[:80] + b"!" + content[81:])
    assert "isvalid: false" in next(line for line in dump_file(STEM + ".log", files) if "position: 0" in line)


def test_indexes() -> None:
    files = written()
    lines = list(dump_file(STEM + ".index", files))
    assert lines[1] == f"offset: 3 position: {len(batch(2))}"
    assert not any("ismatch" in line for line in lines)
    times = list(dump_file(STEM + ".timeindex", files))
    assert times[1] == f"timestamp: {NOW + 11} offset: 3"
    assert times[-1] == f"timestamp: {NOW + 41} offset: 9"
    for suffix in (".index", ".timeindex"):
        content = bytearray(files.read_bytes(STEM + suffix))
        content[-1] ^= 1
        files.write_bytes(STEM + suffix, bytes(content))
        assert any("ismatch" in line for line in dump_file(STEM + suffix, files))


@pytest.mark.parametrize("name", ["/data/topic-0/other-checkpoint", "/data/topic-0/x.log", "/data/7.index"])
def test_other_files_are_refused(name: str) -> None:
    with pytest.raises(MalformedCheckpoint):
        list(dump_file(name, SimulatedFiles()))


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_index_checks(suffix: str) -> None:
    files = written()
    assert list(dump_file(STEM + suffix, files, DumpTerms(check=IndexCheck.VERIFY))) == [f"Dumping {STEM}{suffix}"]
    sane = list(dump_file(STEM + suffix, files, DumpTerms(check=IndexCheck.SANITY)))
    assert sane == [f"Dumping {STEM}{suffix}", f"{STEM}{suffix} passed sanity check."]
    files.write_bytes(STEM + suffix, files.read_bytes(STEM + suffix)[:-1])
    torn = list(dump_file(STEM + suffix, files, DumpTerms(check=IndexCheck.SANITY)))
    assert any(isinstance(line, Complaint) for line in torn)


def test_snapshots_and_aborted_transactions() -> None:
    files = SimulatedFiles()
    files.make_dirs("/data/topic-0")
    producer = ProducerStateEntry(7, 1, 2, NOW, 40, BatchMetadata(9, 44, 4, NOW))
    files.write_bytes(STEM + ".snapshot", encode_snapshot([producer, ProducerStateEntry(8, 0)]))
    in_transaction, idle = list(dump_file(STEM + ".snapshot", files))[1:]
    assert in_transaction == (
        "producerId: 7 producerEpoch: 1 coordinatorEpoch: 2 currentTxnFirstOffset: OptionalLong[40]"
        f" lastTimestamp: {NOW} firstSequence: 5 lastSequence: 9 lastOffset: 44 offsetDelta: 4 timestamp: {NOW}"
    )
    assert idle == (
        "producerId: 8 producerEpoch: 0 coordinatorEpoch: -1 currentTxnFirstOffset: OptionalLong.empty"
        " lastTimestamp: -1 "
    )
    files.write_bytes(STEM + ".txnindex", AbortedTransactionEntry(7, 40, 45, 46).encode() + b"\0")
    lines = list(dump_file(STEM + ".txnindex", files))
    assert lines[1] == "version: 0 producerId: 7 firstOffset: 40 lastOffset: 45 lastStableOffset: 46"
    assert isinstance(lines[2], Complaint)


def test_state_files() -> None:
    files = written()
    epochs = "/data/topic-0/leader-epoch-checkpoint"
    assert list(dump_file(epochs, files))[1:] == ["leaderEpoch: 4 startOffset: 0"]
    assert list(dump_file("/data/recovery-point-offset-checkpoint", files))[1:] == [
        "topic: topic partition: 0 offset: 10"
    ]
    files.write_bytes(epochs, b"0\n2\n4 0\n3 9\n")
    assert isinstance(list(dump_file(epochs, files))[-1], Complaint)
    files.write_bytes(epochs, b"0\n2\n4 0\n")
    with pytest.raises(MalformedCheckpoint):
        list(dump_file(epochs, files))
