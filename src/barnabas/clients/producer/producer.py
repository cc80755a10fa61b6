"""Sends records to topics.

Any thread may call `send`; a daemon thread, `kafka-producer-network-thread | <client id>`, does the network. The
accumulator's lock and the metadata's condition guard what they share. Kafka: KafkaProducer.

    with Producer("localhost:9092", linger_ms=5, compression_type="zstd") as producer:
        future = producer.send("flights", b"value", key=b"UA")
        print(future.result().offset)
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from functools import cached_property, partial
from random import Random
from threading import Event
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

from barnabas.clients.client_metrics import MeasuredNetwork, MetricName, counted, network_metrics
from barnabas.clients.errors import ClientTimeout
from barnabas.clients.metadata.cluster import PartitionInfo
from barnabas.clients.metadata.cluster_metadata import ClusterListener, ClusterMetadata, bootstrap_nodes
from barnabas.clients.metadata.metadata_updater import ClusterMetadataUpdater
from barnabas.clients.producer.accumulator.buffer_pool import BufferPool
from barnabas.clients.producer.accumulator.record_accumulator import RecordAccumulator
from barnabas.clients.producer.batches.producer_batch import ProducerBatch
from barnabas.clients.producer.batches.sequence_numbers import SequenceNumbers
from barnabas.clients.producer.partition_choice import partitioner_of
from barnabas.clients.producer.producer_config import ProducerConfig
from barnabas.clients.producer.producer_metrics import ClientState
from barnabas.clients.producer.producer_record import (
    DeliveryCallback,
    Headers,
    OutgoingRecord,
    ProducerRecord,
    RecordMetadata,
    check_partition,
    check_timestamp,
)
from barnabas.clients.producer.producer_settings import ProducerSettings
from barnabas.clients.producer.producer_topics import ProducerTopics, Wait, WaitTimes
from barnabas.clients.producer.record_appender import RecordAppender, SendConditions, cluster_listeners, preparation_of
from barnabas.clients.producer.sending.sender import Sender
from barnabas.clients.producer.sending.sender_thread import SenderThread
from barnabas.clients.producer.serializers import as_bytes
from barnabas.clients.settings.notation import chosen_config
from barnabas.clients.values import ConsumerGroupMetadata, OffsetAndMetadata, PreparedTransaction
from barnabas.protocol.errors import ApiError
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.record_batch import EncodedBatch
from barnabas.records.record_batch_builder import estimate_size
from barnabas.rpc.client_selector import SelectorFactory
from barnabas.rpc.network_client import NetworkClient
from barnabas.runtime.clock import NANOSECONDS_PER_MILLISECOND, Clock, SystemClock
from barnabas.transport.selector import Selector

if TYPE_CHECKING:
    from barnabas.clients.arrow.table_delivery import TableMetadata
    from barnabas.clients.arrow.table_producer import TableProducer
    from barnabas.clients.producer.transactions.transaction_calls import TransactionCalls
    from barnabas.clients.telemetry.client_telemetry import ClientTelemetry

_numbers = itertools.count(1)


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
        make_selector: SelectorFactory = Selector,
        **settings: Unpack[ProducerSettings],
    ) -> None:
        config = chosen_config(ProducerConfig, config, settings)
        self.config = config
        self.client_id = config.client_id or f"producer-{next(_numbers)}"
        self._clock = clock if clock is not None else SystemClock()
        self._random = random = random if random is not None else Random()
        metadata_config = config.metadata_config(
            topic_idle_ms=config.metadata_max_idle_ms, allow_auto_topic_creation=True
        )
        bootstrap = bootstrap_nodes(bootstrap_servers, config.client_dns_lookup)
        self._metadata = ClusterMetadata(bootstrap, metadata_config, random)
        sequences = _sequences_of(config)
        self._accumulator = RecordAccumulator(config, BufferPool(config.buffer_memory, self._clock), random, sequences)
        client = self._network_client(make_selector, random)
        telemetry = self._telemetry(client) if config.enable_metrics_push else None
        self._sender = Sender(client, self._metadata, self._accumulator, config, sequences, telemetry)
        self._waits = WaitTimes(self._clock)
        self._transactions = self._transaction_calls(sequences)
        self._topics = ProducerTopics(
            self._metadata, config.max_block_ms, self._now_ms, self._sender.wakeup, self._waits
        )
        self._preparation = preparation_of(config)
        partitioner = partitioner_of(config.partitioner_class)
        for listener in cluster_listeners(config, partitioner):
            self._metadata.add_listener(listener)
        self._thread = SenderThread(self._sender, self._metadata, self.client_id, telemetry)
        self._appender = RecordAppender(config, partitioner, self._accumulator, self._thread, self._now_ms)
        self._thread.start()

    def _network_client(self, make_selector: SelectorFactory, random: Random) -> NetworkClient:
        config = self.config
        updater = ClusterMetadataUpdater(
            self._metadata,
            request_timeout_ms=config.request_timeout_ms,
            reconnect_backoff_ms=config.reconnect_backoff_ms,
        )
        client_config = config.network_config(self.client_id, config.max_in_flight_requests_per_connection)
        selector = make_selector(self._clock, max_idle_ms=config.connections_max_idle_ms)
        return NetworkClient(selector, updater, client_config, self._clock, random)

    def _transaction_calls(self, sequences: SequenceNumbers | None) -> TransactionCalls | None:
        if self.config.transactional_id is None:
            return None
        # Imported when used: most producers have no transactions.
        from barnabas.clients.producer.transactions.transaction_calls import make_transaction_calls  # noqa: PLC0415

        return make_transaction_calls(
            sequences, self._sender.wakeup, self.config.max_block_ms, self._waits, self._metadata
        )

    def _telemetry(self, client: NetworkClient) -> ClientTelemetry:
        # Imported when used: metrics may be switched off.
        from barnabas.clients.telemetry.client_telemetry import ClientTelemetry  # noqa: PLC0415

        transactional_id = self.config.transactional_id
        labels = {} if transactional_id is None else {"transactional_id": transactional_id}
        return ClientTelemetry(client, self.metrics, lambda: labels, self._clock, self._random)

    # -- sending

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: Headers = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
        on_delivery: DeliveryCallback | None = None,
    ) -> Future[RecordMetadata]:
        """Queue a record, and return a future of its offset. Wait at most `max_block_ms` for metadata and memory.

        `value` and `key` are bytes or None, or what the serializers take. Without `partition`, the key's hash decides;
        without a key, the partition changes from batch to batch. `timestamp_ms` None is now. `on_delivery(metadata,
        error)` runs on the sending thread, before the future is set. Raises ClientClosed, SerializationFailed, and
        TypeError or ValueError for wrong arguments; with a `transactional_id` TransactionAbortable,
        TransactionalProducerFailed, and RuntimeError outside of a transaction.
        """
        self._thread.check_usable()
        if self._transactions is not None:
            self._transactions.manager.check_may_send()
        if self._preparation is not None:
            outgoing = OutgoingRecord(topic, value, key, headers, partition, timestamp_ms)
            prepared, on_delivery = self._preparation.prepare(outgoing, on_delivery)
            topic, value, key, headers, partition, timestamp_ms = prepared
        # Exact classes first: nearly all callers pass bytes and tuples, and an isinstance costs more than this.
        if value.__class__ is not bytes:
            value = as_bytes("value", value)
        if key.__class__ is not bytes:
            key = as_bytes("key", key)
        if headers.__class__ is not tuple:
            headers = tuple(headers)
        if partition is not None:
            check_partition(partition)
        if timestamp_ms is None:
            timestamp_ms = self._clock.milliseconds()
        else:
            check_timestamp(timestamp_ms)
        record = ProducerRecord(timestamp_ms, key, value, headers, estimate_size(key, value, headers), on_delivery)
        try:
            return self._appender.append(topic, partition, record, self._topics.wait(topic, partition))
        except (ApiError, ClientTimeout) as error:
            return self._failed(topic, error, on_delivery)

    def send_batch(
        self, topic: str, partition: int, batch: bytes | EncodedBatch, on_delivery: DeliveryCallback | None = None
    ) -> Future[RecordMetadata]:
        """Queue a ready-made v2 batch as it is, and return a future of its first record's offset.

        An EncodedBatch is not checked and needs one checksum less than bytes do. Raises CorruptRecord for bytes that
        are not one batch, ClientClosed.
        """
        self._thread.check_usable()
        if self._transactions is not None:
            self._transactions.manager.check_may_send()
        made = ProducerBatch.ready_made(TopicPartition(topic, partition), batch, self._now_ms())
        try:
            left_ms = self._topics.wait(topic, partition).left_ms
            made.restart_time(self._now_ms())
            if made.allocated_bytes > self.config.largest_record:
                self._appender.reject_size(made.allocated_bytes)
            future = self._accumulator.append_batch(made, on_delivery, max_block_ms=left_ms)
        except (ApiError, ClientTimeout) as error:
            return self._failed(topic, error, on_delivery)
        self._sender.wakeup()
        return future

    def send_table(
        self,
        topic: str,
        table: object,
        *,
        value: str | None = "value",
        key: str | None = None,
        headers: str | None = None,
        partition: str | int | None = None,
        timestamp: str | int | None = None,
    ) -> Future[TableMetadata]:
        """Queue each row of an Arrow table as a record, and return a future of the places of all batches.

        The arguments name columns; `partition` and `timestamp` (milliseconds) may be numbers for all rows. `table` is a
        pyarrow Table or RecordBatch, or has an Arrow stream. The future raises TableNotDelivered if any row failed.
        docs/tables.md has the types and rules. Raises TypeError and ValueError, before any row is queued, for a column
        or row that cannot be sent, ClientClosed.
        """
        self._thread.check_usable()
        if self._transactions is not None:
            self._transactions.manager.check_may_send()
        if partition is None and self._appender.has_partitioner:
            raise ValueError("partitioner_class chooses for single records: give send_table the partitions as a column")
        # Imported when used: only tables need pyarrow and numpy.
        from barnabas.clients.arrow.table_columns import ColumnNames  # noqa: PLC0415

        names = ColumnNames(value, key, headers, partition, timestamp)
        return self._tables.send(topic, table, names, self._clock.milliseconds())

    @cached_property
    def _tables(self) -> TableProducer:
        from barnabas.clients.arrow.encoder import BATCH_BYTES, BatchFormat  # noqa: PLC0415
        from barnabas.clients.arrow.table_producer import TableLimits, TableProducer  # noqa: PLC0415

        config = self.config
        batch_format = BatchFormat(config.codec, config.compression_level, max(config.batch_size, BATCH_BYTES))
        return TableProducer(
            self.send_batch,
            lambda topic, partition: self._topics.wait(topic, partition).cluster.topics[topic],
            TableLimits(batch_format, config.largest_record, config.largest_record_setting),
            self._random,
            ignore_keys=config.partitioner_ignore_keys,
        )

    def partitions_for(self, topic: str, timeout_ms: int | None = None) -> tuple[PartitionInfo, ...]:
        """Return the topic's partitions, fetched if needed.

        Raises ClientTimeout after `timeout_ms` (None: `max_block_ms`), ApiError.
        """
        self._thread.check_usable()
        return self._topics.wait(topic, None, timeout_ms).cluster.topics[topic]

    def partition_count(self, topic: str) -> int:
        """Return how many partitions the topic has. Raises ClientTimeout after `max_block_ms`, ApiError."""
        return len(self.partitions_for(topic))

    def metrics(self) -> dict[MetricName, float]:
        """Return what this producer has sent, by Kafka's names; not a number where nothing was measured yet."""
        now_ms = self._now_ms()
        age_ms = self._metadata.age_ms(now_ms)
        age_seconds = math.nan if age_ms is None else age_ms / 1_000
        state = ClientState(
            self._accumulator.pool.use(), self._sender.in_flight_count(), age_seconds, tuple(self._waits.totals())
        )
        network = MeasuredNetwork(self._sender.network_counters)
        return counted(
            self._sender.metrics.measure(self.client_id, state)
            | network_metrics("producer", self.client_id, [network], now_ms),
            self.client_id,
        )

    def client_instance_id(self, timeout_ms: float) -> str | None:
        """Return the id that a broker has given this producer for its telemetry; None if none has in time.

        Raises RuntimeError if `enable_metrics_push` is off, and in a delivery callback, ValueError for a negative
        timeout, ClientClosed.
        """
        self._thread.check_usable()
        if timeout_ms < 0:
            raise ValueError(f"The timeout cannot be negative: {timeout_ms}")
        telemetry = self._thread.telemetry
        if telemetry is None:
            raise RuntimeError("Telemetry is not enabled. Set config `enable_metrics_push` to True.")
        if self._thread.is_current():
            raise RuntimeError("client_instance_id in a delivery callback would wait for itself")

        def wait(answered: Event) -> None:
            # The sending thread may sleep: only now has it a reason to connect to a broker.
            self._sender.wakeup()
            answered.wait(timeout_ms / 1000)

        return telemetry.client_instance_id(wait)

    def on_cluster_update(self, listener: ClusterListener) -> None:
        """Call `listener(cluster)` after each update of the metadata, on the sending thread. Its errors are logged."""
        self._metadata.add_listener(listener)

    def flush(self) -> None:
        """Send all records now, and wait until each has arrived or failed. Raises RuntimeError in a callback."""
        self._thread.check_usable()
        if self._thread.is_current():
            raise RuntimeError("flush in a delivery callback would wait for itself")
        with self._waits.measured(Wait.FLUSH):
            self._accumulator.begin_flush()
            self._sender.wakeup()
            self._accumulator.await_flush()

    # -- transactions

    def init_transactions(self) -> None:
        """Get a producer id, once, before the first transaction. Fences earlier producers of this `transactional_id`.

        What those have left open is committed or aborted first. Raises ClientTimeout after `max_block_ms` (call it
        again to go on waiting), TransactionalProducerFailed, RuntimeError without a `transactional_id`.
        """
        self._transactional("init_transactions").init()

    def begin_transaction(self) -> None:
        """Begin a transaction. Raises RuntimeError before `init_transactions` and in another transaction."""
        self._transactional("begin_transaction").begin()

    def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int], group_metadata: ConsumerGroupMetadata
    ) -> None:
        """Commit a consumer's offsets with the transaction; each is that of the record to read next.

        `group_metadata` is `Consumer.group_metadata()`: a consumer that has lost its partitions is rejected by its
        generation. Raises TransactionAbortable, TransactionalProducerFailed, ClientTimeout, RuntimeError.
        """
        self._transactional("send_offsets_to_transaction").send_offsets(offsets, group_metadata)

    def commit_transaction(self) -> None:
        """Send the remaining records, wait until all have arrived, and commit them.

        Raises TransactionAbortable if one has failed: abort then. ClientTimeout after `max_block_ms`: the transaction
        may yet be committed, so call this again. TransactionalProducerFailed, RuntimeError outside of a transaction.
        """
        self._transactional("commit_transaction").commit()

    def prepare_transaction(self) -> PreparedTransaction:
        """Send the remaining records, and return what `Admin.end_transaction` needs to end the transaction.

        For work in several processes, of which one decides. Call `abort`, not `close`, afterwards: `close` aborts the
        transaction. The coordinator aborts it after `transaction_timeout_ms`, and when another producer takes over the
        `transactional_id`. Raises TransactionAbortable if a record has failed, TransactionalProducerFailed,
        RuntimeError outside of a transaction.
        """
        manager = self._transactional("prepare_transaction").manager
        with self._waits.measured(Wait.TXN_PREPARE):
            self.flush()
            return manager.prepared()

    def abort_transaction(self) -> None:
        """Drop the records that were not sent, and abort the others. Readers of committed records see none of them.

        Raises TransactionalProducerFailed, ClientTimeout, RuntimeError outside of a transaction.
        """
        self._transactional("abort_transaction").abort()

    def transaction(self) -> AbstractContextManager[None]:
        """Return a block for `with`: it begins a transaction, and commits it, or aborts it after an exception."""
        return self._transactional("transaction").block()

    def _transactional(self, method: str) -> TransactionCalls:
        self._thread.check_usable()
        if self._transactions is None:
            raise RuntimeError(f"Cannot use {method} without a transactional_id")
        if self._thread.is_current():
            raise RuntimeError(f"{method} in a delivery callback would wait for itself")
        return self._transactions

    def close(self, timeout_ms: float | None = None) -> None:
        """Send the remaining records and stop. Those that remain after `timeout_ms` (None: never) fail. Idempotent.

        A transaction that is still open is aborted.
        """
        if self._thread.close(timeout_ms) and self._preparation is not None:
            self._preparation.close()

    def abort(self) -> None:
        """Fail the remaining records and stop now, also while another thread waits in `close`. Idempotent."""
        self._thread.abort()

    def send_conditions(self) -> SendConditions:
        """Return what `send` may have to wait for. For callers that must not wait in it: the asyncio producer."""
        return SendConditions(self.config, self._metadata, self._topics, self._accumulator.pool, self._sender)

    def transaction_calls(self) -> TransactionCalls | None:
        """Return the calls of transactions, for the asyncio producer; None without a `transactional_id`."""
        return self._transactions

    def record_appender(self) -> RecordAppender:
        """Return the last steps of `send`, for the asyncio producer, which takes the first ones itself."""
        return self._appender

    def defer_wakeups(self, schedule: Callable[[Callable[[], None]], None]) -> None:
        """Let `schedule(wakeup)` choose when the sending thread hears of new batches, on the thread that calls `send`.

        For the asyncio producer. `flush`, `close` and waits for memory still wake the sending thread at once.
        """
        self._thread.wake = partial(schedule, self._sender.wakeup)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # After an exception nobody waits for ever for records that may never arrive.
        self.close(None if error is None else self.config.max_block_ms)

    # -- steps

    def _now_ms(self) -> int:
        return self._clock.nanoseconds() // NANOSECONDS_PER_MILLISECOND

    def _failed(self, topic: str, error: Exception, callback: DeliveryCallback | None) -> Future[RecordMetadata]:
        """Return the future of a record that came into no batch."""
        self._sender.metrics.records_failed(topic, 1)
        if self._transactions is not None:
            self._transactions.manager.record_failed(error)
        future: Future[RecordMetadata] = Future()
        if callback is not None:
            callback(None, error)
        future.set_exception(error)
        return future


def _sequences_of(config: ProducerConfig) -> SequenceNumbers | None:
    """Return the sequence numbers of a producer with these settings, or None for one that is not idempotent."""
    if config.transactional_id is None:
        return SequenceNumbers() if config.is_idempotent else None
    # Imported when used: most producers have no transactions.
    from barnabas.clients.producer.transactions.transaction_calls import transactional_sequences  # noqa: PLC0415

    return transactional_sequences(config)
