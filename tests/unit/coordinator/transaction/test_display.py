"""The text of records of `__transaction_state`."""

from __future__ import annotations

import pytest

from barnabas.cli.log.log import transaction_record_text
from barnabas.coordinator.runtime.record import encode_record
from barnabas.coordinator.transaction.transaction_log import TransactionLogValue, encode_key, encode_value
from barnabas.coordinator.transaction.transaction_metadata import TransactionMetadata, TransactionState
from barnabas.protocol.errors import DecodeError
from barnabas.protocol.topic_partition import TopicPartition

KEY = encode_key("billing")
KEY_TEXT = "transaction_metadata::transactionalId=billing"


def test_metadata_of_version_0() -> None:
    partitions = frozenset({TopicPartition("t", 1), TopicPartition("a", 0)})
    metadata = TransactionMetadata("billing", 7, 2, 60_000, TransactionState.PREPARE_COMMIT, 123, partitions, 99)
    found = transaction_record_text(KEY, encode_value(metadata))
    assert found.key == KEY_TEXT
    assert found.payload == (
        "producerId:7,producerEpoch:2,state=PrepareCommit,partitions=[a-0,t-1],txnLastUpdateTimestamp=123,"
        "txnTimeoutMs=60000"
    )


def test_metadata_of_version_1() -> None:
    """Flexible, with tagged fields, as Kafka writes them with transaction.version 1."""
    value = TransactionLogValue(
        producer_id=7,
        previous_producer_id=6,
        next_producer_id=8,
        producer_epoch=2,
        transaction_timeout_ms=5,
        transaction_status=TransactionState.EMPTY.value,
        transaction_partitions=None,
        transaction_last_update_timestamp_ms=123,
        transaction_start_timestamp_ms=-1,
        client_transaction_version=2,
    )
    assert transaction_record_text(KEY, encode_record(value, 1)) == (
        KEY_TEXT,
        "producerId:7,producerEpoch:2,state=Empty,partitions=[],txnLastUpdateTimestamp=123,txnTimeoutMs=5",
    )


def test_a_removed_id_and_a_key_of_a_later_version() -> None:
    assert transaction_record_text(KEY, None) == (KEY_TEXT, "<DELETE>")
    assert transaction_record_text(b"\0\x09?", b"?") == ("unknown::version=9", None)


@pytest.mark.parametrize(
    ("key", "value"), [(None, b""), (b"\0", None), (KEY[:-1], None), (KEY, b""), (KEY, b"\0\x02"), (KEY, b"\0\0\0")]
)
def test_records_that_cannot_be_read(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(DecodeError):
        transaction_record_text(key, value)
