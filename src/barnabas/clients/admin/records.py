"""Deletes records, looks offsets up, moves replicas between log directories; describes these, replicas and producers.

Part of `Admin`: any thread; no state.
Kafka: DeleteRecordsHandler, DescribeProducersHandler, LogDirDescription, ReplicaInfo, ProducerState.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from barnabas.clients.admin.admin_calls import AdminPart
from barnabas.clients.calls.offset_lookup import OffsetAndTimestamp
from barnabas.clients.errors import error_in, raise_error
from barnabas.clients.values import isolation_number
from barnabas.protocol.errors import ApiError, ErrorCode, error_of
from barnabas.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from barnabas.protocol.messages.log_dirs import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from barnabas.protocol.messages.topics import DeleteRecordsRequest, DeleteRecordsResponse
from barnabas.protocol.messages.transactions import DescribeProducersRequest, DescribeProducersResponse
from barnabas.protocol.topic_partition import TopicPartition, by_topic

_ANY_REPLICA = -2
"""As replica id of a request: a client that may ask followers too, and sees a log to its end."""
_LATEST = -1
_VERSIONS_WITH_ONE_OFFSET = (1, 11)


class ReplicaInfo(NamedTuple):
    """A replica in a log directory. `size` in bytes, `offset_lag` in records. `is_future`: it is being moved here."""

    size: int
    offset_lag: int
    is_future: bool


class LogDir(NamedTuple):
    """A log directory of a broker. The bytes of its file system are -1 from brokers that do not send them."""

    path: str
    error: ErrorCode
    replicas: Mapping[TopicPartition, ReplicaInfo]
    total_bytes: int
    usable_bytes: int


class ProducerState(NamedTuple):
    """An idempotent producer that a partition remembers. -1: no value. `last_timestamp_ms`: that of its last batch."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    current_transaction_start_offset: int


