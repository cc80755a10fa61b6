"""The leader's side of replication over the wire: the test plays controller and follower, broker 7."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from barnabas.protocol.messages.produce import ProduceResponse
from barnabas.protocol.messages.topics import DeleteRecordsRequest, DeleteRecordsResponse
from tests.support.raw_client import SECONDS, RawClient, make_batch, only_partition, record_bytes
from tests.support.raw_controller import RawController, broker_entry
from tests.support.server_fixtures import MODES, Server, make_server
from tests.support.waiting import wait_until

US, FOLLOWER = 0, 7
BOTH = (US, FOLLOWER)
LAG_MS = 2000
PROPERTIES = {"inter_broker_protocol_version": "2.6"}
"""Of a newer version, leaders have the controller change in-sync replicas, which knows of no broker 7."""
STORED_TOPICS = {"too-few": 2, "lagging": 1, "returning": 2, "shrunk": 2}
"""Made by the real controller while it is one: a leader can write their state. With `min.insync.replicas`."""
FETCH = 12
PRODUCE = 9


@pytest.fixture(scope="module", params=MODES)
def ruled_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose own controller is deposed."""
    directory = tmp_path_factory.mktemp("leader")
    server = make_server(request.param, directory, replica_lag_time_max_ms=str(LAG_MS), **PROPERTIES)
    with server.running():
        with RawClient(server) as client:
            for name, min_isr in STORED_TOPICS.items():
                client.create_topic(name, 1, {"min.insync.replicas": str(min_isr)})
        yield server


class Cluster:
    """Controller, producer and consumer, and the follower, each with a connection."""

    def __init__(self, server: Server, topic: str) -> None:
        self.server = server
        self.topic = topic
        self.connections = [RawClient(server), RawClient(server), RawClient(server)]
        self.client, self.following, orders = self.connections
        self.controller = RawController(orders)

    def close(self) -> None:
        for connection in self.connections:
            connection.close()

    def connect(self) -> RawClient:
        self.connections.append(RawClient(self.server))
        return self.connections[-1]

    def know(self, *broker_ids: int) -> None:
        """Tell the broker of the partition and of the live brokers."""
        host, port = self.client.socket.getpeername()
        brokers = [broker_entry(broker_id, host, port) for broker_id in broker_ids]
        self.controller.tell(self.topic, brokers, replicas=BOTH)

    def lead(self, isr: tuple[int, ...] = BOTH, leader_epoch: int = 1, leader: int = US) -> None:
        """The broker leads (or follows) a partition with two replicas; nothing of it is in the store."""
        self.know(*BOTH)
        self.controller.lead(self.topic, leader=leader, leader_epoch=leader_epoch, isr=isr, replicas=BOTH)

    def lead_stored(self, topic: str, isr: tuple[int, ...], leader_epoch: int = 1) -> None:
        """The same of one of STORED_TOPICS."""
        self.topic = topic
        self.know(*BOTH)
        self.controller.lead(topic, leader_epoch=leader_epoch, isr=isr, replicas=BOTH, partition_epoch=0)

    def start_produce(self, *values: bytes, client: RawClient | None = None, timeout_ms: int = SECONDS * 1000) -> int:
        """Send a produce with acks=all; the correlation id of its answer."""
        connection = client or self.client
        request = connection.produce_request(self.topic, make_batch(values), PRODUCE, -1)
        request.timeout_ms = timeout_ms
        return connection.send(request, PRODUCE)

    def finish_produce(self, correlation_id: int, client: RawClient | None = None) -> tuple[ErrorCode, int]:
        """(error, base offset) of the answer."""
        answer = (client or self.client).receive(ProduceResponse, PRODUCE, correlation_id)
        (result,) = answer.responses[0].partition_responses
        return ErrorCode(result.error_code), result.base_offset

    def follow_request(
        self,
        offset: int,
        *,
        log_start_offset: int = 0,
        max_wait_ms: int = 0,
        epoch: int = -1,
        last_fetched_epoch: int = -1,
        replica_id: int = FOLLOWER,
    ) -> FetchRequest:
        request = self.following.fetch_request(self.topic, offset, FETCH, max_wait_ms=max_wait_ms)
        request.replica_id = replica_id
        (place,) = request.topics[0].partitions
        place.log_start_offset = log_start_offset
        place.current_leader_epoch = epoch
        place.last_fetched_epoch = last_fetched_epoch
        return request

    def follow(self, offset: int, **terms: int) -> FetchResponse.PartitionData:
        """The follower fetches: it has what lies below the offset."""
        return only_partition(self.following.call(self.follow_request(offset, **terms), FETCH, FetchResponse))

    def seen_by_consumers(self) -> tuple[int, int]:
        """(high watermark, bytes) of a consumer's fetch from the beginning."""
        with RawClient(self.server) as consumer:
            answer = consumer.fetch(self.topic, 0, FETCH)
        return answer.high_watermark, len(record_bytes(answer))

    def wait_for_end(self, offset: int) -> None:
        """Wait until the leader's log ends there, as somebody sees it who is no consumer (a follower's ListOffsets)."""
        place = ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=-1)
        request = ListOffsetsRequest(FOLLOWER, 0, [ListOffsetsRequest.ListOffsetsTopic(self.topic, [place])])
        deadline = time.monotonic() + SECONDS
        while True:
            (found,) = self.following.call(request, 5, ListOffsetsResponse).topics[0].partitions
            if found.offset >= offset:
                return
            assert time.monotonic() < deadline, found
            time.sleep(0.01)


