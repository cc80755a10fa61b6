"""The last steps of `send`: check a record's size, choose its partition, and add it to a batch.

Made by Producer. The threads that send call it, and the asyncio producer on its event loop. No state that changes, so
no lock: the accumulator has its own. Kafka: KafkaProducer.doSend.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future

from barnabas.clients.producer.accumulator.record_accumulator import RecordAccumulator
from barnabas.clients.producer.partitioning.murmur2 import partition_for_key
from barnabas.clients.producer.partitioning.partition_choice import Partitioner, checked_choice
from barnabas.clients.producer.producer_config import ProducerConfig
from barnabas.clients.producer.producer_record import ProducerRecord
from barnabas.clients.producer.producer_topics import KnownTopic
from barnabas.clients.producer.record_metadata import RecordMetadata
from barnabas.clients.producer.sending.sender_thread import SenderThread
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.records.record_batch import HEADER_SIZE


class RecordAppender:
    """The way of one producer's records into its accumulator. `now` gives monotonic milliseconds."""

    __slots__ = ("_accumulator", "_config", "_hashes_keys", "_largest_record", "_now", "_partitioner", "_thread")

    def __init__(
        self,
        config: ProducerConfig,
        partitioner: Partitioner | None,
        accumulator: RecordAccumulator,
        thread: SenderThread,
        now: Callable[[], int],
    ) -> None:
        self._config = config
        self._partitioner = partitioner
        self._accumulator = accumulator
        self._thread = thread
        self._now = now
        self._largest_record = config.largest_record
        self._hashes_keys = not config.partitioner_ignore_keys

    @property
    def has_partitioner(self) -> bool:
        """Whether the user's function chooses partitions."""
        return self._partitioner is not None

    def append(
        self,
        topic: str,
        partition: int | None,
        record: ProducerRecord,
        known: KnownTopic,
        future: Future[RecordMetadata] | None = None,
    ) -> Future[RecordMetadata]:
        """Add a record to a batch of its partition, and return its future: the given one, or else a new one.

        Wait for memory for as long as `known` has time left. Raises ApiError: MESSAGE_TOO_LARGE, BufferExhausted,
        ValueError for a partitioner's wrong choice and a record that exceeds all memory, ClientClosed.
        """
        # An upper bound of the uncompressed size: no record that passes here is too large once it is encoded.
        if HEADER_SIZE + record.size > self._largest_record:
            self.reject_size(HEADER_SIZE + record.size)
        if partition is None:
            partition = self._partition(topic, record, known)
        future, wakes_sender = self._accumulator.append(
            topic, partition, record, known.cluster, max_block_ms=known.left_ms, now=self._now, future=future
        )
        # Outside the accumulator's lock, which the sender takes as soon as it wakes.
        if wakes_sender:
            self._thread.wake()
        return future

    def _partition(self, topic: str, record: ProducerRecord, known: KnownTopic) -> int | None:
        """Return the partition by the user's function or by the key; None if the accumulator chooses."""
        key, value = record.key, record.value
        # `send` has made bytes of both.
        assert key is None or isinstance(key, bytes)
        if self._partitioner is not None:
            assert value is None or isinstance(value, bytes)
            return checked_choice(self._partitioner, topic, key, value, known.cluster)
        if key is not None and self._hashes_keys:
            return partition_for_key(key, known.partition_count)
        return None

    def reject_size(self, size: int) -> None:
        """Reject a record or a batch that is too large. Raises ApiError: MESSAGE_TOO_LARGE."""
        raise ApiError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"The message is {size} bytes when serialized which is larger than {self._config.largest_record},"
            f" which is the value of the {self._config.largest_record_setting} configuration.",
        )
