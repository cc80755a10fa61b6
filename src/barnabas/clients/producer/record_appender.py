"""The steps of `send`: interceptors and serializers, the check of a record's size, its partition, its batch.

Made by Producer. The threads that send call it, and the asyncio producer on its event loop. No state that changes, so
no lock: the accumulator has its own. Most producers do without interceptors, and without serializers other than
`bytes`: they have no RecordPreparation. The asyncio producer, which must not wait in `send`, learns from SendConditions
what it would wait for. Kafka: KafkaProducer.doSend.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager
from typing import NamedTuple

from barnabas.clients.errors import BufferExhausted
from barnabas.clients.metadata.cluster import Cluster
from barnabas.clients.metadata.cluster_metadata import ClusterMetadata
from barnabas.clients.producer.accumulator.buffer_pool import BufferPool
from barnabas.clients.producer.accumulator.record_accumulator import RecordAccumulator
from barnabas.clients.producer.partition_choice import Partitioner, checked_choice, partition_for_key
from barnabas.clients.producer.producer_config import ProducerConfig
from barnabas.clients.producer.producer_record import (
    DeliveryCallback,
    OutgoingRecord,
    ProducerInterceptors,
    ProducerRecord,
    RecordMetadata,
)
from barnabas.clients.producer.producer_topics import KnownTopic, ProducerTopics
from barnabas.clients.producer.sending.sender import Sender
from barnabas.clients.producer.sending.sender_thread import SenderThread
from barnabas.clients.producer.serializers import MutableHeaders, serialize, serializer_of
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.records.record_batch import HEADER_SIZE


class PreparedRecord(NamedTuple):
    """A record whose key and value are bytes, and the callback that its result goes to."""

    record: OutgoingRecord
    on_delivery: DeliveryCallback | None


class RecordPreparation:
    """The interceptors and serializers of one producer."""

    def __init__(self, config: ProducerConfig) -> None:
        self._key_serializer = serializer_of("key_serializer", config.key_serializer)
        self._value_serializer = serializer_of("value_serializer", config.value_serializer)
        self._interceptors = ProducerInterceptors(config.interceptor_classes)

    def prepare(self, record: OutgoingRecord, on_delivery: DeliveryCallback | None) -> PreparedRecord:
        """Return the record after the interceptors and the serializers.

        Raises SerializationFailed, TypeError: the interceptors have seen the error then, the callback has not.
        """
        observed = self._interceptors.observed(on_delivery) if self._interceptors else on_delivery
        record = self._interceptors.on_send(record)
        headers: MutableHeaders = list(record.headers)
        try:
            key = serialize(self._key_serializer, "key", record.topic, record.key, headers)
            value = serialize(self._value_serializer, "value", record.topic, record.value, headers)
        except Exception as error:
            self._interceptors.on_acknowledgement(None, error)
            raise
        return PreparedRecord(record._replace(key=key, value=value, headers=tuple(headers)), observed)

    def close(self) -> None:
        """Close the interceptors."""
        self._interceptors.close()


def preparation_of(config: ProducerConfig) -> RecordPreparation | None:
    """Return the preparation that the settings ask for, None when a record goes as it is."""
    if config.key_serializer == "bytes" and config.value_serializer == "bytes" and not config.interceptor_classes:
        return None
    return RecordPreparation(config)


def cluster_listeners(config: ProducerConfig, partitioner: Partitioner | None) -> list[Callable[[Cluster], None]]:
    """Return the `on_cluster_update` of the user's objects that have one. Kafka: ClusterResourceListeners."""
    objects = (config.key_serializer, config.value_serializer, partitioner, *config.interceptor_classes)
    found = (getattr(each, "on_cluster_update", None) for each in objects)
    return [listener for listener in found if listener is not None]


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


class SendConditions:
    """The conditions under which `send` of one producer does not wait. `topics` has those of the metadata.

    Used on the event loop; the watchers are called on the sending thread. The parts have their own locks.
    """

    def __init__(
        self,
        config: ProducerConfig,
        metadata: ClusterMetadata,
        topics: ProducerTopics,
        pool: BufferPool,
        sender: Sender,
    ) -> None:
        self.topics = topics
        self._config = config
        self._metadata = metadata
        self._pool = pool
        self._sender = sender

    def has_memory(self, record_bytes: int) -> bool:
        """Return whether `send` finds memory for a record of this size, or would reject it at once.

        The answer holds until the next `send` if only the caller sends: the sending thread takes no memory.
        """
        wanted = self._wanted(record_bytes)
        return self._pool.available_bytes >= wanted or wanted > self._pool.total_bytes

    def watch_memory(self, on_change: Callable[[], None]) -> AbstractContextManager[None]:
        """Call `on_change()` on the sending thread whenever memory is given back, until the block is left.

        Until then all batches are sent at once, full or not.
        """
        return self._pool.watch(on_change)

    def wake_sender(self) -> None:
        """Let the sending thread see that memory is wanted."""
        self._sender.wakeup()

    def exhausted(self, record_bytes: int, waited_ms: int) -> BufferExhausted:
        """Count a record that found no memory in time, and return its error."""
        return self._pool.exhausted(self._wanted(record_bytes), waited_ms)

    def watch_metadata(self, on_change: Callable[[], None]) -> None:
        """Call `on_change()` on the sending thread after each update of the metadata."""
        self._metadata.add_listener(lambda _cluster: on_change())

    def note_failure(self, topic: str) -> None:
        """Count a record that failed before `send` was called."""
        self._sender.metrics.records_failed(topic, 1)

    def _wanted(self, record_bytes: int) -> int:
        # As in RecordAccumulator.append: memory is taken for a full batch at once.
        return max(self._config.batch_size, HEADER_SIZE + record_bytes)
