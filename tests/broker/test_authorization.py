"""Who may do what, over real sockets: an authorizer is asked with the principal of the connection, and obeyed.

In this process, because there is neither SASL nor an authorizer of ours yet: both are injected. Who comes from one
address is Alice, from another a stranger; brokers, the controller and the test itself come as ANONYMOUS, who may do
everything.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.api.authorize import NOT_REQUESTED, Authorizer
from barnabas.api.request import ConnectionContext
from barnabas.broker.broker_server import BrokerServer
from barnabas.config.kafka_config import KafkaConfig
from barnabas.config.server_defaults import SERVER_DEFAULTS
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.classic_groups import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from barnabas.protocol.messages.consumer_groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from barnabas.protocol.messages.group_admin import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from barnabas.protocol.messages.produce import ProduceResponse
from barnabas.protocol.messages.transactions import InitProducerIdRequest, InitProducerIdResponse
from barnabas.security.acl.acl_codes import AclOperation, Action, ResourceType
from barnabas.transport.channel.authenticator import ANONYMOUS, Authenticator, PlaintextAuthenticator, plaintext_channel
from barnabas.transport.channel.transport_layer import TransportLayer
from tests.fuzz.real_requests import TARGET, RealRequests
from tests.support.raw_client import RawClient, make_batch
from tests.support.raw_group_member import await_coordinator

ALICE, STRANGER = "User:alice", "User:stranger"
ADDRESSES = {ALICE: "127.0.0.2", STRANGER: "127.0.0.3"}
OPEN_TO_ALL = {
    ApiKey.API_VERSIONS,
    ApiKey.DESCRIBE_CLUSTER,
    ApiKey.UNREGISTER_BROKER,  # refused, whoever asks
    ApiKey.SASL_HANDSHAKE,  # before anybody is known
    ApiKey.SASL_AUTHENTICATE,
    ApiKey.CREATE_DELEGATION_TOKEN,  # refused in plaintext, whoever asks
    ApiKey.RENEW_DELEGATION_TOKEN,  # the HMAC is the permission
    ApiKey.EXPIRE_DELEGATION_TOKEN,
    ApiKey.DESCRIBE_DELEGATION_TOKEN,  # asked for each token of somebody else
    ApiKey.LIST_TRANSACTIONS,  # asked for each transaction, and there is none
}
"""The APIs, of those that ApiVersions lists, that Kafka asks no permission for."""
MINE, THEIRS, UNKNOWN = "alices", "bobs", "nobodys"
REFUSED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
GROUP_REFUSED = ErrorCode.GROUP_AUTHORIZATION_FAILED


class OneTopicForAlice(Authorizer):
    """Alice may read, write and describe one topic, and one group, of the same name; a stranger nothing; ANONYMOUS may
    do everything."""

    ALLOWED = (AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE)
    TYPES = (ResourceType.TOPIC, ResourceType.GROUP)

    def __init__(self) -> None:
        self.asked_about_strangers: list[Action] = []

    def authorize(self, connection: ConnectionContext, actions: Sequence[Action], api_key: ApiKey) -> Sequence[bool]:
        if connection.principal == ANONYMOUS:
            return [True] * len(actions)
        if connection.principal == STRANGER:
            self.asked_about_strangers += actions
            return [False] * len(actions)
        assert connection.principal == ALICE
        return [
            each.resource_type in self.TYPES and each.resource_name == MINE and each.operation in self.ALLOWED
            for each in actions
        ]

    def authorize_by_resource_type(
        self, connection: ConnectionContext, operation: AclOperation, resource_type: ResourceType, api_key: ApiKey
    ) -> bool:
        if connection.principal == ALICE:
            return resource_type is ResourceType.TOPIC and operation in self.ALLOWED
        return connection.principal == ANONYMOUS


def channel_of_somebody(stream_socket: Any) -> tuple[TransportLayer, Authenticator]:
    """A ChannelBuilder that knows people by their addresses."""
    transport, _ = plaintext_channel(stream_socket)
    authenticator = PlaintextAuthenticator()
    address = stream_socket.getpeername()[0]
    authenticator.principal = next((who for who, place in ADDRESSES.items() if place == address), ANONYMOUS)
    return transport, authenticator


class Sides:
    """A connection of each side, to a broker with two topics."""

    def __init__(self, broker: BrokerServer, authorizer: OneTopicForAlice) -> None:
        self.authorizer = authorizer
        (bound,) = broker.bound_endpoints
        server: Any = SimpleNamespace(host=bound.host, port=bound.port)
        self._server = server
        self.admin = RawClient(server)
        for name in (MINE, THEIRS):
            self.admin.create_topic(name)
        self.alice = self.connect(ALICE)

    def connect(self, principal: str) -> RawClient:
        return RawClient(self._server, own_address=ADDRESSES[principal])

    def close(self) -> None:
        self.alice.close()
        self.admin.close()


@pytest.fixture(params=["inline", "queue"])
def sides(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Sides]:
    settings = SERVER_DEFAULTS | {
        "log.dirs": str(tmp_path),
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "inline.requests.enable": str(request.param == "inline").lower(),
    }
    authorizer = OneTopicForAlice()
    broker = BrokerServer(
        KafkaConfig.parse(settings, "the test"),
        authorizer=authorizer,
        channel_builders={"PLAINTEXT": channel_of_somebody},
    )
    try:
        broker.startup()
        both = Sides(broker, authorizer)
        yield both
        both.close()
    finally:
        broker.shutdown()


def test_records(sides: Sides) -> None:
    alice, admin = sides.alice, sides.admin

    def produce(name: str) -> int:
        request = alice.produce_request(name, make_batch([b"v"]), 9, acks=-1)
        answer = alice.call(request, 9, ProduceResponse)
        return answer.responses[0].partition_responses[0].error_code

    assert [produce(name) for name in (MINE, THEIRS, UNKNOWN)] == [ErrorCode.NONE, REFUSED, REFUSED]
    assert (admin.end_offset(MINE), admin.end_offset(THEIRS)) == (1, 0)
    admin.produce_values(THEIRS, b"secret")
    assert [alice.fetch(name, 0).error_code for name in (MINE, THEIRS, UNKNOWN)] == [ErrorCode.NONE, REFUSED, REFUSED]
    assert alice.fetch(MINE, 0).records
    assert not alice.fetch(THEIRS, 0).records
    assert admin.fetch(THEIRS, 0).records


def test_a_producer_that_waits_for_no_answer(sides: Sides) -> None:
    with sides.connect(ALICE) as careless:
        careless.send(careless.produce_request(THEIRS, make_batch([b"v"]), 9, acks=0), 9)
        assert careless.is_closed_by_broker()
    assert sides.admin.end_offset(THEIRS) == 0


def test_names(sides: Sides) -> None:
    def all_topics(client: RawClient) -> set[str | None]:
        return {topic.name for topic in client.call(MetadataRequest(None), 12, MetadataResponse).topics}

    assert all_topics(sides.admin) == {MINE, THEIRS}
    assert all_topics(sides.alice) == {MINE}, "the answer that was made for somebody else is not hers"
    assert all_topics(sides.admin) == {MINE, THEIRS}
    asked = [sides.alice.metadata(name, create=True) for name in (MINE, THEIRS, UNKNOWN)]
    assert [topic.error_code for topic in asked] == [ErrorCode.NONE, REFUSED, REFUSED]
    assert all_topics(sides.admin) == {MINE, THEIRS}, "nothing was created on the way"


def test_producer_ids(sides: Sides) -> None:
    def code(client: RawClient, transactional_id: str | None) -> int:
        return client.call(InitProducerIdRequest(transactional_id, 60_000), 4, InitProducerIdResponse).error_code

    assert code(sides.alice, None) == ErrorCode.NONE, "who may write to some topic may do so idempotently"
    assert code(sides.alice, "t") == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_joining_groups(sides: Sides) -> None:
    alice = sides.alice
    await_coordinator(sides.admin, MINE)

    def codes(group: str) -> list[int]:
        protocols = [JoinGroupRequest.JoinGroupRequestProtocol("range", b"")]
        leaving = [LeaveGroupRequest.MemberIdentity("m")]
        heartbeat = ConsumerGroupHeartbeatRequest(
            group, "m", 0, rebalance_timeout_ms=1000, subscribed_topic_names=[MINE], topic_partitions=[]
        )
        return [
            alice.call(
                JoinGroupRequest(group, 6000, 6000, "", None, "consumer", protocols), 4, JoinGroupResponse
            ).error_code,
            alice.call(SyncGroupRequest(group, 1, "m"), 3, SyncGroupResponse).error_code,
            alice.call(HeartbeatRequest(group, 1, "m"), 3, HeartbeatResponse).error_code,
            alice.call(LeaveGroupRequest(group, members=leaving), 3, LeaveGroupResponse).error_code,
            alice.call(heartbeat, 0, ConsumerGroupHeartbeatResponse).error_code,
        ]

    assert codes(THEIRS) == [GROUP_REFUSED] * 5
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    assert codes(MINE) == [ErrorCode.MEMBER_ID_REQUIRED, unknown, unknown, ErrorCode.NONE, ErrorCode.NONE]
    listed = sides.admin.call(ListGroupsRequest(), 4, ListGroupsResponse).groups
    assert [group.group_id for group in listed] == [MINE]


def test_topics_of_consumer_groups(sides: Sides) -> None:
    """A name that may not be described is an error; an expression just does not match it."""
    alice = sides.alice
    await_coordinator(sides.admin, MINE)

    def heartbeat(epoch: int, names: list[str] | None = None, regex: str | None = None) -> Any:
        request = ConsumerGroupHeartbeatRequest(
            MINE,
            "m",
            epoch,
            rebalance_timeout_ms=1000 if epoch == 0 else -1,
            subscribed_topic_names=names,
            subscribed_topic_regex=regex,
            topic_partitions=[] if epoch == 0 else None,
        )
        return alice.call(request, 1, ConsumerGroupHeartbeatResponse)

    assert heartbeat(0, [MINE, THEIRS]).error_code == REFUSED
    answer = heartbeat(0, [], ".*")
    assigned: list[bytes] = []
    deadline = time.monotonic() + 30
    while not assigned:
        assert time.monotonic() < deadline
        assert answer.error_code == ErrorCode.NONE, answer
        answer = heartbeat(answer.member_epoch)
        assigned = [] if answer.assignment is None else [each.topic_id for each in answer.assignment.topic_partitions]
    assert assigned == [sides.admin.topic_id(MINE)]

    def described(client: RawClient) -> tuple[int, int]:
        (group,) = client.call(ConsumerGroupDescribeRequest([MINE]), 1, ConsumerGroupDescribeResponse).groups
        return group.error_code, len(group.members)

    assert described(alice) == (ErrorCode.NONE, 1)
    heartbeat(-1)
    mixed = ConsumerGroupHeartbeatRequest(
        MINE, "n", 0, rebalance_timeout_ms=1000, subscribed_topic_names=[MINE, THEIRS], topic_partitions=[]
    )
    assert sides.admin.call(mixed, 1, ConsumerGroupHeartbeatResponse).error_code == ErrorCode.NONE
    assert described(sides.admin) == (ErrorCode.NONE, 1)
    assert described(alice) == (REFUSED, 0), "somebody reads a topic of which she must not know"


def test_committed_offsets(sides: Sides) -> None:
    alice, admin = sides.alice, sides.admin
    await_coordinator(admin, MINE)

    def commit(client: RawClient, group: str) -> dict[str, int]:
        topics = [
            OffsetCommitRequest.OffsetCommitRequestTopic(
                name, partitions=[OffsetCommitRequest.OffsetCommitRequestPartition(0, 7, committed_metadata="")]
            )
            for name in (MINE, THEIRS, UNKNOWN)
        ]
        answer = client.call(OffsetCommitRequest(group, topics=topics), 9, OffsetCommitResponse)
        return {each.name: each.partitions[0].error_code for each in answer.topics}

    assert commit(alice, THEIRS) == dict.fromkeys((MINE, THEIRS, UNKNOWN), GROUP_REFUSED)
    assert commit(alice, MINE) == {MINE: ErrorCode.NONE, THEIRS: REFUSED, UNKNOWN: REFUSED}
    assert set(commit(admin, MINE).values()) == {ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    commit(admin, THEIRS)

    def fetch(group: str, topics: list[str] | None) -> tuple[int, dict[str, tuple[int, int]]]:
        asked = None
        if topics is not None:
            asked = [OffsetFetchRequest.OffsetFetchRequestTopics(name, partition_indexes=[0]) for name in topics]
        wanted = OffsetFetchRequest.OffsetFetchRequestGroup(group, topics=asked)
        (answer,) = alice.call(OffsetFetchRequest(groups=[wanted]), 8, OffsetFetchResponse).groups
        found = {each.name: each.partitions[0] for each in answer.topics}
        return answer.error_code, {name: (each.error_code, each.committed_offset) for name, each in found.items()}

    assert fetch(THEIRS, None)[0] == GROUP_REFUSED
    assert fetch(MINE, None) == (ErrorCode.NONE, {MINE: (ErrorCode.NONE, 7)})
    refused = (REFUSED, -1)
    assert fetch(MINE, [MINE, THEIRS]) == (ErrorCode.NONE, {MINE: (ErrorCode.NONE, 7), THEIRS: refused})

    def delete(group: str) -> tuple[int, dict[str, int]]:
        partitions = [OffsetDeleteRequest.OffsetDeleteRequestPartition(0)]
        topics = [OffsetDeleteRequest.OffsetDeleteRequestTopic(name, partitions) for name in (MINE, THEIRS)]
        answer = alice.call(OffsetDeleteRequest(group, topics), 0, OffsetDeleteResponse)
        return answer.error_code, {each.name: each.partitions[0].error_code for each in answer.topics}

    assert delete(MINE) == (GROUP_REFUSED, {}), "to read and to describe is not to delete"
    assert fetch(MINE, None) == (ErrorCode.NONE, {MINE: (ErrorCode.NONE, 7)})


def test_administration_of_groups(sides: Sides) -> None:
    alice, admin = sides.alice, sides.admin
    await_coordinator(admin, MINE)
    for group in (MINE, THEIRS):
        partitions = [OffsetCommitRequest.OffsetCommitRequestPartition(0, 7, committed_metadata="")]
        topics = [OffsetCommitRequest.OffsetCommitRequestTopic(MINE, partitions=partitions)]
        admin.call(OffsetCommitRequest(group, topics=topics), 9, OffsetCommitResponse)

    def listed(client: RawClient) -> set[str]:
        return {each.group_id for each in client.call(ListGroupsRequest(), 4, ListGroupsResponse).groups}

    assert (listed(alice), listed(admin)) == ({MINE}, {MINE, THEIRS})
    described = alice.call(DescribeGroupsRequest([MINE, THEIRS], True), 5, DescribeGroupsResponse).groups
    operations = sum(1 << operation for operation in (AclOperation.READ, AclOperation.DESCRIBE))
    assert {each.group_id: (each.error_code, each.group_state, each.authorized_operations) for each in described} == {
        MINE: (ErrorCode.NONE, "Empty", operations),
        THEIRS: (GROUP_REFUSED, "", NOT_REQUESTED),
    }
    deleted = alice.call(DeleteGroupsRequest([MINE, THEIRS, MINE]), 2, DeleteGroupsResponse).results
    assert {each.group_id: each.error_code for each in deleted} == {MINE: GROUP_REFUSED, THEIRS: GROUP_REFUSED}
    with sides.connect(STRANGER) as stranger:
        assert listed(stranger) == set()
        described = stranger.call(DescribeGroupsRequest([MINE, UNKNOWN]), 5, DescribeGroupsResponse).groups
        assert {each.error_code for each in described} == {GROUP_REFUSED}, "nor is he told which groups there are"
        coordinators = stranger.call(
            FindCoordinatorRequest(coordinator_keys=[MINE]), 4, FindCoordinatorResponse
        ).coordinators
        assert [each.error_code for each in coordinators] == [GROUP_REFUSED]
    assert listed(admin) == {MINE, THEIRS}


def test_every_request_is_authorized_before_anything_happens(sides: Sides) -> None:
    admin, asked = sides.admin, sides.authorizer.asked_about_strangers
    admin.create_topic(TARGET)
    admin.produce_values(TARGET, b"v")
    before = admin.call(MetadataRequest(None), 12, MetadataResponse)
    requests = RealRequests(random.Random(1), admin.topic_id(TARGET))
    unasked = set()
    for key, (lowest, highest) in admin.supported_versions().items():
        api_key = ApiKey(key)
        for version in range(lowest, highest + 1):
            request: Any = requests.make(api_key, version)
            if api_key is ApiKey.PRODUCE:
                request.acks = 1
            asked.clear()
            with sides.connect(STRANGER) as stranger:
                stranger.send(request, version)
                stranger.receive_frame()
            if not asked:
                unasked.add(api_key)
    assert unasked == OPEN_TO_ALL
    assert admin.call(MetadataRequest(None), 12, MetadataResponse) == before
    assert admin.end_offset(TARGET) == 1