@pytest.fixture
def cluster(ruled_server: Server, topic: str) -> Iterator[Cluster]:
    made = Cluster(ruled_server, topic)
    yield made
    made.close()


def test_acks_all_waits_for_the_follower_s_fetch_and_consumers_see_it_then(cluster: Cluster) -> None:
    cluster.lead()
    waiting = cluster.start_produce(b"one", b"two")
    first = cluster.follow(0, max_wait_ms=SECONDS * 1000)
    assert len(record_bytes(first)) > 0, "followers read to the log's end"
    assert first.high_watermark == 0
    assert cluster.seen_by_consumers() == (0, 0), "it has read, but not said that it has written"
    cluster.follow(2)
    assert cluster.finish_produce(waiting) == (ErrorCode.NONE, 0)
    high_watermark, size = cluster.seen_by_consumers()
    assert high_watermark == 2
    assert size > 0


def test_a_waiting_consumer_is_answered_when_the_high_watermark_moves(cluster: Cluster) -> None:
    cluster.lead()
    consumer = cluster.connect()
    polling = consumer.send(consumer.fetch_request(cluster.topic, 0, FETCH, max_wait_ms=SECONDS * 1000), FETCH)
    waiting = cluster.start_produce(b"one")
    cluster.follow(0, max_wait_ms=SECONDS * 1000)
    cluster.follow(1)
    seen = only_partition(consumer.receive(FetchResponse, FETCH, polling))
    assert (seen.error_code, seen.high_watermark) == (ErrorCode.NONE, 1)
    assert len(record_bytes(seen)) > 0
    assert cluster.finish_produce(waiting) == (ErrorCode.NONE, 0)


def test_a_produce_that_no_follower_takes_times_out(cluster: Cluster) -> None:
    cluster.lead()
    assert cluster.finish_produce(cluster.start_produce(b"one", timeout_ms=200))[0] is ErrorCode.REQUEST_TIMED_OUT


def test_leadership_lost_while_many_wait(cluster: Cluster) -> None:
    """The part of KAFKA-4453 that one broker has: the losing leader answers, long before the requests time out."""
    cluster.lead()
    waiting = [(client, cluster.start_produce(b"x", client=client)) for client in [cluster.connect() for _ in range(8)]]
    cluster.wait_for_end(8)
    cluster.lead(leader=FOLLOWER, leader_epoch=2)
    errors = [cluster.finish_produce(correlation_id, client)[0] for client, correlation_id in waiting]
    assert errors == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 8


def test_leadership_lost_while_a_follower_and_consumers_wait(cluster: Cluster) -> None:
    """A consumer may go on reading here (KIP-392), unless it says which epoch it believes in, or is an old one."""
    cluster.lead()
    fenced = cluster.client.fetch_request(cluster.topic, 0, FETCH, max_wait_ms=SECONDS * 1000)
    fenced.topics[0].partitions[0].current_leader_epoch = 1
    old_version = 10
    waiting = [
        (cluster.following, cluster.follow_request(0, max_wait_ms=SECONDS * 1000), FETCH),
        (cluster.client, fenced, FETCH),
        (
            cluster.connect(),
            cluster.client.fetch_request(cluster.topic, 0, old_version, max_wait_ms=30_000),
            old_version,
        ),
    ]
    sent = [(client, version, client.send(request, version)) for client, request, version in waiting]
    cluster.lead(leader=FOLLOWER, leader_epoch=2)
    errors = [
        only_partition(client.receive(FetchResponse, version, number)).error_code for client, version, number in sent
    ]
    assert errors == [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ]


def test_too_few_in_sync_replicas_before_the_append(cluster: Cluster) -> None:
    cluster.lead_stored("too-few", isr=(US,))
    refused = cluster.client.produce(cluster.topic, make_batch([b"one"]))
    assert refused.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert cluster.client.produce(cluster.topic, make_batch([b"one"]), acks=1).base_offset == 0, "nothing was written"


def test_too_few_in_sync_replicas_after_the_append(cluster: Cluster) -> None:
    """The high watermark stands still then (KAFKA-15583), and the produce waits until there are enough again."""
    cluster.lead_stored("shrunk", isr=BOTH)
    late = cluster.connect()
    waiting = cluster.start_produce(b"one")
    timing_out = cluster.start_produce(b"two", client=late, timeout_ms=300)
    cluster.wait_for_end(2)
    cluster.lead_stored("shrunk", isr=(US,), leader_epoch=2)
    assert cluster.finish_produce(timing_out, late)[0] is ErrorCode.REQUEST_TIMED_OUT
    assert cluster.seen_by_consumers() == (0, 0)
    cluster.lead_stored("shrunk", isr=BOTH, leader_epoch=3)
    cluster.follow(2)
    assert cluster.finish_produce(waiting)[0] is ErrorCode.NONE
    assert cluster.seen_by_consumers()[0] == 2


