"""The exceptions of the clients, beside `ApiError`, and the error in an answer by its code. No state."""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.clients.values import OffsetAndMetadata
from barnabas.protocol.errors import ApiError, ErrorCode, error_of
from barnabas.protocol.topic_partition import TopicPartition

INVALID_METADATA_ERRORS = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.LISTENER_NOT_FOUND,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)
"""Errors that mean that a client's view of the cluster is out of date (Kafka: InvalidMetadataException)."""


class ClientTimeout(TimeoutError):
    """A wait took longer than allowed: for metadata, memory, an answer, a delivery (Kafka: TimeoutException)."""


class Unreachable(ClientTimeout):
    """No broker could be reached since the client was made. The text names each address with its reason."""


class NotInMetadata(ClientTimeout):
    """Brokers have answered while a producer waited, and none of their answers had the topic or the partition."""


class BufferExhausted(ClientTimeout):
    """The producer's `buffer_memory` stayed full for `max_block_ms` (Kafka: BufferExhaustedException)."""


class SerializationFailed(ValueError):
    """A record's key or value could not be made into bytes; the cause is chained (Kafka: SerializationException)."""


class ClientClosed(RuntimeError):
    """The client was closed before, or while, it was used."""


class Disconnected(ConnectionError):
    """The connection was lost before the answer came (Kafka: DisconnectException)."""


class WokenUp(Exception):
    """Another thread called `Consumer.wakeup` (Kafka: WakeupException)."""


class CommitFailed(Exception):
    """The offsets were not committed, and a retry cannot help: their partitions may have new owners.

    Kafka: CommitFailedException.
    """


class RetriableCommitFailed(Exception):
    """An asynchronous commit failed for a reason that may pass; its cause is chained (Kafka: the same name)."""


class LogTruncation(ApiError):
    """A leader's log was cut below a consumer's position, and `auto_offset_reset` is none (KIP-320).

    The code is OFFSET_OUT_OF_RANGE. Records that the consumer has read are lost: `seek` to the offset in
    `divergent_offsets` to go on where the logs part. Kafka: LogTruncationException.
    """

    def __init__(
        self,
        positions: Mapping[TopicPartition, int],
        divergent_offsets: Mapping[TopicPartition, OffsetAndMetadata],
    ) -> None:
        super().__init__(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"Truncated partitions detected with divergent offsets {dict(divergent_offsets)}; positions: {positions}",
        )
        self.positions = positions
        """The position in each truncated partition."""
        self.divergent_offsets = divergent_offsets
        """The first offset at which the logs differ; a partition is missing if the leader does not know it."""


class RecordDeserializationError(Exception):
    """A key or value that a deserializer cannot read; its error is chained (Kafka: RecordDeserializationException).

    The position stays at the record: `seek` to `offset + 1` to go on behind it. `part`: "key" or "value".
    """

    def __init__(self, topic_partition: TopicPartition, offset: int, part: str, reason: Exception) -> None:
        super().__init__(
            f"Error deserializing the {part} for partition {topic_partition} at offset {offset}: {reason}. If needed,"
            " please seek past the record to continue consumption."
        )
        self.topic_partition = topic_partition
        self.offset = offset
        self.part = part


class TransactionAbortable(Exception):
    """The transaction has failed and can only be aborted; the producer can then begin another. The cause is chained.

    Kafka: the abortable errors of a transactional producer.
    """


class TransactionAborted(Exception):
    """The record was not sent, because its transaction was aborted (Kafka: TransactionAbortedException)."""


class TransactionalProducerFailed(Exception):
    """The transactional producer cannot go on: close it and make another. The cause is chained.

    Kafka: the fatal errors of a transactional producer.
    """


class ProducerFenced(TransactionalProducerFailed):
    """Another producer with the same transactional id has taken over (Kafka: ProducerFencedException)."""


def error_in(code: int, message: str | None, about: str) -> ApiError | None:
    """Return the error of an answer, or None. `about` completes the text where the broker sends none."""
    if not code:
        return None
    error = error_of(code)
    return ApiError(error, message or f"{error.message} {about}")


def raise_error(code: int, message: str | None, about: str) -> None:
    """Check an answer's error code. Raises ApiError; `about` completes the text where the broker sends none."""
    error = error_in(code, message, about)
    if error is not None:
        raise error
