"""WriteTxnMarkers from frame to frame, over logs on a simulated disk."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.api.apis import Apis
from barnabas.api.handlers.transaction_markers import TransactionMarkersApi
from barnabas.api.registry import Registry
from barnabas.api.request_parser import RequestParser
from barnabas.coordinator.group.open_transactions import EndedGroupTransaction
from barnabas.metadata.topic_name import GROUP_METADATA_TOPIC
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.headers import encode_request_header
from barnabas.protocol.messages.inter_broker import WriteTxnMarkersRequest
from barnabas.replica.partitions.partition_fetch import PartitionFetch
from barnabas.storage.fetch_data import AbortedTransaction, FetchIsolation
from barnabas.storage.log.aborted_transactions import collect_aborted
from tests.support.broker_origins import broker_origin
from tests.support.recording_channel import RecordingChannel, connection
from tests.unit.replica.replica_harness import ANOTHER, US, Replicas
from tests.unit.storage.log_harness import produced

COMMIT, ABORT = True, False
TIMEOUT_MS = 5000
Asked = tuple[int, int, bool, int, dict[str, list[int]]]
"""Producer id and epoch, the result, the coordinator's epoch, partitions by topic."""


class Broker:
    """Broker 0; `mark` says the errors by producer id, topic and partition, None while no answer is there."""

    def __init__(self) -> None:
        self.replicas = Replicas()
        origin = broker_origin()
        self.ended: list[tuple[int, EndedGroupTransaction]] = []
        markers = TransactionMarkersApi(
            self.replicas.manager,
            origin,
            self.replicas.clock,
            TIMEOUT_MS,
            lambda partition, ended: self.ended.append((partition, ended)),
        )
        self._parser = RequestParser(Registry(markers.handlers()))
        self._apis = Apis(self.replicas.actions, lambda: 1)
        self.channel = RecordingChannel()

    def begin(self, producer_id: int, *, epoch: int = 0, sequence: int = 0, count: int = 1) -> None:
        data = produced(producer_id, sequence, count, epoch=epoch, transactional=True)
        assert self.replicas.append(("topic", 0, data))[0].error is ErrorCode.NONE

    def send(self, *markers: Asked, version: int = 1) -> None:
        marker, topic = WriteTxnMarkersRequest.WritableTxnMarker, WriteTxnMarkersRequest.WritableTxnMarkerTopic
        body = WriteTxnMarkersRequest(
            [
                marker(producer, epoch, result, [topic(*each) for each in topics.items()], coordinator)
                for producer, epoch, result, coordinator, topics in markers
            ]
        )
        frame = encode_request_header(body.api_key, version, 1, "me") + b"".join(map(bytes, body.encode(version)))
        self._apis.handle(self._parser.parse(frame, connection(), channel=self.channel, received_ns=1))

    def errors(self) -> dict[int, dict[str, dict[int, int]]]:
        answer: Any = self.channel.answer()
        return {
            marker.producer_id: {
                topic.name: {each.partition_index: each.error_code for each in topic.partitions}
                for topic in marker.topics
            }
            for marker in answer.markers
        }

    def mark(
        self, producer_id: int, result: bool, *, epoch: int = 0, coordinator_epoch: int = 0, version: int = 1
    ) -> int:
        self.send((producer_id, epoch, result, coordinator_epoch, {"topic": [0]}), version=version)
        return self.errors()[producer_id]["topic"][0]

    @property
    def log(self) -> Any:
        return self.replicas.partition().log


@pytest.mark.parametrize("version", [0, 1])
def test_a_commit_makes_the_records_stable(version: int) -> None:
    broker = Broker()
    broker.replicas.lead()
    broker.begin(7, count=3)
    assert (broker.log.last_stable_offset, broker.log.high_watermark) == (0, 3)
    assert broker.mark(7, COMMIT, coordinator_epoch=4, version=version) == ErrorCode.NONE
    assert (broker.log.last_stable_offset, broker.log.log_end_offset) == (4, 4)
    (producer,) = broker.log.producers.active()
    assert (producer.coordinator_epoch, producer.current_transaction_start_offset) == (4, -1)
    assert collect_aborted(broker.log.local, 0, 10) == []


def test_an_aborted_transaction_is_told_to_readers_that_wait() -> None:
    broker = Broker()
    broker.replicas.lead()
    broker.begin(7)
    fetch = PartitionFetch("topic", 0, 0, 1 << 20)
    waiting = broker.replicas.fetch(fetch, max_wait_ms=10_000, isolation=FetchIsolation.TXN_COMMITTED)
    assert waiting == [], "the only transaction is open"
    assert broker.mark(7, ABORT) == ErrorCode.NONE
    (read,) = waiting
    assert (read.last_stable_offset, read.aborted_transactions) == (2, [AbortedTransaction(7, 0)])