def test_a_lagging_follower_leaves_and_comes_back(cluster: Cluster) -> None:
    cluster.lead_stored("lagging", isr=BOTH)
    waiting = cluster.start_produce(b"one")
    assert cluster.finish_produce(waiting) == (ErrorCode.NONE, 0), "answered once the follower has left"
    assert cluster.client.produce_values(cluster.topic, b"two") == 1
    assert cluster.follow(0).error_code == ErrorCode.NONE
    assert cluster.client.produce_values(cluster.topic, b"three") == 2, "it has not caught up yet"
    cluster.follow(3)
    waiting = cluster.start_produce(b"four")
    cluster.wait_for_end(4)
    assert cluster.seen_by_consumers()[0] == 3, "it is waited for as soon as it is asked for"
    read = cluster.follow(3, max_wait_ms=SECONDS * 1000)
    assert len(record_bytes(read)) > 0
    cluster.follow(4)
    assert cluster.finish_produce(waiting) == (ErrorCode.NONE, 3)


def test_a_returning_follower_makes_enough_replicas_again(cluster: Cluster) -> None:
    cluster.lead_stored("returning", isr=(US,))
    deadline = time.monotonic() + SECONDS
    cluster.follow(0)
    waiting = cluster.start_produce(b"one")
    while not record_bytes(cluster.follow(0, max_wait_ms=100)):
        # refused as long as the change is not written, which another thread does
        assert cluster.finish_produce(waiting)[0] is ErrorCode.NOT_ENOUGH_REPLICAS
        assert time.monotonic() < deadline
        waiting = cluster.start_produce(b"one")
    cluster.follow(1)
    assert cluster.finish_produce(waiting) == (ErrorCode.NONE, 0)


@pytest.mark.parametrize(
    ("epoch", "error"), [(-1, ErrorCode.NOT_LEADER_OR_FOLLOWER), (1, ErrorCode.UNKNOWN_LEADER_EPOCH)]
)
def test_a_broker_that_is_no_replica_is_refused(cluster: Cluster, epoch: int, error: ErrorCode) -> None:
    cluster.lead()
    assert cluster.follow(0, replica_id=8, epoch=epoch).error_code == error


def test_a_follower_is_fenced_by_leader_epoch(cluster: Cluster) -> None:
    cluster.lead(leader_epoch=5)
    assert cluster.follow(0, epoch=4).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert cluster.follow(0, epoch=6).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert cluster.follow(0, epoch=5).error_code == ErrorCode.NONE


def test_a_follower_whose_log_diverges_is_told_where(cluster: Cluster) -> None:
    cluster.lead(isr=(US,))
    cluster.client.produce(cluster.topic, make_batch([b"one", b"two"]), acks=1)
    cluster.lead(isr=(US,), leader_epoch=2, leader=FOLLOWER)
    cluster.lead(isr=(US,), leader_epoch=3)
    cluster.client.produce(cluster.topic, make_batch([b"three"]), acks=1)
    answer = cluster.follow(3, epoch=3, last_fetched_epoch=2, max_wait_ms=SECONDS * 1000)
    assert answer.error_code == ErrorCode.NONE
    assert answer.diverging_epoch == FetchResponse.EpochEndOffset(1, 2)
    agreeing = cluster.follow(2, epoch=3, last_fetched_epoch=1)
    assert agreeing.diverging_epoch is None
    assert len(record_bytes(agreeing)) > 0


def test_deleted_records_are_gone_when_the_follower_has_followed(cluster: Cluster) -> None:
    cluster.lead()
    waiting = cluster.start_produce(b"one", b"two", b"three")
    cluster.follow(0, max_wait_ms=SECONDS * 1000)
    cluster.follow(3)
    assert cluster.finish_produce(waiting) == (ErrorCode.NONE, 0)

    def delete(offset: int, timeout_ms: int) -> DeleteRecordsRequest:
        place = DeleteRecordsRequest.DeleteRecordsPartition(0, offset)
        return DeleteRecordsRequest([DeleteRecordsRequest.DeleteRecordsTopic(cluster.topic, [place])], timeout_ms)

    def result(answer: DeleteRecordsResponse) -> tuple[int, int]:
        (partition,) = answer.topics[0].partitions
        return partition.error_code, partition.low_watermark

    deleting = cluster.client.send(delete(2, SECONDS * 1000), 1)
    wait_until(lambda: cluster.follow(3, log_start_offset=0).log_start_offset >= 2, SECONDS)
    cluster.follow(3, log_start_offset=2)
    answered = cluster.client.receive(DeleteRecordsResponse, 1, deleting)
    assert result(answered) == (ErrorCode.NONE, 2)
    late = cluster.client.call(delete(3, 200), 1, DeleteRecordsResponse)
    assert result(late) == (ErrorCode.REQUEST_TIMED_OUT, 2)
