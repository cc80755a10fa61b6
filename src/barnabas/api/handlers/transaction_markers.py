"""WriteTxnMarkers: v0-1: the coordinator of a transaction ends it in the partitions that it has written to.

Not brief: a request may have a marker for each of many partitions. `api.origins` says where it may come from.

Every marker is a control batch of its own, appended as a coordinator's: the log fences older epochs of the producer and
of the coordinator, and takes a repeated marker without effect. The answer waits for the in-sync replicas of all
partitions: only then may the coordinator forget the transaction.

v1: flexible.

Kafka: KafkaApis.handleWriteTxnMarkersRequest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from barnabas.api.brief import each_once
from barnabas.api.origins import BrokerOrigin
from barnabas.api.request import Handler, Request
from barnabas.coordinator.group.group_table import EndedGroupTransaction
from barnabas.metadata.topic_name import GROUP_METADATA_TOPIC
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.inter_broker import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.end_transaction_marker import EndTransactionMarker
from barnabas.records.record_batch import BatchHeader
from barnabas.replica.partitions.partition_append import PartitionAppend
from barnabas.replica.replica_manager import ReplicaManager
from barnabas.runtime.clock import Clock
from barnabas.storage.log_append_info import AppendOrigin

WITHOUT_TRANSACTION_VERSIONS: Final = (0, 1)
"""v2, a stricter check of epochs (KIP-1228), is for coordinators that raise the epoch with every transaction."""

ALL_REPLICAS: Final = -1

Marker = WriteTxnMarkersRequest.WritableTxnMarker
PartitionResult = WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult


class _MarkerAppend(NamedTuple):
    """One partition's part of a marker. entry: its append; None when this broker does not host the partition."""

    marker: Marker
    place: TopicPartition
    entry: PartitionAppend | None

    @property
    def error(self) -> ErrorCode:
        """The error of the append, or NONE."""
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if self.entry is None else self.entry.error


class TransactionMarkersApi:
    """Ends transactions in partitions.

    timeout_ms: how long a marker may wait for the in-sync replicas. end_transaction: called, without locks, with each
    marker in a partition of `__consumer_offsets` (`TransactionalOffsetService.end_transaction`).
    """

    def __init__(
        self,
        replicas: ReplicaManager,
        origin: BrokerOrigin,
        clock: Clock,
        timeout_ms: int,
        end_transaction: Callable[[int, EndedGroupTransaction], None],
    ) -> None:
        self._appender = replicas.appender
        self._hosted = replicas.hosted
        self._origin = origin
        self._clock = clock
        self._timeout_ms = timeout_ms
        self._end_transaction = end_transaction

    def handlers(self) -> Sequence[Handler]:
        """Return the lines of the table."""
        return (Handler(ApiKey.WRITE_TXN_MARKERS, self.write_txn_markers, versions=WITHOUT_TRANSACTION_VERSIONS),)

    def write_txn_markers(self, request: Request[WriteTxnMarkersRequest]) -> None:
        """Append every marker to its partitions; answer when the in-sync replicas have all of them.

        Raises ApiError: CLUSTER_AUTHORIZATION_FAILED; INVALID_REQUEST for a producer that cannot exist.
        """
        self._origin.require_broker_or_operator(request)
        markers = request.body.markers
        for marker in markers:
            # A batch without producer id would be an ordinary control batch, which ends no transaction.
            if marker.producer_id < 0 or marker.producer_epoch < 0:
                raise ApiError(
                    ErrorCode.INVALID_REQUEST,
                    f"A marker of producer {marker.producer_id} with epoch {marker.producer_epoch}: neither may be"
                    " negative",
                )
        appends = [append for marker in markers for append in self._appends_of(marker)]
        entries = [append.entry for append in appends if append.entry is not None]

        def answer(_: Sequence[PartitionAppend]) -> None:
            self._end_commits(appends)
            request.respond(_response(markers, appends))

        self._appender.append_records(
            entries,
            required_acks=ALL_REPLICAS,
            timeout_ms=self._timeout_ms,
            on_complete=request.deferred(answer),
            origin=AppendOrigin.COORDINATOR,
        )

    def _appends_of(self, marker: Marker) -> list[_MarkerAppend]:
        """Return the append of a marker to each of its partitions that this broker hosts."""
        end = EndTransactionMarker(
            is_abort=not marker.transaction_result,
            coordinator_epoch=marker.coordinator_epoch,
            timestamp=self._clock.milliseconds(),
        )
        batch = end.batch(marker.producer_id, marker.producer_epoch)
        header = BatchHeader.parse(batch)
        appends = []
        # Each partition once, as in Kafka: a request of 2 MB could ask for half a million appends to one.
        named = (TopicPartition(topic.name, index) for topic in marker.topics for index in topic.partition_indexes)
        for place in each_once(named):
            # As in Kafka, also for a partition that another broker leads: the coordinator looks for the leader.
            is_hosted = self._hosted.get(place) is not None
            entry = PartitionAppend(place.topic, place.partition, batch, header) if is_hosted else None
            appends.append(_MarkerAppend(marker, place, entry))
        return appends

    def _end_commits(self, appends: Sequence[_MarkerAppend]) -> None:
        """Let the offsets count that the transactions have committed for groups, or drop them.

        Only now, when the in-sync replicas have the marker: the next coordinator of the group finds it there.
        """
        for marker, place, entry in appends:
            if place.topic != GROUP_METADATA_TOPIC or entry is None or entry.error is not ErrorCode.NONE:
                continue
            if entry.info is not None:
                ended = EndedGroupTransaction(marker.producer_id, marker.transaction_result, entry.info.first_offset)
                self._end_transaction(place.partition, ended)


def _response(markers: Sequence[Marker], appends: Sequence[_MarkerAppend]) -> WriteTxnMarkersResponse:
    """Return the errors by producer, topic and partition; a partition that was named twice is answered once."""
    errors: dict[int, dict[str, dict[int, ErrorCode]]] = {marker.producer_id: {} for marker in markers}
    for append in appends:
        topic, partition = append.place
        errors[append.marker.producer_id].setdefault(topic, {})[partition] = append.error
    return WriteTxnMarkersResponse(
        [
            WriteTxnMarkersResponse.WritableTxnMarkerResult(
                producer_id,
                [
                    WriteTxnMarkersResponse.WritableTxnMarkerTopicResult(
                        topic, [PartitionResult(partition, error) for partition, error in partitions.items()]
                    )
                    for topic, partitions in topics.items()
                ],
            )
            for producer_id, topics in errors.items()
        ]
    )
