"""Fetches batches as they lie in the log, without decoding them: for Arrow, Spark and tools.

Owned by one thread. A forked child gets connections of its own (see BlockingClient).

    fetcher = RawFetcher("localhost:9092")
    fetched = fetcher.fetch("flights", 0, offset)
    fetcher.send_ahead("flights", 0, next_offset)      # the next answer travels while this one is decoded
    ...decode fetched.records...
    fetched.release()
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Self

from barnabas.clients.calls.blocking_client import BlockingClient
from barnabas.clients.errors import INVALID_METADATA_ERRORS
from barnabas.clients.metadata.cluster import LeaderHints
from barnabas.clients.metadata.cluster_metadata import MetadataConfig
from barnabas.clients.values import READ_COMMITTED, READ_UNCOMMITTED
from barnabas.protocol.errors import ApiError, ErrorCode, error_of
from barnabas.protocol.messages.fetch import FetchResponse
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.compression import Buffer
from barnabas.rpc.client_request import ClientResponse
from barnabas.rpc.fetch_request import FETCH_VERSIONS, FetchLimits, FetchPosition, fetch_request
from barnabas.rpc.network_client_config import NetworkClientConfig
from barnabas.runtime.clock import Clock
from barnabas.transport.channel.authenticator import ClientChannelBuilder

DEFAULT_MAX_BYTES = 8 << 20
DEFAULT_MAX_WAIT_MS = 500
_RETRY_MS = 50


class FetchedRecords:
    """The answer to one fetch: whole batches, and perhaps a cut one at the end.

    Offsets are the broker's, -1 where it gave none.

    `records` may be a view of a recycled buffer. `release` gives the buffer back; afterwards neither the view nor
    anything made from it without a copy may be used. Not calling `release` costs time, and nothing else.
    """

    __slots__ = ("_release", "aborted", "high_watermark", "last_stable_offset", "log_start_offset", "records")

    def __init__(
        self,
        records: Buffer,
        high_watermark: int,
        log_start_offset: int,
        last_stable_offset: int,
        aborted: Sequence[FetchResponse.AbortedTransaction] = (),
        release: Callable[[], None] | None = None,
    ) -> None:
        self.records = records
        self.high_watermark = high_watermark
        self.log_start_offset = log_start_offset
        self.last_stable_offset = last_stable_offset
        self.aborted = aborted
        """The transactions whose records a reader of committed records leaves out; none for other readers."""
        self._release = release

    def release(self) -> None:
        """Give the buffer back. Raises BufferError while views of it are exported."""
        release, self._release = self._release, None
        if release is not None:
            if isinstance(self.records, memoryview):
                self.records.release()
            self.records = b""
            release()


class _Pending:
    """A request that was sent, and its answer once that has arrived."""

    __slots__ = ("offset", "response")

    def __init__(self, offset: int) -> None:
        self.offset = offset
        self.response: ClientResponse | None = None

    def take(self, response: ClientResponse) -> None:
        self.response = response


class RawFetcher:
    """A fetcher of one partition a request. `timeout_ms` bounds a whole `fetch`, retries included.

    isolation_level: with READ_COMMITTED, answers end before the first open transaction. They hold the records of
    aborted ones, which the caller leaves out by the answer's `aborted`.

    channel_builder: makes the channels, with TLS and login; None: they are in plaintext.

    Requests belong to no fetch session: each names its one partition with a new offset in any case, and a session would
    take one of the broker's slots.
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str],
        *,
        client_id: str = "barnabas-fetcher",
        timeout_ms: int = 60_000,
        request_timeout_ms: int = 30_000,
        isolation_level: int = READ_UNCOMMITTED,
        channel_builder: ClientChannelBuilder | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._timeout_ms = timeout_ms
        self._isolation_level = isolation_level
        config = NetworkClientConfig(
            client_id=client_id,
            max_in_flight=100,
            request_timeout_ms=request_timeout_ms,
            receive_buffer_bytes=-1,
            channel_builder=channel_builder,
        )
        metadata_config = MetadataConfig(allow_auto_topic_creation=False)
        self._client = BlockingClient(bootstrap_servers, config, metadata_config, clock=clock)
        self._pending: dict[TopicPartition, _Pending] = {}

    def fetch(
        self,
        topic: str,
        partition: int,
        offset: int,
        *,
        max_bytes: int = DEFAULT_MAX_BYTES,
        max_wait_ms: int = DEFAULT_MAX_WAIT_MS,
        min_bytes: int = 1,
    ) -> FetchedRecords:
        """Return the log's batches from `offset` on, or none if `max_wait_ms` passes without `min_bytes`.

        The first batch may begin before `offset`, and is whole even if larger than `max_bytes`. Changes of leader and
        lost connections are retried. Raises ApiError (OFFSET_OUT_OF_RANGE, UNKNOWN_TOPIC_OR_PARTITION...),
        ClientTimeout, ClientClosed.
        """
        if self._client.check_usable():
            self._pending.clear()
        topic_partition = TopicPartition(topic, partition)
        deadline_ms = self._client.now_ms() + max(self._timeout_ms, max_wait_ms)
        error = ErrorCode.NONE
        while True:
            pending = self._pending.pop(topic_partition, None)
            # An answer to a request for another offset is of no use: the caller has sought elsewhere since
            # `send_ahead`.
            if pending is None or pending.offset != offset:
                pending = self._send(topic_partition, offset, max_bytes, max_wait_ms, min_bytes, deadline_ms)
            while pending is not None and pending.response is None:
                self._client.poll(max(deadline_ms - self._client.now_ms(), 0))
                if self._client.now_ms() >= deadline_ms:
                    break
            if pending is not None and pending.response is not None:
                fetched, error = self._take(topic_partition, pending.response)
                if fetched is not None:
                    return fetched
                self._client.metadata.request_update()
            left_ms = deadline_ms - self._client.now_ms()
            if left_ms <= 0:
                if error is not ErrorCode.NONE:
                    raise ApiError(error)
                raise self._client.metadata.timeout(f"No records of {topic_partition} within {self._timeout_ms} ms")
            # A broker without the partition answers at once. The pause keeps this loop from asking it without a break.
            self._client.poll(min(_RETRY_MS, left_ms))

    def send_ahead(
        self,
        topic: str,
        partition: int,
        offset: int,
        *,
        max_bytes: int = DEFAULT_MAX_BYTES,
        max_wait_ms: int = DEFAULT_MAX_WAIT_MS,
        min_bytes: int = 1,
    ) -> None:
        """Send a request now, whose answer a later `fetch` of this offset takes. Does nothing without a connection."""
        if self._client.check_usable():
            self._pending.clear()
        topic_partition = TopicPartition(topic, partition)
        leader = self._client.metadata.cluster.leader(topic_partition)
        if leader is not None and self._client.network.is_ready(leader, self._client.now_ms()):
            self._pending[topic_partition] = self._send_to(
                leader.id, topic_partition, offset, max_bytes, max_wait_ms, min_bytes
            )
            self._client.poll(0)

    def close(self) -> None:
        """Close the connections. Idempotent."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_failure: object) -> None:
        self.close()

    def _send(
        self,
        topic_partition: TopicPartition,
        offset: int,
        max_bytes: int,
        max_wait_ms: int,
        min_bytes: int,
        deadline_ms: int,
    ) -> _Pending | None:
        leader = self._client.await_leader(topic_partition, deadline_ms)
        if not self._client.network.ready(leader, self._client.now_ms()):
            return None
        return self._send_to(leader.id, topic_partition, offset, max_bytes, max_wait_ms, min_bytes)

    def _send_to(
        self,
        node_id: int,
        topic_partition: TopicPartition,
        offset: int,
        max_bytes: int,
        max_wait_ms: int,
        min_bytes: int,
    ) -> _Pending:
        pending = _Pending(offset)
        message = fetch_request(
            [FetchPosition(topic_partition, offset, max_bytes)],
            FetchLimits(max_wait_ms, min_bytes, max_bytes, self._isolation_level),
        )
        network = self._client.network
        request = network.new_request(node_id, message, versions=FETCH_VERSIONS, callback=pending.take)
        network.send(request, self._client.now_ms())
        return pending

    def _take(
        self, topic_partition: TopicPartition, response: ClientResponse
    ) -> tuple[FetchedRecords | None, ErrorCode]:
        """Return the records, or an error to retry after. Raises ApiError for other errors, and UnsupportedVersion."""
        if response.version_error is not None:
            raise response.version_error
        if not isinstance(response.body, FetchResponse):
            return None, ErrorCode.NETWORK_EXCEPTION
        error = error_of(response.body.error_code)
        for topic in response.body.responses:
            for partition in topic.partitions:
                if TopicPartition(topic.topic, partition.partition_index) != topic_partition:
                    continue
                error = error_of(partition.error_code)
                if error is ErrorCode.NONE:
                    records = b"" if partition.records is None else partition.records
                    fetched = FetchedRecords(
                        records,
                        partition.high_watermark,
                        partition.log_start_offset,
                        partition.last_stable_offset,
                        (partition.aborted_transactions or ()) if self._isolation_level == READ_COMMITTED else (),
                        response.release,
                    )
                    return fetched, error
                self._take_leader(topic_partition, partition)
        if error in INVALID_METADATA_ERRORS or error.retriable:
            return None, error
        raise ApiError(error, f"{error.message} Partition: {topic_partition}")

    def _take_leader(self, topic_partition: TopicPartition, partition: FetchResponse.PartitionData) -> None:
        """Take over the leader that an error answer names (KIP-951), if the client knows that node's address.

        The versions that name topics have no addresses.
        """
        hints = LeaderHints()
        hints.add(topic_partition, partition.current_leader)
        self._client.metadata.update_leaders(hints)
