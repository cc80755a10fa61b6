"""Fetch sessions (KIP-227) as clients see them, over a socket; also run against Apache Kafka."""

from __future__ import annotations

import time

import pytest

from barnabas.clients.consumer.consumer import Consumer
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.protocol.messages.topics import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.record_batch import batches
from tests.support.raw_client import SECONDS, RawClient
from tests.support.server_fixtures import MODES, Server, make_server
from tests.support.waiting import wait_until

LONG_MS = 600_000
BY_ID = 13
PARTITIONS = 3


class Session:
    """A client's side of one session on a topic."""

    def __init__(self, client: RawClient, topic: str, version: int) -> None:
        self.client = client
        self.topic = topic
        self.topic_id = client.topic_id(topic)
        self.version = version
        self.id = 0
        self.epoch = 0

    def request(self, *asked: tuple[int, int], forgotten: tuple[int, ...] = (), max_wait_ms: int = 0) -> FetchRequest:
        """A fetch of these (partition, offset)."""
        places = [
            FetchRequest.FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20)
            for partition, offset in asked
        ]
        name, topic_id = (self.topic, bytes(16)) if self.version < BY_ID else ("", self.topic_id)
        request = FetchRequest(
            max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=1 << 20, session_id=self.id, session_epoch=self.epoch
        )
        if places:
            request.topics.append(FetchRequest.FetchTopic(name, topic_id, places))
        if forgotten:
            request.forgotten_topics_data.append(FetchRequest.ForgottenTopic(name, topic_id, list(forgotten)))
        return request

    def fetch(
        self, *asked: tuple[int, int], forgotten: tuple[int, ...] = (), max_wait_ms: int = 0
    ) -> dict[int, tuple[int, list[bytes | None]]]:
        """Partition -> error and values; the next fetch will be the next of the session."""
        request = self.request(*asked, forgotten=forgotten, max_wait_ms=max_wait_ms)
        return self.take(self.client.call(request, self.version, FetchResponse))

    def take(self, answer: FetchResponse) -> dict[int, tuple[int, list[bytes | None]]]:
        assert answer.error_code == ErrorCode.NONE
        assert answer.session_id != 0
        assert self.id in (0, answer.session_id)
        self.id = answer.session_id
        self.epoch += 1
        return {
            each.partition_index: (
                each.error_code,
                [record.value for one in batches(bytes(each.records or b"")) for record in one.records()],
            )
            for topic in answer.responses
            for each in topic.partitions
        }


@pytest.fixture(params=[7, 12, 13, 17])
def session(request: pytest.FixtureRequest, client: RawClient, topic: str) -> Session:
    """A session that has not begun, on a topic of three partitions without records."""
    client.create_topic(topic, PARTITIONS)
    return Session(client, topic, request.param)


EMPTY: tuple[int, list[bytes | None]] = (0, [])


def test_only_what_is_new_is_answered(session: Session, client: RawClient, topic: str) -> None:
    assert session.fetch((0, 0), (1, 0), (2, 0)) == dict.fromkeys(range(PARTITIONS), EMPTY)
    assert session.fetch() == {}
    client.produce_values(topic, b"a", b"b", partition=1)
    assert session.fetch() == {1: (0, [b"a", b"b"])}
    assert session.fetch((1, 2)) == {}
    client.produce_values(topic, b"c", partition=0)
    client.produce_values(topic, b"d", partition=1)
    assert session.fetch(forgotten=(0,)) == {1: (0, [b"d"])}
    assert session.fetch((0, 0), (1, 3)) == {0: (0, [b"c"])}


def test_a_long_poll_in_a_session(session: Session, client: RawClient, topic: str, server: Server) -> None:
    session.fetch((0, 0), (1, 0), (2, 0))
    waiting = client.send(session.request(max_wait_ms=LONG_MS), session.version)
    with RawClient(server) as another:
        another.produce_values(topic, b"x", partition=2)
    assert session.take(client.receive(FetchResponse, session.version, waiting)) == {2: (0, [b"x"])}
    assert session.fetch((2, 1), max_wait_ms=50) == {}


def test_errors_within_a_session(session: Session) -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert session.fetch((0, 0), (9, 0)) == {0: EMPTY, 9: (unknown, [])}
    assert session.fetch() == {9: (unknown, [])}
    assert session.fetch((0, 5)) == {0: (ErrorCode.OFFSET_OUT_OF_RANGE, []), 9: (unknown, [])}
    assert session.fetch((0, 0), forgotten=(9,)) == {0: EMPTY}
    assert session.fetch() == {}