class AdminRecords(AdminPart):
    """The methods of `Admin` about records, their producers and replicas."""

    def list_offsets(
        self, timestamps_ms: Mapping[TopicPartition, int], *, isolation_level: str = "read_uncommitted"
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Return offsets by time: -1 for the latest, -2 the earliest, -3 the largest timestamp.

        isolation_level: with read_committed the latest is the last stable offset, and records behind it are not found.
        Raises ApiError, and ValueError for an unknown level.
        """
        return self._calls.lookup_offsets(dict(timestamps_ms), isolation_number(isolation_level))

    def delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Delete the records before these offsets; -1 deletes all. Returns each partition's new first offset.

        Raises ApiError for the first partition that fails. In other partitions, records may have been deleted.
        """

        def request_for(partitions: Iterable[TopicPartition]) -> DeleteRecordsRequest:
            return DeleteRecordsRequest(
                topics=[
                    DeleteRecordsRequest.DeleteRecordsTopic(
                        topic,
                        [
                            DeleteRecordsRequest.DeleteRecordsPartition(index, before[TopicPartition(topic, index)])
                            for index in indexes
                        ],
                    )
                    for topic, indexes in by_topic(partitions).items()
                ],
                timeout_ms=self._calls.broker_timeout_ms,
            )

        def results_in(response: DeleteRecordsResponse) -> Iterator[tuple[TopicPartition, int, int]]:
            for topic in response.topics:
                for each in topic.partitions:
                    yield TopicPartition(topic.name, each.partition_index), each.error_code, each.low_watermark

        return self._calls.ask_leaders(before.keys(), request_for, results_in)

    def describe_producers(
        self, partitions: Collection[TopicPartition], *, broker_id: int | None = None
    ) -> dict[TopicPartition, tuple[ProducerState, ...]]:
        """Return the idempotent producers that the leaders of partitions remember, or that a broker does.

        Raises ApiError: UNKNOWN_TOPIC_OR_PARTITION, and NOT_LEADER_OR_FOLLOWER when the broker has no replica.
        """

        def request_for(partitions: Iterable[TopicPartition]) -> DescribeProducersRequest:
            return DescribeProducersRequest(
                topics=[
                    DescribeProducersRequest.TopicRequest(topic, indexes)
                    for topic, indexes in by_topic(partitions).items()
                ]
            )

        def results_in(
            response: DescribeProducersResponse,
        ) -> Iterator[tuple[TopicPartition, int, tuple[ProducerState, ...]]]:
            for topic in response.topics:
                for each in topic.partitions:
                    producers = tuple(map(_producer_state, each.active_producers))
                    yield TopicPartition(topic.name, each.partition_index), each.error_code, producers

        if broker_id is None:
            return self._calls.ask_leaders(partitions, request_for, results_in)
        answer = self._calls.ask_broker(broker_id, request_for(partitions), DescribeProducersResponse)
        found = {}
        for key, error_code, producers in results_in(answer):
            raise_error(error_code, None, f"Partition: {key}, broker: {broker_id}")
            found[key] = producers
        return found

    def replica_end_offsets(self, broker_id: int, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the log end offset of each partition on one broker, leader or follower: their difference is a lag.

        Partitions that the broker cannot read (no replica, an offline directory) are left out. Raises ApiError:
        TOPIC_AUTHORIZATION_FAILED.
        """
        request = ListOffsetsRequest(
            replica_id=_ANY_REPLICA,
            topics=[
                ListOffsetsRequest.ListOffsetsTopic(
                    topic,
                    [
                        ListOffsetsRequest.ListOffsetsPartition(partition_index=index, timestamp=_LATEST)
                        for index in indexes
                    ],
                )
                for topic, indexes in by_topic(partitions).items()
            ],
        )
        answer = self._calls.ask_broker(broker_id, request, ListOffsetsResponse, versions=_VERSIONS_WITH_ONE_OFFSET)
        found = {}
        for topic in answer.topics:
            for each in topic.partitions:
                if each.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                    raise_error(each.error_code, None, f"Topic: {topic.name}")
                if each.error_code == ErrorCode.NONE:
                    found[TopicPartition(topic.name, each.partition_index)] = each.offset
        return found

    def describe_log_dirs(self, broker_id: int) -> list[LogDir]:
        """Return a broker's log directories with their replicas, failed directories too. Raises ApiError."""
        response = self._calls.ask_broker(broker_id, DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse)
        raise_error(response.error_code, None, f"Broker: {broker_id}")
        return [_log_dir(directory) for directory in response.results]

    def alter_replica_log_dirs(
        self, broker_id: int, wanted: Mapping[TopicPartition, str]
    ) -> dict[TopicPartition, ApiError | None]:
        """Move a broker's replicas to other of its log directories, by their absolute paths.

        Returns the error of each partition, or None when the move has begun; `describe_log_dirs` shows its replica as
        `is_future` until it is done. A partition that the broker does not have yet gets REPLICA_NOT_AVAILABLE, and will
        be made in that directory.
        """
        by_path: dict[str, list[TopicPartition]] = {}
        for place, path in wanted.items():
            by_path.setdefault(path, []).append(place)
        request = AlterReplicaLogDirsRequest(
            dirs=[
                AlterReplicaLogDirsRequest.AlterReplicaLogDir(
                    path,
                    [
                        AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic(topic, indexes)
                        for topic, indexes in by_topic(places).items()
                    ],
                )
                for path, places in by_path.items()
            ]
        )
        answer = self._calls.ask_broker(broker_id, request, AlterReplicaLogDirsResponse)
        return {
            (place := TopicPartition(topic.topic_name, each.partition_index)): error_in(
                each.error_code, None, f"Partition: {place}, log directory: {wanted.get(place)}, broker: {broker_id}"
            )
            for topic in answer.results
            for each in topic.partitions
        }


def _log_dir(directory: DescribeLogDirsResponse.DescribeLogDirsResult) -> LogDir:
    replicas = {
        TopicPartition(topic.name, each.partition_index): ReplicaInfo(
            each.partition_size, each.offset_lag, each.is_future_key
        )
        for topic in directory.topics
        for each in topic.partitions
    }
    error = error_of(directory.error_code)
    return LogDir(directory.log_dir, error, replicas, directory.total_bytes, directory.usable_bytes)


def _producer_state(producer: DescribeProducersResponse.ProducerState) -> ProducerState:
    return ProducerState(
        producer.producer_id,
        producer.producer_epoch,
        producer.last_sequence,
        producer.last_timestamp,
        producer.coordinator_epoch,
        producer.current_txn_start_offset,
    )