def test_old_coordinators_and_producers_are_fenced() -> None:
    broker = Broker()
    broker.replicas.lead()
    broker.begin(7, epoch=2)
    assert broker.mark(7, COMMIT, epoch=2, coordinator_epoch=5) == ErrorCode.NONE
    end = broker.log.log_end_offset
    assert broker.mark(7, COMMIT, epoch=2, coordinator_epoch=4) == ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert broker.mark(7, ABORT, epoch=1, coordinator_epoch=5) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert broker.log.log_end_offset == end


def test_a_repeated_marker_changes_nothing() -> None:
    broker = Broker()
    broker.replicas.lead()
    broker.begin(7)
    broker.begin(8)
    assert [broker.mark(7, ABORT), broker.mark(7, ABORT)] == [ErrorCode.NONE] * 2
    assert len(collect_aborted(broker.log.local, 0, 10)) == 1
    assert broker.log.last_stable_offset == 1, "the other transaction is open"


def test_a_marker_of_a_raised_epoch_fences_the_producer() -> None:
    broker = Broker()
    broker.replicas.lead()
    broker.begin(7, epoch=0)
    assert broker.mark(7, ABORT, epoch=1) == ErrorCode.NONE
    late = broker.replicas.append(("topic", 0, produced(7, 1, epoch=0, transactional=True)))
    assert late[0].error is ErrorCode.INVALID_PRODUCER_EPOCH


def test_every_partition_is_answered_on_its_own() -> None:
    broker = Broker()
    broker.replicas.lead()
    broker.replicas.lead(partition=1, leader=ANOTHER, isr=(ANOTHER,), replicas=(ANOTHER, US))
    broker.replicas.announce("topic", 2, ANOTHER)
    broker.begin(7)
    asked = {"topic": [0, 1, 2, 9], "unknown": [0]}
    broker.send((7, 0, COMMIT, 0, asked), (8, 0, ABORT, 0, {"topic": [0, 0]}), (9, 0, ABORT, 0, {}))
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert broker.errors() == {
        7: {
            "topic": {0: ErrorCode.NONE, 1: ErrorCode.NOT_LEADER_OR_FOLLOWER, 2: unknown, 9: unknown},
            "unknown": {0: unknown},
        },
        8: {"topic": {0: ErrorCode.NONE}},
        9: {},
    }


def test_a_marker_waits_for_the_followers() -> None:
    broker = Broker()
    broker.replicas.brokers_alive(US, ANOTHER)
    broker.replicas.lead(isr=(US, ANOTHER))
    broker.begin(7)
    broker.replicas.follow(1)
    broker.send((7, 0, COMMIT, 0, {"topic": [0]}))
    assert not broker.channel.frames
    assert broker.log.last_stable_offset == 0
    broker.replicas.follow(2)
    assert broker.errors() == {7: {"topic": {0: ErrorCode.NONE}}}
    assert broker.log.last_stable_offset == 2
    broker.send((7, 0, COMMIT, 0, {"topic": [0]}))
    broker.replicas.pass_time(TIMEOUT_MS + 1)
    assert broker.errors() == {7: {"topic": {0: ErrorCode.REQUEST_TIMED_OUT}}}


def test_a_request_without_markers_is_answered() -> None:
    broker = Broker()
    broker.send()
    assert broker.errors() == {}


@pytest.mark.parametrize(("producer_id", "epoch"), [(-1, 0), (7, -1)])
def test_producers_that_cannot_exist_are_refused(producer_id: int, epoch: int) -> None:
    broker = Broker()
    broker.replicas.lead()
    assert broker.mark(producer_id, COMMIT, epoch=epoch) == ErrorCode.INVALID_REQUEST
    assert broker.log.log_end_offset == 0


def test_a_marker_of_groups_counts_when_the_followers_have_it() -> None:
    broker = Broker()
    broker.replicas.brokers_alive(US, ANOTHER)
    broker.replicas.lead(GROUP_METADATA_TOPIC, 3, isr=(US, ANOTHER))
    broker.replicas.lead()
    broker.send((7, 0, COMMIT, 0, {GROUP_METADATA_TOPIC: [3, 4], "topic": [0]}))
    assert broker.ended == []
    fetch = PartitionFetch(GROUP_METADATA_TOPIC, 3, 1, 1 << 20)
    broker.replicas.fetch(fetch, replica_id=ANOTHER, isolation=FetchIsolation.LOG_END)
    assert broker.ended == [(3, EndedGroupTransaction(7, is_committed=True, position=0))]
    broker.send((7, 0, ABORT, 0, {GROUP_METADATA_TOPIC: [3]}))
    broker.replicas.pass_time(TIMEOUT_MS + 1)
    assert len(broker.ended) == 1, "the coordinator sends the marker again"
