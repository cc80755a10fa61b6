"""Reads records of assigned partitions (Kafka: KafkaConsumer with `assign`).

Owned by the thread that uses it, which also does the network, inside its calls: there is no other thread and no lock.
A forked child gets connections of its own, and goes on at the same positions.

    with Consumer("localhost:9092", auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition("flights", 0)])
        for record in consumer.poll(1000):
            print(record.offset, record.value)
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from random import Random
from types import TracebackType
from typing import Self, Unpack

from barnabas.clients.blocking_client import BlockingClient
from barnabas.clients.cluster import PartitionInfo
from barnabas.clients.cluster_metadata import INVALID_METADATA_ERRORS, MetadataConfig
from barnabas.clients.consumer.completed_fetch import CompletedFetch
from barnabas.clients.consumer.consumer_config import ConsumerConfig, ConsumerSettings
from barnabas.clients.consumer.consumer_record import ConsumerRecord
from barnabas.clients.consumer.fetch_request import FETCH_VERSIONS, FetchLimits, FetchPosition, fetch_request
from barnabas.clients.errors import error_of
from barnabas.clients.offset_lookup import EARLIEST, LATEST, OffsetAndTimestamp, lookup_offsets
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.fetch import FetchResponse
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.errors import CorruptRecord
from barnabas.rpc.client_request import ClientResponse
from barnabas.rpc.network_client import NetworkClientConfig
from barnabas.runtime.clock import Clock

_log = logging.getLogger(__name__)

_RESET_TIMESTAMPS = {"earliest": EARLIEST, "latest": LATEST}


class _PartitionState:
    """Where we are in a partition. `offset` None: to be asked for with `reset_to`."""

    __slots__ = ("offset", "paused", "reset_to", "retry_ms")

    def __init__(self, reset_to: int | None) -> None:
        self.offset: int | None = None
        self.reset_to = reset_to
        self.paused = False
        self.retry_ms = 0


class Consumer:
    """Settings are those of ConsumerConfig, by name; give a `config` or settings, not both."""

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str],
        config: ConsumerConfig | None = None,
        *,
        clock: Clock | None = None,
        random: Random | None = None,
        client: BlockingClient | None = None,
        **settings: Unpack[ConsumerSettings],
    ) -> None:
        if config is None:
            config = ConsumerConfig(**settings)
        elif settings:
            raise TypeError("give a config or settings, not both")
        self.config = config
        network_config = NetworkClientConfig(
            client_id=config.client_id or "barnabas-consumer",
            max_in_flight=100,
            request_timeout_ms=config.request_timeout_ms,
            reconnect_backoff_ms=config.reconnect_backoff_ms,
            reconnect_backoff_max_ms=config.reconnect_backoff_max_ms,
        )
        metadata_config = MetadataConfig(
            max_age_ms=config.metadata_max_age_ms,
            refresh_backoff_ms=config.retry_backoff_ms,
            refresh_backoff_max_ms=config.retry_backoff_max_ms,
            allow_auto_topic_creation=config.allow_auto_create_topics,
        )
        self._client = (
            client
            if client is not None
            else BlockingClient(bootstrap_servers, network_config, metadata_config, clock=clock, random=random)
        )
        self._states: dict[TopicPartition, _PartitionState] = {}
        self._completed: deque[CompletedFetch] = deque()
        self._in_flight: dict[int, set[TopicPartition]] = {}
        """Partitions asked for in the fetch that each node has to answer."""
        self._error: Exception | None = None

    # -- partitions and positions ------------------------------------------------------------------------------------

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions from now on; positions of those that stay are kept."""
        wanted = dict.fromkeys(partitions)
        for topic_partition in wanted:
            if topic_partition not in self._states:
                self._states[topic_partition] = _PartitionState(_RESET_TIMESTAMPS.get(self.config.auto_offset_reset))
                self._client.metadata.add_topic(topic_partition.topic, self._client.now_ms())
        for topic_partition in [each for each in self._states if each not in wanted]:
            del self._states[topic_partition]
        self._drop_fetched()

    def assignment(self) -> set[TopicPartition]:
        """The assigned partitions."""
        return set(self._states)

    def seek(self, topic_partition: TopicPartition, offset: int) -> None:
        """Go on at `offset`. Raises LookupError for a partition that is not assigned."""
        if offset < 0:
            raise ValueError(f"seek offset must not be a negative number, not {offset}")
        self._state(topic_partition).offset = offset
        self._drop_fetched(topic_partition)

    def seek_to_beginning(self, partitions: Iterable[TopicPartition] = ()) -> None:
        """Go on at the first offset that is still there, of these partitions or of all."""
        self._seek_to(partitions, EARLIEST)

    def seek_to_end(self, partitions: Iterable[TopicPartition] = ()) -> None:
        """Go on behind the last record there is when this is resolved, by `poll` or `position`."""
        self._seek_to(partitions, LATEST)

    def _seek_to(self, partitions: Iterable[TopicPartition], timestamp: int) -> None:
        for topic_partition in list(partitions) or list(self._states):
            state = self._state(topic_partition)
            state.offset = None
            state.reset_to = timestamp
            self._drop_fetched(topic_partition)

    def position(self, topic_partition: TopicPartition) -> int:
        """Offset of the next record `poll` returns. Raises ClientTimeout, ApiError, LookupError."""
        state = self._state(topic_partition)
        if state.offset is None:
            self._resolve_positions([topic_partition])
        assert state.offset is not None
        return state.offset

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Return nothing of these partitions until `resume`."""
        for topic_partition in partitions:
            self._state(topic_partition).paused = True

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Undo `pause`."""
        for topic_partition in partitions:
            self._state(topic_partition).paused = False

    def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The first offset that is still there. Raises ClientTimeout, ApiError."""
        return self._offsets(dict.fromkeys(partitions, EARLIEST))

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset behind the last record a consumer may see. Raises ClientTimeout, ApiError."""
        return self._offsets(dict.fromkeys(partitions, LATEST))

    def offsets_for_times(
        self, timestamps_ms: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record at least as young as each timestamp, or None. Raises ClientTimeout, ApiError, ValueError."""
        if any(timestamp < 0 for timestamp in timestamps_ms.values()):
            raise ValueError("The target time cannot be negative.")
        self._check_usable()
        found = lookup_offsets(self._client, timestamps_ms, self._deadline_ms())
        return {each: entry if entry.offset >= 0 else None for each, entry in found.items()}

    def partitions_for(self, topic: str) -> tuple[PartitionInfo, ...]:
        """The topic's partitions. Raises ClientTimeout, ApiError."""
        self._check_usable()
        return self._client.await_topics([topic], self._deadline_ms()).topics[topic]

    # -- reading -----------------------------------------------------------------------------------------------------

    def poll(self, timeout_ms: float = 0, max_records: int | None = None) -> list[ConsumerRecord]:
        """Records, in order within each partition: as soon as there are any, or none after `timeout_ms`.

        At most `max_records` (`max_poll_records`). Raises ApiError (OFFSET_OUT_OF_RANGE only if `auto_offset_reset` is
        none), CorruptRecord, ClientClosed.
        """
        self._check_usable()
        limit = self.config.max_poll_records if max_records is None else max_records
        deadline_ms = self._client.now_ms() + timeout_ms
        while True:
            records = self._take(limit)
            if self._error is not None and not records:
                error, self._error = self._error, None
                raise error
            unresolved = [each for each, state in self._states.items() if state.offset is None and not state.paused]
            if unresolved and not records:
                self._resolve_positions(unresolved)
            self._send_fetches()
            left_ms = deadline_ms - self._client.now_ms()
            if records or left_ms <= 0:
                self._client.poll(0)  # the next fetch leaves before the caller looks at these
                return records or self._take(limit)
            self._client.poll(min(left_ms, self.config.retry_backoff_ms) if not self._in_flight else left_ms)

    def close(self) -> None:
        """Close the connections. Idempotent."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- steps -------------------------------------------------------------------------------------------------------

    def _deadline_ms(self) -> int:
        return self._client.now_ms() + self.config.default_api_timeout_ms

    def _check_usable(self) -> None:
        if self._client.check_usable():  # forked: answers will come to the parent
            self._in_flight.clear()
            for topic in {each.topic for each in self._states}:
                self._client.metadata.add_topic(topic, self._client.now_ms())

    def _state(self, topic_partition: TopicPartition) -> _PartitionState:
        try:
            return self._states[topic_partition]
        except KeyError:
            raise LookupError(f"No current assignment for partition {topic_partition}") from None

    def _drop_fetched(self, topic_partition: TopicPartition | None = None) -> None:
        """Forget records that were fetched for a position that is no longer wanted."""
        self._completed = deque(
            fetch
            for fetch in self._completed
            if fetch.topic_partition in self._states and fetch.topic_partition != topic_partition
        )

    def _offsets(self, timestamps: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
        self._check_usable()
        found = lookup_offsets(self._client, timestamps, self._deadline_ms())
        return {topic_partition: entry.offset for topic_partition, entry in found.items()}

    def _resolve_positions(self, partitions: Iterable[TopicPartition]) -> None:
        timestamps = {}
        for topic_partition in partitions:
            reset_to = self._states[topic_partition].reset_to
            if reset_to is None:
                raise ApiError(
                    ErrorCode.OFFSET_OUT_OF_RANGE,
                    f"Undefined offset with no reset policy for partition {topic_partition}",
                )
            timestamps[topic_partition] = reset_to
        for topic_partition, offset in self._offsets(timestamps).items():
            self._states[topic_partition].offset = offset

    def _take(self, limit: int) -> list[ConsumerRecord]:
        records: list[ConsumerRecord] = []
        held_back = []
        while self._completed and len(records) < limit:
            fetch = self._completed[0]
            state = self._states.get(fetch.topic_partition)
            if state is None or state.offset != fetch.next_offset:
                self._completed.popleft()
                continue
            if state.paused:
                held_back.append(self._completed.popleft())
                continue
            try:
                taken = fetch.take(limit - len(records))
            except (CorruptRecord, ApiError):
                # The position stays where the trouble is: the next poll meets it again, unless the caller seeks on.
                self._completed.popleft()
                state.offset = fetch.next_offset
                if records:
                    break
                raise
            records += taken
            state.offset = fetch.next_offset
            if len(records) < limit:
                self._completed.popleft()
        self._completed.extendleft(reversed(held_back))
        return records

    def _send_fetches(self) -> None:
        """One fetch to each node that leads partitions with nothing fetched, unless it has one to answer."""
        now_ms = self._client.now_ms()
        cluster = self._client.metadata.cluster
        fetched = {fetch.topic_partition for fetch in self._completed}
        wanted: dict[int, list[FetchPosition]] = {}
        for topic_partition, state in self._states.items():
            if state.paused or state.offset is None or state.retry_ms > now_ms or topic_partition in fetched:
                continue
            leader = cluster.leader(topic_partition)
            if leader is None:
                self._client.metadata.add_topic(topic_partition.topic, now_ms)
                self._client.metadata.request_update()
            elif leader.id not in self._in_flight and self._client.network.ready(leader, now_ms):
                info = cluster.partition(topic_partition)
                epoch = -1 if info is None else info.leader_epoch
                wanted.setdefault(leader.id, []).append(
                    FetchPosition(topic_partition, state.offset, self.config.max_partition_fetch_bytes, epoch)
                )
        for node_id, positions in wanted.items():
            self._send_fetch(node_id, positions, now_ms)

    def _send_fetch(self, node_id: int, positions: list[FetchPosition], now_ms: int) -> None:
        config = self.config
        # Which partition comes first changes, since an answer may be full before the last one's turn.
        first = now_ms % len(positions)
        message = fetch_request(
            positions[first:] + positions[:first],
            FetchLimits(config.fetch_max_wait_ms, config.fetch_min_bytes, config.fetch_max_bytes),
        )
        offsets = {position.topic_partition: position.offset for position in positions}
        request = self._client.network.new_request(
            node_id,
            message,
            versions=FETCH_VERSIONS,
            callback=lambda response: self._handle_fetched(node_id, offsets, response),
        )
        self._in_flight[node_id] = set(offsets)
        self._client.network.send(request, now_ms)

    def _handle_fetched(self, node_id: int, offsets: Mapping[TopicPartition, int], response: ClientResponse) -> None:
        self._in_flight.pop(node_id, None)
        if response.version_error is not None:
            self._error = response.version_error
            return
        if not isinstance(response.body, FetchResponse):
            return  # disconnected: the metadata updater has noticed, and the next poll asks again
        for topic in response.body.responses:
            for partition in topic.partitions:
                topic_partition = TopicPartition(topic.topic, partition.partition_index)
                state = self._states.get(topic_partition)
                offset = offsets.get(topic_partition)
                if state is None or offset is None or state.offset != offset:
                    continue  # unassigned, or sought elsewhere meanwhile
                error = error_of(partition.error_code)
                if error is not ErrorCode.NONE:
                    self._handle_error(topic_partition, state, error, response.received_ms)
                elif partition.records is not None and len(partition.records):
                    fetch = CompletedFetch(
                        topic_partition, offset, partition.records, check_crcs=self.config.check_crcs
                    )
                    self._completed.append(fetch)

    def _handle_error(
        self, topic_partition: TopicPartition, state: _PartitionState, error: ErrorCode, now_ms: int
    ) -> None:
        state.retry_ms = now_ms + self.config.retry_backoff_ms
        reset_to = _RESET_TIMESTAMPS.get(self.config.auto_offset_reset)
        if error is ErrorCode.OFFSET_OUT_OF_RANGE and reset_to is not None:
            _log.info("Fetch position %s is out of range for %s, resetting offset", state.offset, topic_partition)
            state.offset = None
            state.reset_to = reset_to
            state.retry_ms = 0
        elif error in INVALID_METADATA_ERRORS or error is ErrorCode.UNKNOWN_LEADER_EPOCH:
            self._client.metadata.request_update()
        elif not error.retriable or error is ErrorCode.CORRUPT_MESSAGE:
            self._error = ApiError(error, f"{error.message} Partition: {topic_partition}, offset: {state.offset}")
