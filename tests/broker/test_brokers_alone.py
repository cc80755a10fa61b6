"""What brokers send each other is refused to users, by every API and with nothing changed, without an authorizer too.

In this process: the principal of a connection is injected by the address that it comes from. A client from this machine
that shows no principal is as good as a broker.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.broker.broker_server import BrokerServer
from barnabas.config.config_error import ConfigError
from barnabas.config.kafka_config import KafkaConfig
from barnabas.config.server_defaults import SERVER_DEFAULTS
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.protocol.messages.inter_broker import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    AlterPartitionRequest,
    AlterPartitionResponse,
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from barnabas.protocol.messages.message import Message
from barnabas.protocol.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
)
from tests.support.listener_servers import ALICES_ADDRESS, channel_by_address
from tests.support.raw_client import RawClient

AUTHORIZER = "kafka.security.authorizer.AclAuthorizer"
REFUSED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
CONTROL_PLANE = {
    "listeners": "PLAINTEXT://127.0.0.1:0,CONTROL://127.0.0.1:0",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROL:PLAINTEXT",
    "control.plane.listener.name": "CONTROL",
}


def broker_with(directory: Path, settings: Mapping[str, str]) -> BrokerServer:
    properties = {
        **SERVER_DEFAULTS,
        "log.dirs": str(directory),
        "listeners": "PLAINTEXT://127.0.0.1:0",
        **settings,
    }
    return BrokerServer(KafkaConfig.parse(properties, "the test"), channel_builders={"PLAINTEXT": channel_by_address})


class Users:
    """A broker, and connections of alice and of a program on its machine to each listener."""

    def __init__(self, directory: Path, settings: Mapping[str, str]) -> None:
        self.broker = broker_with(directory, settings)
        self._clients: list[RawClient] = []
        try:
            self.broker.startup()
            self.local = self.connect("PLAINTEXT", "127.0.0.1")
            self.local.create_topic("orders")
            self.local.produce_values("orders", b"one")
        except BaseException:
            self.close()
            raise

    def connect(self, listener: str, address: str) -> RawClient:
        (bound,) = (each for each in self.broker.bound_endpoints if each.listener_name == listener)
        server: Any = SimpleNamespace(host=bound.host, port=bound.port)
        self._clients.append(RawClient(server, own_address=address))
        return self._clients[-1]

    def close(self) -> None:
        for client in self._clients:
            client.close()
        self.broker.shutdown()


@pytest.fixture(
    scope="module",
    params=[{}, CONTROL_PLANE, {"authorizer.class.name": AUTHORIZER, "allow.everyone.if.no.acl.found": "true"}],
    ids=["one listener", "control plane", "everyone is allowed"],
)
def users(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Users]:
    all_users = Users(tmp_path_factory.mktemp("users"), request.param)
    yield all_users
    all_users.close()


LEADER_AND_ISR = LeaderAndIsrRequest.LeaderAndIsrTopicState
STOPPED = StopReplicaRequest.StopReplicaPartitionState(partition_index=0, leader_epoch=-2, delete_partition=True)
ORDERS = (
    (
        StopReplicaRequest(
            controller_id=0,
            controller_epoch=9,
            broker_epoch=-1,
            topic_states=[StopReplicaRequest.StopReplicaTopicState("orders", [STOPPED])],
        ),
        3,
        StopReplicaResponse,
    ),
    (
        LeaderAndIsrRequest(
            controller_id=0,
            controller_epoch=9,
            broker_epoch=-1,
            topic_states=[
                LEADER_AND_ISR(
                    topic_name="orders",
                    topic_id=b"x" * 16,
                    partition_states=[
                        LeaderAndIsrRequest.LeaderAndIsrPartitionState(
                            partition_index=0, controller_epoch=9, leader=7, leader_epoch=9, isr=[7], replicas=[0, 7]
                        )
                    ],
                )
            ],
        ),
        5,
        LeaderAndIsrResponse,
    ),
    (UpdateMetadataRequest(controller_id=0, controller_epoch=9, broker_epoch=-1), 7, UpdateMetadataResponse),
)
"""Orders of a controller."""
FETCHED = FetchRequest.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
TRANSACTION = AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction("t", 1, 0)
BETWEEN_BROKERS = (
    (ControlledShutdownRequest(0, -1), 3, ControlledShutdownResponse),
    (AlterPartitionRequest(0, -1), 3, AlterPartitionResponse),
    (AllocateProducerIdsRequest(0, -1), 0, AllocateProducerIdsResponse),
    (FetchRequest(replica_id=0, topics=[FetchRequest.FetchTopic("orders", partitions=[FETCHED])]), 12, FetchResponse),
    (AddPartitionsToTxnRequest(transactions=[TRANSACTION]), 4, AddPartitionsToTxnResponse),
)
"""Requests of brokers, of which an answer has one error."""


@pytest.mark.parametrize(("body", "version", "answer"), ORDERS, ids=lambda each: type(each).__name__)
def test_a_user_is_no_controller(users: Users, body: Message, version: int, answer: type[Any]) -> None:
    has_control_plane = len(users.broker.bound_endpoints) > 1
    for listener in ("PLAINTEXT", "CONTROL") if has_control_plane else ("PLAINTEXT",):
        alice = users.connect(listener, ALICES_ADDRESS)
        assert alice.call(body, version, answer).error_code == REFUSED
    # The data are as they were, and the broker is their leader still.
    assert users.local.produce_values("orders", b"two") > 0


@pytest.mark.parametrize(("body", "version", "answer"), BETWEEN_BROKERS, ids=lambda each: type(each).__name__)
def test_a_user_is_no_broker(users: Users, body: Message, version: int, answer: type[Any]) -> None:
    alice = users.connect("PLAINTEXT", ALICES_ADDRESS)
    response = alice.call(body, version, answer)
    if isinstance(response, FetchResponse):
        (topic,) = response.responses
        (partition,) = topic.partitions
        assert (partition.error_code, partition.records or b"") == (REFUSED, b"")
    else:
        assert response.error_code == REFUSED
    # Every client of this machine without a principal is as good as a broker, and gets an answer of the part behind.
    same = users.local.call(body, version, answer)
    assert getattr(same, "error_code", 0) != REFUSED


def test_a_user_ends_no_transaction_of_others(users: Users) -> None:
    topic = WriteTxnMarkersRequest.WritableTxnMarkerTopic("orders", [0])
    marker = WriteTxnMarkersRequest.WritableTxnMarker(1, 0, True, [topic], 0)
    alice = users.connect("PLAINTEXT", ALICES_ADDRESS)
    answer = alice.call(WriteTxnMarkersRequest([marker]), 1, WriteTxnMarkersResponse)
    errors = [each.error_code for of in answer.markers[0].topics for each in of.partitions]
    assert errors == [REFUSED]


def test_a_user_reads_as_a_consumer(users: Users) -> None:
    alice = users.connect("PLAINTEXT", ALICES_ADDRESS)
    assert alice.fetch("orders", 0).error_code == ErrorCode.NONE


@pytest.mark.parametrize("super_users", ["", "User:admin"])
def test_a_broker_that_may_not_act_for_the_cluster_does_not_start(tmp_path: Path, super_users: str) -> None:
    broker = broker_with(tmp_path, {"authorizer.class.name": AUTHORIZER, "super.users": super_users})
    try:
        with pytest.raises(ConfigError) as caught:
            broker.startup()
    finally:
        broker.shutdown()
    text = caught.value.message
    assert "The controller reaches this broker as User:ANONYMOUS by listener PLAINTEXT" in text
    assert "not authorized" in text
    assert "super.users" in text