@pytest.mark.parametrize(
    ("other_id", "epoch", "error"),
    [
        (None, 2, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
        (0, 1, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
    ],
)
def test_wrong_places(session: Session, other_id: int | None, epoch: int, error: ErrorCode) -> None:
    session.fetch((0, 0))
    session.epoch = epoch
    if other_id is not None:
        session.id = other_id
    answer = session.client.call(session.request((0, 0), max_wait_ms=LONG_MS), session.version, FetchResponse)
    assert (answer.error_code, answer.session_id, answer.responses) == (error, 0, [])


def test_names_and_ids_do_not_mix(session: Session) -> None:
    session.fetch((0, 0))
    session.version = 12 if session.version >= BY_ID else 13
    answer = session.client.call(session.request(), session.version, FetchResponse)
    assert (answer.error_code, answer.responses) == (ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, [])


def test_closing(session: Session) -> None:
    session.fetch((0, 0))
    session.epoch = -1
    answer = session.client.call(session.request(), session.version, FetchResponse)
    assert (answer.error_code, answer.session_id, answer.responses) == (ErrorCode.NONE, 0, [])
    session.epoch = 1
    answer = session.client.call(session.request(), session.version, FetchResponse)
    assert answer.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_forgetting_the_last_partition_closes_it(session: Session) -> None:
    session.fetch((0, 0), (1, 0))
    answer = session.client.call(session.request(forgotten=(0, 1)), session.version, FetchResponse)
    assert (answer.error_code, answer.session_id, answer.responses) == (ErrorCode.NONE, 0, [])


def create_again(client: RawClient, topic: str) -> None:
    """Once the controller has forgotten the one that was deleted."""
    request = CreateTopicsRequest([CreateTopicsRequest.CreatableTopic(topic, PARTITIONS, 1)])
    wait_until(
        lambda: client.call(request, 4, CreateTopicsResponse).topics[0].error_code != ErrorCode.TOPIC_ALREADY_EXISTS,
        SECONDS,
    )
    client.wait_for_leaders(topic, PARTITIONS)


def test_a_topic_deleted_and_made_again(session: Session, client: RawClient, topic: str) -> None:
    """By id a session notices; by name it goes on, from an offset the new topic may not have."""
    client.produce_values(topic, b"old", partition=0)
    assert session.fetch((0, 0), (1, 0)) == {0: (0, [b"old"]), 1: EMPTY}
    assert session.fetch((0, 1)) == {}
    request = DeleteTopicsRequest(topic_names=[topic], timeout_ms=30_000)
    (deleted,) = client.call(request, 4, DeleteTopicsResponse).responses
    assert deleted.error_code == ErrorCode.NONE
    create_again(client, topic)
    answered = session.fetch()
    error, values = answered[0]
    assert not values
    if session.version >= BY_ID:
        assert error in (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.INCONSISTENT_TOPIC_ID)
    else:
        assert error == ErrorCode.OFFSET_OUT_OF_RANGE


def test_our_consumer_reads_in_a_session_and_closes_it(client: RawClient, topic: str, server: Server) -> None:
    client.create_topic(topic, PARTITIONS)
    partitions = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
    with Consumer(server.bootstrap_servers, auto_offset_reset="earliest", fetch_max_wait_ms=50) as consumer:
        consumer.assign(partitions)
        for number in range(6):
            value = b"%d" % number
            client.produce_values(topic, value, partition=number % PARTITIONS)
            read: list[bytes | None] = []
            deadline = time.monotonic() + SECONDS
            while not read and time.monotonic() < deadline:
                read += [record.value for record in consumer.poll(1000)]
            assert read == [value]
        (session,) = (each.session for each in consumer._reading._fetcher._nodes.values())
        used = FetchRequest(max_wait_ms=0, min_bytes=1, session_id=session.session_id, session_epoch=10_000)
        answer = client.call(used, 13, FetchResponse)
        assert answer.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    wait_until(lambda: client.call(used, 13, FetchResponse).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND, SECONDS)


def test_without_slots_nobody_gets_a_session(tmp_path_factory: pytest.TempPathFactory, topic: str) -> None:
    server = make_server(MODES[0], tmp_path_factory.mktemp("no-slots"), max_incremental_fetch_session_cache_slots="0")
    server.start()
    try:
        with RawClient(server) as client:
            client.create_topic(topic, PARTITIONS)
            session = Session(client, topic, 12)
            for _ in range(2):
                answer = client.call(session.request((0, 0), (1, 0)), 12, FetchResponse)
                assert (answer.error_code, answer.session_id) == (ErrorCode.NONE, 0)
                assert len(answer.responses[0].partitions) == 2
    finally:
        server.stop()
