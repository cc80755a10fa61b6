"""What a broker answers about a partition, by protocol, in pieces that two brokers can be compared by."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.fetch import FetchResponse
from barnabas.protocol.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from barnabas.protocol.messages.transactions import DescribeProducersRequest, DescribeProducersResponse
from barnabas.records.record_batch import RecordBatch, batches
from tests.support.raw_client import ConnectionClosed, RawClient, only_partition, record_bytes
from tests.support.server_process import ServerProcess

EARLIEST, LATEST, MAX_TIMESTAMP = -2, -1, -3
READ_COMMITTED = 1
LOOK_UPS = 120
"""At most so many look-ups by offset, and by time, in a partition."""


class Place(NamedTuple):
    """A partition as it is asked about; `committed` reads only what is committed."""

    client: RawClient
    topic: str
    partition: int

    def fetch(self, offset: int, *, committed: bool = False, max_bytes: int = 1 << 20) -> FetchResponse.PartitionData:
        request = self.client.fetch_request(
            self.topic, offset, partition=self.partition, partition_max_bytes=max_bytes, max_bytes=50 << 20
        )
        request.isolation_level = READ_COMMITTED if committed else 0
        answer = only_partition(self.client.call(request, 12, FetchResponse))
        assert answer.error_code == ErrorCode.NONE, (self.topic, self.partition, offset, answer.error_code)
        return answer

    def list_offset(self, timestamp: int) -> tuple[int, int, int]:
        """Timestamp, offset, leader epoch."""
        place = ListOffsetsRequest.ListOffsetsPartition(partition_index=self.partition, timestamp=timestamp)
        request = ListOffsetsRequest(-1, 0, [ListOffsetsRequest.ListOffsetsTopic(self.topic, [place])])
        (topic,) = self.client.call(request, 7, ListOffsetsResponse).topics
        (found,) = topic.partitions
        assert found.error_code == ErrorCode.NONE, (self.topic, timestamp, found)
        return found.timestamp, found.offset, found.leader_epoch

    def batches(self) -> Iterator[RecordBatch]:
        """Every batch from the log's start to its end."""
        offset = self.list_offset(EARLIEST)[1]
        while True:
            found = list(batches(record_bytes(self.fetch(offset))))
            if not found:
                return
            yield from found
            offset = found[-1].next_offset


def bounds(place: Place) -> Any:
    """Log start, end, high watermark, last stable offset."""
    end = place.list_offset(LATEST)[1]
    answer = place.fetch(end)
    return {
        "start": place.list_offset(EARLIEST)[1],
        "end": end,
        "log start": answer.log_start_offset,
        "high watermark": answer.high_watermark,
        "last stable offset": place.fetch(end, committed=True).last_stable_offset,
    }


def stored_batches(place: Place) -> Any:
    """Every batch, byte by byte."""
    return [(batch.base_offset, bytes(batch.buffer[batch.position : batch.end]).hex()) for batch in place.batches()]


def records(place: Place) -> Any:
    """Every record."""
    return [record for batch in place.batches() if not batch.is_control for record in batch.records()]


def offset_look_ups(place: Place) -> Any:
    """The batch that each of many offsets is in: what the offset index leads to."""
    start, end = place.list_offset(EARLIEST)[1], place.list_offset(LATEST)[1]
    asked = range(start, end, max(1, (end - start) // LOOK_UPS))
    found = {}
    for offset in asked:
        answered = next(batches(record_bytes(place.fetch(offset, max_bytes=1))), None)
        found[offset] = None if answered is None else answered.base_offset
    return found


def time_look_ups(place: Place) -> Any:
    """What many timestamps lead to, those of batches and those next to them, and the largest one."""
    stamps = sorted({stamp for batch in place.batches() for stamp in (batch.base_timestamp, batch.max_timestamp)})
    chosen = stamps[:: max(1, 3 * len(stamps) // LOOK_UPS)]
    asked = sorted({stamp + difference for stamp in chosen for difference in (-1, 0, 1)})
    return {stamp: place.list_offset(stamp) for stamp in (*asked, stamps[-1] + 10, MAX_TIMESTAMP)} if stamps else {}


def leader_epochs(place: Place) -> Any:
    """Where each leader epoch up to that of the last batch ends."""
    newest = max((batch.partition_leader_epoch for batch in place.batches()), default=-1)
    found = {}
    for epoch in range(newest + 1):
        asked = OffsetForLeaderEpochRequest.OffsetForLeaderPartition(partition=place.partition, leader_epoch=epoch)
        topic = OffsetForLeaderEpochRequest.OffsetForLeaderTopic(place.topic, [asked])
        answer = place.client.call(OffsetForLeaderEpochRequest(-2, [topic]), 4, OffsetForLeaderEpochResponse)
        (result,) = answer.topics[0].partitions
        assert result.error_code == ErrorCode.NONE, result
        found[epoch] = (result.leader_epoch, result.end_offset)
    return found


def producers(place: Place) -> Any:
    """The state of every producer (KIP-664)."""
    topic = DescribeProducersRequest.TopicRequest(place.topic, [place.partition])
    answer = place.client.call(DescribeProducersRequest([topic]), 0, DescribeProducersResponse)
    (result,) = answer.topics[0].partitions
    assert result.error_code == ErrorCode.NONE, result
    return sorted(
        (
            one.producer_id,
            one.producer_epoch,
            one.last_sequence,
            one.last_timestamp,
            one.coordinator_epoch,
            one.current_txn_start_offset,
        )
        for one in result.active_producers
    )


def aborted_transactions(place: Place) -> Any:
    """What a reader of committed records is told, from many offsets on and for small and large answers.

    Kafka also names some transactions that begin behind the answer, as its index happens to have entries; so do we.
    """
    start, end = place.list_offset(EARLIEST)[1], place.list_offset(LATEST)[1]
    found = {}
    for offset in range(start, end, max(1, (end - start) // LOOK_UPS)):
        for max_bytes in (1, 2000, 1 << 20):
            answer = place.fetch(offset, committed=True, max_bytes=max_bytes)
            last = max((batch.last_offset for batch in batches(record_bytes(answer))), default=offset - 1)
            aborted = sorted((one.producer_id, one.first_offset) for one in answer.aborted_transactions or ())
            found[offset, max_bytes] = (answer.last_stable_offset, aborted, last)
    return found


PIECES: dict[str, Callable[[Place], Any]] = {
    piece.__name__: piece
    for piece in (
        bounds,
        stored_batches,
        records,
        offset_look_ups,
        time_look_ups,
        leader_epochs,
        producers,
        aborted_transactions,
    )
}

Observation = dict[tuple[str, str, int], Any]
"""By piece, topic and partition."""


def observe(server: ServerProcess, topics: Mapping[str, int]) -> Observation:
    """All pieces of all partitions of these topics (name -> number of partitions); in place of one, what went wrong."""
    return {
        (name, topic, partition): _answer_or_failure(server, name, topic, partition)
        for name in PIECES
        for topic, partitions in topics.items()
        for partition in range(partitions)
    }


def _answer_or_failure(server: ServerProcess, name: str, topic: str, partition: int) -> Any:
    """Every piece on a connection of its own: one that cannot be had must not keep the others from being compared."""
    try:
        with RawClient(server) as client:
            return PIECES[name](Place(client, topic, partition))
    except (AssertionError, ConnectionClosed, OSError) as failure:
        return f"{type(failure).__name__}: {failure}"
