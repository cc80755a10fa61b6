"""The records of `__transaction_state`: key version 0, values of versions 0 and 1.

Written by TransitionLog, read while a coordinator loads, and by `barnabas log dump`. Key and value begin with two bytes
of version. Version 1 is written for producers of `transaction.version` 2, version 0 for others; both are read. Pure.
Kafka: TransactionLog, TransactionLogKey, TransactionLogValue.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from barnabas.coordinator.runtime.record import decode_record, encode_record
from barnabas.coordinator.transaction.metadata import NO_PRODUCER_ID, TransactionMetadata
from barnabas.coordinator.transaction.states import TransactionState
from barnabas.protocol.errors import DecodeError
from barnabas.protocol.message_struct import Struct
from barnabas.protocol.messages.message import Record
from barnabas.protocol.schema import Int8, Int16, Int32, Int64, field
from barnabas.protocol.topic_partition import TopicPartition, by_topic

VALUE_VERSION: Final = 0
FLEXIBLE_VALUE_VERSION: Final = 1
"""The version of values that say what producers of `transaction.version` 2 need."""


class TransactionLogKey(Record, versions="0"):
    """The key: a transactional id."""

    transactional_id: str = field("0+")


class TransactionLogValue(Record, versions="0-1", flexible="1+"):
    """The metadata of a transactional id."""

    producer_id: Int64 = field("0+")
    previous_producer_id: Int64 = field("1+", tag=0, tagged="1+", default=NO_PRODUCER_ID, ignorable=True)
    next_producer_id: Int64 = field("1+", tag=1, tagged="1+", default=NO_PRODUCER_ID, ignorable=True)
    producer_epoch: Int16 = field("0+")
    transaction_timeout_ms: Int32 = field("0+")
    transaction_status: Int8 = field("0+")
    transaction_partitions: list[TransactionLogValue.PartitionsSchema] | None = field("0+", nullable="0+")
    transaction_last_update_timestamp_ms: Int64 = field("0+")
    transaction_start_timestamp_ms: Int64 = field("0+")
    client_transaction_version: Int16 = field("1+", tag=2, tagged="1+", default=0, ignorable=True)

    class PartitionsSchema(Struct):
        topic: str = field("0+")
        partition_ids: list[Int32] = field("0+")


def encode_key(transactional_id: str) -> bytes:
    """Encode the key of an id."""
    return encode_record(TransactionLogKey(transactional_id=transactional_id), 0)


def encode_value(metadata: TransactionMetadata, version: int = VALUE_VERSION) -> bytes:
    """Encode metadata. Version 0 leaves out the previous and the next producer id, and the client's version."""
    value = TransactionLogValue(
        producer_id=metadata.producer_id,
        previous_producer_id=metadata.previous_producer_id,
        next_producer_id=metadata.next_producer_id,
        producer_epoch=metadata.producer_epoch,
        transaction_timeout_ms=metadata.timeout_ms,
        transaction_status=metadata.state.value,
        transaction_partitions=None
        if metadata.state is TransactionState.EMPTY
        else [
            TransactionLogValue.PartitionsSchema(topic, numbers)
            for topic, numbers in by_topic(sorted(metadata.partitions)).items()
        ],
        transaction_last_update_timestamp_ms=metadata.updated_ms,
        transaction_start_timestamp_ms=metadata.start_ms,
        client_transaction_version=metadata.client_version,
    )
    return encode_record(value, version)


def decode_key(key: bytes) -> str:
    """Return the transactional id of a key. Raises DecodeError."""
    return decode_record(TransactionLogKey, key).transactional_id


def decode_value(transactional_id: str, data: bytes) -> TransactionMetadata:
    """Return the metadata of a value. Raises DecodeError when it is malformed, or of an unknown version or state."""
    value = decode_record(TransactionLogValue, data)
    try:
        state = TransactionState(value.transaction_status)
    except ValueError:
        raise DecodeError(f"transaction state {value.transaction_status} is unknown; 0 to 7 are states") from None
    return TransactionMetadata(
        transactional_id=transactional_id,
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        timeout_ms=value.transaction_timeout_ms,
        state=state,
        updated_ms=value.transaction_last_update_timestamp_ms,
        partitions=frozenset(_partitions_of(value.transaction_partitions or ())),
        start_ms=value.transaction_start_timestamp_ms,
        previous_producer_id=value.previous_producer_id,
        client_version=value.client_transaction_version,
        next_producer_id=value.next_producer_id,
    )


def _partitions_of(topics: Iterable[TransactionLogValue.PartitionsSchema]) -> Iterable[TopicPartition]:
    return (TopicPartition(topic.topic, number) for topic in topics for number in topic.partition_ids)
