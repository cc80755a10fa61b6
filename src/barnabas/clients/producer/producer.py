"""Sends records to topics.

Any thread may call `send`; a daemon thread, `kafka-producer-network-thread | <client id>`, does the network. The
accumulator's lock and the metadata's condition guard what they share. Kafka: KafkaProducer.

    with Producer("localhost:9092", linger_ms=5, compression_type="zstd") as producer:
        future = producer.send("flights", b"value", key=b"UA")
        print(future.result().offset)
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from random import Random
from types import TracebackType
from typing import Self, Unpack

from barnabas.clients.bootstrap import bootstrap_nodes
from barnabas.clients.cluster import Cluster, PartitionInfo
from barnabas.clients.cluster_metadata import ClusterMetadata
from barnabas.clients.errors import ClientClosed, ClientTimeout, Unreachable
from barnabas.clients.metadata_updater import ClusterMetadataUpdater
from barnabas.clients.producer.buffer_pool import BufferPool
from barnabas.clients.producer.murmur2 import partition_for_key
from barnabas.clients.producer.producer_batch import ProducerBatch
from barnabas.clients.producer.producer_config import ProducerConfig
from barnabas.clients.producer.producer_record import Headers, ProducerRecord
from barnabas.clients.producer.producer_settings import ProducerSettings
from barnabas.clients.producer.record_accumulator import RecordAccumulator
from barnabas.clients.producer.record_metadata import DeliveryCallback, RecordMetadata
from barnabas.clients.producer.sender import Sender
from barnabas.clients.producer.sequence_numbers import SequenceNumbers
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.record_batch import HEADER_SIZE, Buffer
from barnabas.records.record_batch_builder import estimate_size
from barnabas.rpc.client_selector import ClientSelector
from barnabas.rpc.network_client import NetworkClient
from barnabas.runtime.clock import NANOSECONDS_PER_MILLISECOND, Clock, SystemClock
from barnabas.transport.selector import Selector

_numbers = itertools.count(1)
# Once a second is enough to keep a topic from being dropped as idle, and spares each `send` the metadata's lock.
_TOUCH_INTERVAL_MS = 1_000
_TIMESTAMP_END = 1 << 63


class Producer:
    """A producer with the settings of ProducerConfig, given by name or as a `config`.

    Errors of a record (too large, no metadata or memory in time, rejected by the broker) go to its future and its
    callback; wrong arguments and use after `close` raise. A forked child must make a producer of its own.
    `make_selector` makes the connections (tests script it). Raises ValueError for invalid settings, TypeError for both
    kinds of settings.
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str],
        config: ProducerConfig | None = None,
        *,
        clock: Clock | None = None,
        random: Random | None = None,
        make_selector: Callable[[Clock], ClientSelector] = Selector,
        **settings: Unpack[ProducerSettings],
    ) -> None:
        if config is None:
            config = ProducerConfig(**settings)
        elif settings:
            raise TypeError("give a config or settings, not both")
        self.config = config
        self.client_id = config.client_id or f"producer-{next(_numbers)}"
        self._clock = clock if clock is not None else SystemClock()
        random = random if random is not None else Random()
        self._largest_record = min(config.max_request_size, config.buffer_memory)
        self._next_touch_ms: dict[str, int] = {}
        """The times at which to mark each topic as used again. No lock: a lost update costs one more call."""
        self._process_id = os.getpid()
        self._closed = False
        metadata_config = config.metadata_config(
            topic_idle_ms=config.metadata_max_idle_ms, allow_auto_topic_creation=True
        )
        self._metadata = ClusterMetadata(bootstrap_nodes(bootstrap_servers), metadata_config, random)
        sequences = SequenceNumbers() if config.is_idempotent else None
        self._pool = BufferPool(config.buffer_memory)
        self._accumulator = RecordAccumulator(config, self._pool, random, sequences)
        self._sender = Sender(
            self._network_client(make_selector, random), self._metadata, self._accumulator, config, sequences
        )
        self._thread = threading.Thread(
            target=self._sender.run, name=f"kafka-producer-network-thread | {self.client_id}", daemon=True
        )
        self._thread.start()

    def _network_client(self, make_selector: Callable[[Clock], ClientSelector], random: Random) -> NetworkClient:
        config = self.config
        updater = ClusterMetadataUpdater(
            self._metadata,
            request_timeout_ms=config.request_timeout_ms,
            reconnect_backoff_ms=config.reconnect_backoff_ms,
        )
        client_config = config.network_config(self.client_id, config.max_in_flight_requests_per_connection)
        return NetworkClient(make_selector(self._clock), updater, client_config, self._clock, random)

    # -- sending

    def send(
        self,
        topic: str,
        value: Buffer | None = None,
        key: Buffer | None = None,
        headers: Headers = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
        on_delivery: DeliveryCallback | None = None,
    ) -> Future[RecordMetadata]:
        """Queue a record, and return a future of its offset. Wait at most `max_block_ms` for metadata and memory.

        Without `partition`, the key's hash decides; without a key, the partition changes from batch to batch.
        `timestamp_ms` None is now. `on_delivery(metadata, error)` runs on the sending thread, before the future is
        set. Raises ClientClosed, and TypeError or ValueError for wrong arguments.
        """
        self._check_usable()
        # Exact classes first: nearly all callers pass bytes and tuples, and an isinstance costs more than this.
        if value.__class__ is not bytes:
            value = _as_bytes("value", value)
        if key.__class__ is not bytes:
            key = _as_bytes("key", key)
        if headers.__class__ is not tuple:
            headers = tuple(headers)
        if partition is not None and partition < 0:
            raise ValueError(f"Invalid partition: {partition}. Partition number should always be non-negative.")
        if timestamp_ms is None:
            timestamp_ms = self._clock.milliseconds()
        elif not 0 <= timestamp_ms < _TIMESTAMP_END:
            raise ValueError(f"Invalid timestamp: {timestamp_ms}. Timestamp should always be non-negative.")
        try:
            cluster, left_ms = self._wait_on_metadata(topic, partition)
            # An upper bound of the uncompressed size: no record that passes here is too large once it is encoded.
            size = estimate_size(key, value, headers)
            if HEADER_SIZE + size > self._largest_record:
                self._reject_size(HEADER_SIZE + size)
            if partition is None and key is not None and not self.config.partitioner_ignore_keys:
                count = cluster.partition_count(topic)
                assert count is not None
                partition = partition_for_key(key, count)
            record = ProducerRecord(timestamp_ms, key, value, headers, size, on_delivery)
            future, wakes_sender = self._accumulator.append(
                topic, partition, record, cluster, max_block_ms=left_ms, now=self._now_ms
            )
        except (ApiError, ClientTimeout) as error:
            return _failed(error, on_delivery)
        # Outside the accumulator's lock, which the sender takes as soon as it wakes.
        if wakes_sender:
            self._sender.wakeup()
        return future

    def send_batch(
        self, topic: str, partition: int, batch: bytes, on_delivery: DeliveryCallback | None = None
    ) -> Future[RecordMetadata]:
        """Queue a ready-made v2 batch as it is, and return a future of its first record's offset.

        Raises CorruptRecord for bytes that are not one batch, ClientClosed.
        """
        self._check_usable()
        made = ProducerBatch.ready_made(TopicPartition(topic, partition), batch, self._now_ms())
        try:
            _, left_ms = self._wait_on_metadata(topic, partition)
            if len(batch) > self._largest_record:
                self._reject_size(len(batch))
            future = self._accumulator.append_batch(made, on_delivery, max_block_ms=left_ms)
        except (ApiError, ClientTimeout) as error:
            return _failed(error, on_delivery)
        self._sender.wakeup()
        return future

    def partitions_for(self, topic: str) -> tuple[PartitionInfo, ...]:
        """Return the topic's partitions, fetched if needed. Raises ClientTimeout after `max_block_ms`, ApiError."""
        self._check_usable()
        return self._wait_on_metadata(topic, None)[0].topics[topic]

    def partition_count(self, topic: str) -> int:
        """Return how many partitions the topic has. Raises ClientTimeout after `max_block_ms`, ApiError."""
        return len(self.partitions_for(topic))

    def flush(self) -> None:
        """Send all records now, and wait until each has arrived or failed. Raises RuntimeError in a callback."""
        self._check_usable()
        if threading.current_thread() is self._thread:
            raise RuntimeError("flush in a delivery callback would wait for itself")
        self._accumulator.begin_flush()
        self._sender.wakeup()
        self._accumulator.await_flush()

    def close(self, timeout_ms: float | None = None) -> None:
        """Send the remaining records and stop. Those that remain after `timeout_ms` (None: never) fail. Idempotent."""
        if self._closed:
            return
        self._closed = True
        # A forked child has no sending thread to end: threads do not survive a fork.
        if os.getpid() != self._process_id:
            return
        self._sender.initiate_close()
        self._metadata.close()
        # Called from a callback, on the sending thread, which cannot wait for its own end.
        if threading.current_thread() is self._thread:
            self._sender.force_close()
            return
        self._thread.join(None if timeout_ms is None else timeout_ms / 1000)
        if self._thread.is_alive():
            self._sender.force_close()
            self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- steps

    def _now_ms(self) -> int:
        return self._clock.nanoseconds() // NANOSECONDS_PER_MILLISECOND

    def _check_usable(self) -> None:
        """Check that the producer may be used. Raises ClientClosed after `close`, and in a forked child."""
        if self._closed:
            raise ClientClosed("Cannot perform operation after producer has been closed")
        if os.getpid() != self._process_id:
            raise ClientClosed("A producer does not survive a fork: make one in the child")

    def _reject_size(self, size: int) -> None:
        """Reject a record that is too large. Raises ApiError: MESSAGE_TOO_LARGE."""
        limit = self._largest_record
        name = "max.request.size" if limit == self.config.max_request_size else "buffer.memory"
        raise ApiError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"The message is {size} bytes when serialized which is larger than {limit},"
            f" which is the value of the {name} configuration.",
        )

    def _wait_on_metadata(self, topic: str, partition: int | None) -> tuple[Cluster, float]:
        """Return the snapshot once it has the topic and partition, and the rest of `max_block_ms`.

        Raises ClientTimeout, ApiError for a topic that cannot be described.
        """
        now_ms = self._now_ms()
        cluster = self._metadata.cluster
        if now_ms >= self._next_touch_ms.get(topic, 0):
            self._metadata.add_topic(topic, now_ms)
            self._next_touch_ms[topic] = now_ms + _TOUCH_INTERVAL_MS
        count = cluster.partition_count(topic)
        if count is not None and (partition is None or partition < count):
            return cluster, self.config.max_block_ms
        deadline_ms = now_ms + self.config.max_block_ms
        while True:
            # In each turn again: the topic may have been dropped as idle while this thread waited for it.
            self._metadata.add_topic(topic, now_ms)
            # The version is read before the wake-up, so that an update which arrives in between ends the wait at once.
            version = self._metadata.request_update_for_topic(topic)
            self._sender.wakeup()
            left_ms = deadline_ms - self._now_ms()
            try:
                self._metadata.await_update(version, max(left_ms, 0))
            except Unreachable:
                raise
            except ClientTimeout:
                what = f"Topic {topic}" if count is None else f"Partition {partition} of topic {topic}"
                detail = "" if count is None else f" with partition count {count}"
                raise ClientTimeout(
                    f"{what}{detail} not present in metadata after {self.config.max_block_ms} ms."
                ) from None
            cluster = self._metadata.cluster
            self._metadata.raise_topic_error(topic)
            count = cluster.partition_count(topic)
            if count is not None and (partition is None or partition < count):
                return cluster, max(deadline_ms - self._now_ms(), 0)


def _failed(error: Exception, callback: DeliveryCallback | None) -> Future[RecordMetadata]:
    future: Future[RecordMetadata] = Future()
    if callback is not None:
        callback(None, error)
    future.set_exception(error)
    return future


def _as_bytes(name: str, data: object) -> bytes | None:
    """Return a copy, because the caller may change the original while the record waits. Raises TypeError."""
    if data is None:
        return None
    if isinstance(data, bytes | bytearray | memoryview):
        return bytes(data)
    raise TypeError(f"{name} must be bytes or None, not {type(data).__name__}")
