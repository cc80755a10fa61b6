"""What a coordinator finds in its log: damage keeps a partition out of service, and nothing is decided again."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.coordinator.runtime.coordinator_log import CoordinatorLog
from barnabas.coordinator.transaction.transaction_loading import TransactionReplay
from barnabas.coordinator.transaction.transaction_log import encode_key, encode_value
from barnabas.coordinator.transaction.transaction_metadata import TransactionMetadata, TransactionState
from barnabas.metadata.topic_name import TRANSACTION_STATE_TOPIC
from barnabas.protocol.errors import ErrorCode
from barnabas.records.compression import Codec
from barnabas.records.errors import CorruptRecord
from barnabas.records.memory_records import batch_at
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


USUAL_KEYS = st.binary(max_size=20) | st.integers(40, 80).map(bytes) | st.integers(8180, 8200).map(bytes)
KINDS = st.sampled_from([{}, {"producer_id": 1, "producer_epoch": 0, "is_transactional": True}, {"codec": Codec.GZIP}])


@given(
    st.lists(
        st.tuples(
            KINDS,
            st.lists(st.tuples(USUAL_KEYS, USUAL_KEYS | st.none(), st.booleans()), min_size=1, max_size=3),
        ),
        max_size=5,
    )
)
def test_batches_of_every_shape_are_read_as_by_the_general_way(batches: list[tuple[Any, list[Any]]]) -> None:
    expected: dict[bytes, bytes] = {}
    encoded = []
    for arguments, records in batches:
        builder = RecordBatchBuilder(**arguments)
        for key, value, has_header in records:
            builder.append(5, key, value, [("header", b"")] if has_header else ())
        encoded.append(builder.build())
        for record in batch_at(encoded[-1]).records():
            expected.pop(record.key or b"", None)
            if record.value is not None:
                expected[record.key or b""] = record.value
    replay = replay_of(*encoded)
    assert (replay.values, replay.record_count) == (expected, sum(len(records) for _, records in batches))


@pytest.mark.parametrize("position", [*range(8, 12), *range(16, 99)])
def test_a_usual_batch_with_a_wrong_bit_is_not_taken_for_another(position: int) -> None:
    whole = batch_of(encode_key("a"), encode_value(TransactionMetadata("a", 7, 0, 1, TransactionState.EMPTY, 2)))
    assert len(whole) > position
    batch = bytearray(whole)
    batch[position] ^= 0x40
    try:
        replay = replay_of(bytes(batch))
    except CorruptRecord:
        return
    # Its length says that more follows: there is no whole batch.
    assert replay.record_count == 0


def test_no_id_of_a_damaged_partition_is_served() -> None:
    broker = TransactionBroker()
    broker.producer()
    partition = broker.partitions.partition_for(ID)
    terms = broker.environment.config.append_terms
    log = CoordinatorLog(TRANSACTION_STATE_TOPIC, broker.replicas.manager.appender, terms, broker.clock)
    assert log.append_unwatched(partition, [(encode_key("another"), b"\0\x63")]) is ErrorCode.NONE
    again = broker.restarted()
    assert again.init().error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
