"""The controller's own listener, over the wire: its three requests and no others; leadership that moves under load."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.protocol.messages.cluster import DescribeClusterRequest, DescribeClusterResponse
from barnabas.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.protocol.messages.produce import ProduceResponse
from tests.support.listener_servers import ListenerServer
from tests.support.raw_client import SECONDS, RawClient, make_batch
from tests.support.raw_controller import RawController, broker_entry
from tests.support.server_fixtures import AGAINST_KAFKA, MODES

US, OTHER = 0, 7
BOTH = (US, OTHER)
PRODUCE = 9
PRODUCERS = 30
IN_FLIGHT_EACH = 10
PROPERTIES = {"inter_broker_protocol_version": "2.6"} if AGAINST_KAFKA else {}
ours_only = pytest.mark.skipif(AGAINST_KAFKA, reason="Apache Kafka answers any request on its control plane")


@pytest.fixture(scope="module", params=MODES)
def planes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ListenerServer]:
    """A server with a control plane, whose own controller is deposed by the first order of a test's."""
    server = ListenerServer(
        request.param,
        tmp_path_factory.mktemp("planes"),
        {"CONTROLLER": "127.0.0.1"},
        control_plane_listener_name="CONTROLLER",
        **PROPERTIES,
    )
    with server.running():
        yield server


@pytest.fixture
def controller(planes: ListenerServer) -> Iterator[RawController]:
    with planes.connect("CONTROLLER") as client:
        yield RawController(client)


def test_its_own_controller_comes_in_there(planes: ListenerServer, topic: str) -> None:
    with planes.connect("PLAINTEXT") as client:
        client.create_topic(topic, 3)
        client.wait_for_leaders(topic, 3)
        assert client.produce_values(topic, b"value") == 0


@ours_only
def test_others_are_refused_in_words(planes: ListenerServer) -> None:
    with planes.connect("CONTROLLER") as client:
        described = client.call(DescribeClusterRequest(), 0, DescribeClusterResponse)
        assert described.error_code == ErrorCode.INVALID_REQUEST
        assert described.error_message == (
            "Listener CONTROLLER is the control plane, which takes the controller's requests only "
            "(LeaderAndIsr, StopReplica, UpdateMetadata), not DESCRIBE_CLUSTER; use another listener of this broker"
        )
        versions = client.call(ApiVersionsRequest(), 0, ApiVersionsResponse)
        assert versions.error_code == ErrorCode.INVALID_REQUEST
        topics = [MetadataRequest.MetadataRequestTopic(name="any")]
        metadata = client.call(MetadataRequest(topics=topics), 9, MetadataResponse)
        assert [(answer.name, answer.error_code) for answer in metadata.topics] == [("any", ErrorCode.INVALID_REQUEST)]


@ours_only
def test_a_produce_that_wants_no_answer_is_told_by_the_end_of_its_connection(planes: ListenerServer) -> None:
    with planes.connect("CONTROLLER") as client:
        client.send(client.produce_request("any", make_batch([b"value"]), PRODUCE, 0), PRODUCE)
        assert client.is_closed_by_broker()


def codes_of(client: RawClient) -> list[int]:
    """What LeaderAndIsr, StopReplica and UpdateMetadata of a pretended controller are answered."""
    intruder = RawController(client)
    host, port = client.socket.getpeername()
    return [
        intruder.lead("intruded").error_code,
        intruder.stop("intruded").error_code,
        intruder.tell("intruded", [broker_entry(0, host, port)]).error_code,
    ]


@ours_only
def test_with_a_control_plane_the_controllers_requests_come_by_no_other_listener(planes: ListenerServer) -> None:
    with planes.connect("PLAINTEXT") as client:
        assert codes_of(client) == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED] * 3
        assert client.metadata("intruded").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@ours_only
def test_without_one_they_come_by_the_brokers_listener(tmp_path: Path) -> None:
    server = ListenerServer(MODES[0], tmp_path, {"CLIENTS": "127.0.0.1"})
    with server.running():
        with server.connect("CLIENTS") as client:
            assert codes_of(client) == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED] * 3
        with server.connect("PLAINTEXT") as client:
            assert codes_of(client) == [ErrorCode.NONE] * 3, "this machine is trusted until there is an authorizer"


def lead(planes: ListenerServer, controller: RawController, topic: str, *, leader: int, leader_epoch: int) -> None:
    """Say over the control plane who leads; both replicas are in sync."""
    host, port = planes.address("PLAINTEXT")
    controller.tell(topic, [broker_entry(broker_id, host, port) for broker_id in BOTH], replicas=BOTH)
    answer = controller.lead(topic, leader=leader, leader_epoch=leader_epoch, isr=BOTH, replicas=BOTH)
    assert answer.error_code == ErrorCode.NONE


def wait_for_end(client: RawClient, topic: str, offset: int) -> None:
    """Wait until the leader's log ends there, as a follower sees it."""
    place = ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=-1)
    request = ListOffsetsRequest(OTHER, 0, [ListOffsetsRequest.ListOffsetsTopic(topic, [place])])
    deadline = time.monotonic() + SECONDS
    while True:
        (found,) = client.call(request, 5, ListOffsetsResponse).topics[0].partitions
        if found.offset >= offset:
            return
        assert time.monotonic() < deadline, found
        time.sleep(0.01)


def test_requests_waiting_for_replicas_are_answered_when_leadership_moves(
    planes: ListenerServer, controller: RawController, topic: str
) -> None:
    """The broker's side of KAFKA-4453, with one broker: the test itself is the controller and names broker 7 leader.

    300 produces wait for broker 7, which does not exist. The controller's order overtakes those that are still in their
    connections, and every produce that waits is answered at once. That clients then find the new leader would take two
    brokers.
    """
    lead(planes, controller, topic, leader=US, leader_epoch=1)
    producers = [planes.connect("PLAINTEXT") for _ in range(PRODUCERS)]
    request = producers[0].produce_request(topic, make_batch([b"value"]), PRODUCE, -1)
    request.timeout_ms = 3_600_000
    sent = [(each, each.send(request, PRODUCE)) for _ in range(IN_FLIGHT_EACH) for each in producers]
    # The first of each connection has been appended, and waits; those behind it wait in the connection.
    watcher = planes.connect("PLAINTEXT")
    wait_for_end(watcher, topic, PRODUCERS)
    lead(planes, controller, topic, leader=OTHER, leader_epoch=2)
    errors = {
        each.receive(ProduceResponse, PRODUCE, number).responses[0].partition_responses[0].error_code
        for each, number in sent
    }
    assert errors == {ErrorCode.NOT_LEADER_OR_FOLLOWER}
    for each in (watcher, *producers):
        each.close()
