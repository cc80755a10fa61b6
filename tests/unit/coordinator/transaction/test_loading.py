"""What a coordinator finds in its log: damage keeps a partition out of service, and nothing is decided again."""

from __future__ import annotations

import pytest

from barnabas.coordinator.runtime.coordinator_log import CoordinatorLog
from barnabas.coordinator.transaction.transaction_loading import TransactionReplay
from barnabas.coordinator.transaction.transaction_log import encode_key
from barnabas.metadata.topic_name import TRANSACTION_STATE_TOPIC
from barnabas.protocol.errors import ErrorCode
from barnabas.records.compression import Codec
from barnabas.records.errors import CorruptRecord
from barnabas.records.record_batch_builder import RecordBatchBuilder
from tests.unit.coordinator.transaction.transaction_harness import ID, TransactionBroker


def replay_of(*batches: bytes) -> TransactionReplay:
    replay = TransactionReplay()
    for _ in replay.replay(b"".join(batches)):
        pass
    return replay


def batch_of(key: bytes, value: bytes | None) -> bytes:
    builder = RecordBatchBuilder(Codec.NONE)
    builder.append(0, key, value)
    return builder.build()


@pytest.mark.parametrize("value", [b"", b"\0", b"\0\x63", b"\0\0cut"], ids=["empty", "short", "version 99", "cut"])
def test_a_value_that_cannot_be_read_ends_the_loading(value: bytes) -> None:
    with pytest.raises(CorruptRecord, match="damaged-id"):
        list(replay_of(batch_of(encode_key("damaged-id"), value)).metadata())


def test_a_batch_that_cannot_be_read_ends_the_loading() -> None:
    batch = bytearray(batch_of(encode_key("a"), b"value"))
    batch[-3] ^= 1
    with pytest.raises(CorruptRecord, match="the batch at offset 0"):
        replay_of(bytes(batch))


def test_keys_of_later_versions_and_tombstones_are_left_out() -> None:
    replay = replay_of(
        batch_of(b"\0\1later", b"x"), batch_of(encode_key("a"), b"\0\x63"), batch_of(encode_key("a"), None)
    )
    assert list(replay.metadata()) == []


def test_no_id_of_a_damaged_partition_is_served() -> None:
    broker = TransactionBroker()
    broker.producer()
    partition = broker.partitions.partition_for(ID)
    terms = broker.environment.config.append_terms
    log = CoordinatorLog(TRANSACTION_STATE_TOPIC, broker.replicas.manager.appender, terms, broker.clock)
    assert log.append_unwatched(partition, [(encode_key("another"), b"\0\x63")]) is ErrorCode.NONE
    again = broker.restarted()
    assert again.init().error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
