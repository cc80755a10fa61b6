"""Access control lists over real sockets: made, shown and removed by requests, and obeyed at once.

The broker runs in this process, since the client's address names its principal: those of the brokers, the controller
and the operator come from 127.0.0.1 as ANONYMOUS, a super user; alice comes from another address of this machine.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.broker.broker_server import BrokerServer
from barnabas.config.config_error import ConfigError
from barnabas.config.kafka_config import KafkaConfig
from barnabas.config.server_defaults import SERVER_DEFAULTS
from barnabas.metadata.acl_admin import AclAdmin
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.acls import (
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
)
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.protocol.messages.produce import ProduceResponse
from barnabas.protocol.messages.transactions import InitProducerIdRequest, InitProducerIdResponse
from barnabas.runtime.clock import SystemClock
from barnabas.security.acl.acl_codes import AclOperation, AclPermissionType, PatternType, ResourceType
from barnabas.testing.znode_server import ZnodeServer
from barnabas.transport.channel.authenticator import ANONYMOUS
from barnabas.zk.kafka_zk_client import KafkaZkClient
from barnabas.zk.zookeeper.zookeeper_config import ZookeeperConfig
from barnabas.zk.zookeeper.zookeeper_store import ZookeeperStore
from tests.broker.versions import each_version
from tests.support.barnabas_process import BarnabasProcess
from tests.support.listener_servers import ALICE, ALICES_ADDRESS, channel_by_address
from tests.support.raw_client import RawClient, make_batch
from tests.support.server_process import ServerFailed, free_port

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
LITERAL, PREFIXED, MATCH = PatternType.LITERAL, PatternType.PREFIXED, PatternType.MATCH
READ, WRITE, DESCRIBE, ANY = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.ANY
ALLOW, DENY = AclPermissionType.ALLOW, AclPermissionType.DENY
REFUSED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
PROTOCOLS = "PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT"
AUTHORIZER = "kafka.security.authorizer.AclAuthorizer"


def properties(directory: Path, settings: Mapping[str, str]) -> dict[str, str]:
    return {
        **SERVER_DEFAULTS,
        "log.dirs": str(directory),
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "authorizer.class.name": AUTHORIZER,
        "super.users": f"User:admin;{ANONYMOUS}",
        **settings,
    }


class Sides:
    """An operator and alice, each with a connection."""

    def __init__(self, directory: Path, **settings: str) -> None:
        config = KafkaConfig.parse(properties(directory, settings), "the test")
        self.broker = BrokerServer(config, channel_builders={"PLAINTEXT": channel_by_address})
        self._clients: list[RawClient] = []
        try:
            self.broker.startup()
            (bound,) = self.broker.bound_endpoints
            self._server: Any = SimpleNamespace(host=bound.host, port=bound.port)
            self.admin, self.alice = self.connect("127.0.0.1"), self.connect(ALICES_ADDRESS)
        except BaseException:
            self.close()
            raise

    def connect(self, address: str) -> RawClient:
        self._clients.append(RawClient(self._server, own_address=address))
        return self._clients[-1]

    def close(self) -> None:
        for client in self._clients:
            client.close()
        self.broker.shutdown()

    def create(self, *acls: CreateAclsRequest.AclCreation, version: int = 3) -> list[tuple[int, str | None]]:
        answer = self.admin.call(CreateAclsRequest(list(acls)), version, CreateAclsResponse)
        return [(each.error_code, each.error_message) for each in answer.results]

    def produce(self, topic: str) -> int:
        request = self.alice.produce_request(topic, make_batch([b"v"]), 9, acks=-1)
        return self.alice.call(request, 9, ProduceResponse).responses[0].partition_responses[0].error_code


def acl(
    name: str,
    operation: AclOperation = WRITE,
    kind: ResourceType = TOPIC,
    how: PatternType = LITERAL,
    permission: AclPermissionType = ALLOW,
    principal: str = ALICE,
    host: str = "*",
) -> CreateAclsRequest.AclCreation:
    return CreateAclsRequest.AclCreation(kind, name, how, principal, host, operation, permission)


NO_ERROR = (ErrorCode.NONE, None)


@pytest.fixture
def sides(tmp_path: Path) -> Iterator[Sides]:
    both = Sides(tmp_path)
    yield both
    both.close()


def test_an_entry_acts_at_once_and_until_it_is_removed(sides: Sides) -> None:
    sides.admin.create_topic("orders-1")
    assert sides.produce("orders-1") == REFUSED
    assert sides.alice.fetch("orders-1", 0).error_code == REFUSED
    assert sides.create(acl("orders-", how=PREFIXED)) == [NO_ERROR]
    assert sides.produce("orders-1") == ErrorCode.NONE
    assert sides.alice.fetch("orders-1", 0).error_code == REFUSED
    here = acl("orders-1", permission=DENY, host=ALICES_ADDRESS)
    elsewhere = acl("orders-1", permission=DENY, host="127.0.0.3")
    assert sides.create(elsewhere) == [NO_ERROR]
    assert sides.produce("orders-1") == ErrorCode.NONE
    assert sides.create(here) == [NO_ERROR]
    assert sides.produce("orders-1") == REFUSED
    names = {each.name for each in sides.alice.call(MetadataRequest(None), 12, MetadataResponse).topics}
    assert names == {"orders-1"}, "who may write may describe, and a denied write denies no description"
    selection = DeleteAclsRequest.DeleteAclsFilter(TOPIC, "orders-1", LITERAL, None, None, ANY, DENY)
    sides.admin.call(DeleteAclsRequest([selection]), 3, DeleteAclsResponse)
    assert sides.produce("orders-1") == ErrorCode.NONE


def test_idempotence_needs_a_topic_to_write_to(sides: Sides) -> None:
    def code() -> int:
        return sides.alice.call(InitProducerIdRequest(None, 60_000), 4, InitProducerIdResponse).error_code

    assert code() == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    sides.create(acl("t"))
    assert code() == ErrorCode.NONE
    sides.create(acl("*", permission=DENY, principal="User:*"))
    assert code() == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_lists_outlive_the_broker(tmp_path: Path) -> None:
    first = Sides(tmp_path)
    try:
        first.admin.create_topic("t")
        first.create(acl("t"))
    finally:
        first.close()
    second = Sides(tmp_path)
    try:
        assert second.produce("t") == ErrorCode.NONE
    finally:
        second.close()


def test_no_end_point_is_open_before_the_lists_are_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ports = [free_port() for _ in range(2)]
    refused: list[int] = []
    start = AclAdmin.start

    def start_late(acls: AclAdmin) -> None:
        for port in ports:
            with suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
                continue
            refused.append(port)
        start(acls)

    monkeypatch.setattr(AclAdmin, "start", start_late)
    plaintext, other = (f"{name}://127.0.0.1:{port}" for name, port in zip(("PLAINTEXT", "OTHER"), ports, strict=True))
    settings = {"listeners": f"{plaintext},{other}", "listener.security.protocol.map": PROTOCOLS}
    broker = BrokerServer(KafkaConfig.parse(properties(tmp_path, settings), "the test"))
    broker.startup()
    try:
        assert refused == ports
        for port in ports:
            socket.create_connection(("127.0.0.1", port)).close()
    finally:
        broker.shutdown()


def test_a_list_that_cannot_be_understood_stops_the_start(tmp_path: Path) -> None:
    store = ZnodeServer()
    config = ZookeeperConfig(store.address, session_timeout_ms=60_000, connection_timeout_ms=60_000, max_in_flight=10)
    session = ZookeeperStore(config)
    try:
        session.start()
        KafkaZkClient(session, SystemClock()).access.create_recursive("/kafka-acl/Topic/t", b'{"acls":[],"version":2}')
        broker = BarnabasProcess(tmp_path, {"zookeeper.connect": store.address, "authorizer.class.name": AUTHORIZER})
        with pytest.raises(ServerFailed):
            broker.start()
        log = broker.log_text()
        assert "the broker cannot start: /kafka-acl/Topic/t: Unsupported access control list: b'{" in log
        assert "Traceback" not in log
    finally:
        session.close()
        store.close()


def test_everyone_may_what_no_list_is_about_if_the_settings_say_so(tmp_path: Path) -> None:
    sides = Sides(tmp_path, **{"allow.everyone.if.no.acl.found": "true"})
    try:
        sides.admin.create_topic("t")
        assert sides.produce("t") == ErrorCode.NONE
        sides.create(acl("t", READ, principal="User:bob"))
        assert sides.produce("t") == REFUSED
    finally:
        sides.close()


@pytest.mark.parametrize(("name", "value"), [("super.users", "admin"), ("allow.everyone.if.no.acl.found", "perhaps")])
def test_wrong_settings_stop_the_start(tmp_path: Path, name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=name):
        Sides(tmp_path, **{name: value})


@each_version(ApiKey.CREATE_ACLS)
def test_creations_fail_one_by_one(sides: Sides, version: int) -> None:
    results = sides.create(
        acl("fine"), acl(""), acl("a/b"), acl("cluster", DESCRIBE, CLUSTER), acl("untyped", principal="alice"),
        version=version,
    )  # fmt: skip
    invalid = ErrorCode.INVALID_REQUEST
    assert results == [
        NO_ERROR,
        (invalid, "Invalid empty resource name"),
        (invalid, "Failed to create ACL"),
        (invalid, "The only valid name for the CLUSTER resource is kafka-cluster"),
        (ErrorCode.UNKNOWN_SERVER_ERROR, None),
    ]
    described = sides.admin.call(
        DescribeAclsRequest(TOPIC, None, LITERAL, None, None, ANY, ANY), 3, DescribeAclsResponse
    )
    assert [each.resource_name for each in described.resources] == ["fine"]


@each_version(ApiKey.CREATE_ACLS)
def test_codes_for_filters_fail_a_request_and_unknown_ones_end_its_connection(sides: Sides, version: int) -> None:
    any_type = acl("t", kind=ResourceType.ANY)
    assert sides.create(acl("t"), any_type, version=version) == [(ErrorCode.UNKNOWN_SERVER_ERROR, None)] * 2
    sides.admin.send(CreateAclsRequest([acl("t", AclOperation.UNKNOWN)]), version)
    assert sides.admin.is_closed_by_broker()


@each_version(ApiKey.DESCRIBE_ACLS)
def test_describing(sides: Sides, version: int) -> None:
    sides.create(acl("orders"), acl("orders", READ), acl("ord", how=PREFIXED), acl("*"), acl("orders", kind=GROUP))

    def described(name: str | None, how: PatternType) -> list[tuple[str, int, list[int]]]:
        request = DescribeAclsRequest(TOPIC, name, LITERAL if version == 0 else how, None, None, ANY, ANY)
        answer = sides.admin.call(request, version, DescribeAclsResponse)
        assert (answer.error_code, answer.error_message) == NO_ERROR
        return [
            (each.resource_name, each.pattern_type, [entry.operation for entry in each.acls])
            for each in answer.resources
        ]

    orders = ("orders", LITERAL, [READ, WRITE])
    assert described("orders", LITERAL) == [orders]
    everything = [("*", LITERAL, [WRITE]), ("ord", PREFIXED, [WRITE]), orders]
    assert described("orders", MATCH) == ([orders] if version == 0 else everything)
    assert described(None, PatternType.ANY) == ([everything[0], orders] if version == 0 else everything)


@each_version(ApiKey.DELETE_ACLS)
def test_deleting(sides: Sides, version: int) -> None:
    sides.create(acl("t"), acl("u"), acl("t", how=PREFIXED))
    filters = [
        DeleteAclsRequest.DeleteAclsFilter(TOPIC, name, LITERAL, None, None, ANY, ANY) for name in ("t", "none", "t")
    ]
    answer = sides.admin.call(DeleteAclsRequest(filters), version, DeleteAclsResponse)
    results = [(each.error_code, each.error_message, each.matching_acls) for each in answer.filter_results]
    gone = DeleteAclsResponse.DeleteAclsMatchingAcl(0, None, TOPIC, "t", LITERAL, ALICE, "*", WRITE, ALLOW)
    assert results == [(0, None, [gone]), (0, None, []), (0, None, [])]
    described = sides.admin.call(
        DescribeAclsRequest(TOPIC, None, PatternType.ANY, None, None, ANY, ANY), 3, DescribeAclsResponse
    )
    assert [(each.resource_name, each.pattern_type) for each in described.resources] == [
        ("t", PREFIXED),
        ("u", LITERAL),
    ]


def test_alice_may_neither_see_nor_change_lists(sides: Sides) -> None:
    sides.create(acl("t"))
    refused = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    alice = sides.alice
    describe = DescribeAclsRequest(TOPIC, None, LITERAL, None, None, ANY, ANY)
    answer = alice.call(describe, 3, DescribeAclsResponse)
    assert (answer.error_code, answer.resources) == (refused, [])
    created = alice.call(CreateAclsRequest([acl("u")]), 3, CreateAclsResponse)
    assert [each.error_code for each in created.results] == [refused]
    selection = DeleteAclsRequest.DeleteAclsFilter(TOPIC, None, LITERAL, None, None, ANY, ANY)
    deleted = alice.call(DeleteAclsRequest([selection]), 3, DeleteAclsResponse)
    assert [(each.error_code, each.matching_acls) for each in deleted.filter_results] == [(refused, [])]
    sides.create(acl("kafka-cluster", DESCRIBE, CLUSTER))
    assert alice.call(describe, 3, DescribeAclsResponse).resources
    assert alice.call(CreateAclsRequest([acl("u")]), 3, CreateAclsResponse).results[0].error_code == refused
