"""What clients may do: the same requests, with the same access control lists, to ours and to Apache Kafka 3.9.

Every API and version that both serve is asked by alice, once for each of PROFILES: no right at all, each right alone,
rights together, a denied right. Both must refuse the same, by the same error codes of permissions, and tell the same
authorized operations. Other errors are not compared (other tests do): whether a group is loaded is no permission.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.message_index import response_class
from barnabas.protocol.message_struct import Struct
from barnabas.protocol.messages.acls import (
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from barnabas.security.acl.acl_codes import AclOperation, AclPermissionType, PatternType, ResourceType
from tests.fuzz.real_requests import TARGET, RealRequests
from tests.support.apache_kafka import ApacheKafka, need_apache_kafka
from tests.support.barnabas_process import BarnabasProcess
from tests.support.raw_client import ConnectionClosed, RawClient
from tests.support.raw_group_member import await_coordinator
from tests.support.sasl_exchange import SaslRawClient
from tests.support.server_process import ServerProcess, free_port

pytestmark = [pytest.mark.slow, pytest.mark.java, pytest.mark.timeout(1800)]

PASSWORD: Final = "alice-knows-this"
AUTHORIZATION: Final = {
    "super.users": "User:ANONYMOUS",
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
        f'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="{PASSWORD}";'
    ),
}
REFUSALS: Final = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}
LEFT_OUT: Final = {
    ApiKey.SASL_HANDSHAKE,
    ApiKey.SASL_AUTHENTICATE,
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
    ApiKey.CONSUMER_GROUP_DESCRIBE,
}
"""The first two are about the connection, which is authenticated already. The last two are UNSUPPORTED_VERSION in a
Kafka with ZooKeeper, whoever asks."""

READ, WRITE, DESCRIBE, ALL = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.ALL


class Right(NamedTuple):
    """One entry for alice; the names are those of RealRequests."""

    kind: ResourceType
    operation: AclOperation
    permission: AclPermissionType = AclPermissionType.ALLOW
    name: str = "*"

    def creation(self) -> CreateAclsRequest.AclCreation:
        name = "kafka-cluster" if self.kind is ResourceType.CLUSTER else self.name
        return CreateAclsRequest.AclCreation(
            self.kind, name, PatternType.LITERAL, "User:alice", "*", self.operation, self.permission
        )


_SUPPORTED: Final = {
    ResourceType.TOPIC: "READ WRITE CREATE DELETE ALTER DESCRIBE DESCRIBE_CONFIGS ALTER_CONFIGS ALL",
    ResourceType.GROUP: "READ DELETE DESCRIBE ALL",
    ResourceType.CLUSTER: "CREATE ALTER DESCRIBE DESCRIBE_CONFIGS ALTER_CONFIGS IDEMPOTENT_WRITE",
    ResourceType.TRANSACTIONAL_ID: "WRITE DESCRIBE ALL",
}
TOPIC, GROUP, TRANSACTION = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID
PROFILES: Final[Sequence[tuple[Right, ...]]] = (
    (),
    *((Right(kind, AclOperation[name]),) for kind, names in _SUPPORTED.items() for name in names.split()),
    (Right(TOPIC, READ, name=TARGET),),
    (Right(TOPIC, READ), Right(GROUP, READ)),
    (Right(TOPIC, WRITE), Right(TRANSACTION, WRITE), Right(GROUP, READ)),
    (Right(TOPIC, ALL), Right(GROUP, ALL), Right(TOPIC, DESCRIBE, AclPermissionType.DENY, TARGET)),
    (Right(TOPIC, ALL), Right(GROUP, ALL), Right(TOPIC, READ, AclPermissionType.DENY, TARGET)),
)


class Verdict(NamedTuple):
    """What an answer says of permissions: the refusals, by code, and the bit fields of authorized operations."""

    refusals: tuple[int, ...]
    operations: tuple[tuple[str, int], ...]


def walk(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Every field below a message that has no fields itself, with its name."""
    if isinstance(value, Struct):
        yield from chain.from_iterable(walk(getattr(value, each.name), each.name) for each in value.field_schemas())
    elif isinstance(value, list):
        yield from chain.from_iterable(walk(each, name) for each in value)
    else:
        yield name, value


def verdict_of(answer: Any) -> Verdict:
    fields = list(walk(answer))
    refusals = sorted(value for name, value in fields if name == "error_code" and value in REFUSALS)
    operations = sorted((name, value) for name, value in fields if name.endswith("authorized_operations"))
    return Verdict(tuple(refusals), tuple(operations))


class Side:
    """One of both brokers, with the topic and a group; alice's connection, and the operator's."""

    def __init__(self, server: ServerProcess, sasl_port: int) -> None:
        self._server, self._sasl = server, (server.host, sasl_port)
        self.admin = RawClient(server)
        self.admin.create_topic(TARGET)
        await_coordinator(self.admin, "group-0")
        self.topic_id = self.admin.topic_id(TARGET)
        self.alice = self._connect()

    def _connect(self) -> SaslRawClient:
        alice = SaslRawClient(self._server, address=self._sasl)
        assert alice.log_in("alice", PASSWORD).error_code == ErrorCode.NONE
        return alice

    def grant(self, rights: Sequence[Right]) -> None:
        everything = DeleteAclsRequest.DeleteAclsFilter(1, None, PatternType.ANY, "User:alice", None, 1, 1)
        self.admin.call(DeleteAclsRequest([everything]), 3, DeleteAclsResponse)
        answer = self.admin.call(CreateAclsRequest([each.creation() for each in rights]), 3, CreateAclsResponse)
        assert not any(each.error_code for each in answer.results)

    def ask(self, api_key: ApiKey, version: int, seed: str) -> Verdict | str:
        request: Any = RealRequests(random.Random(seed), self.topic_id).make(api_key, version)
        if api_key is ApiKey.PRODUCE:
            request.acks = 1
        try:
            return verdict_of(self.alice.call(request, version, response_class(api_key)))
        except (ConnectionClosed, ConnectionError):
            self.alice.close()
            self.alice = self._connect()
            return "closed"

    def close(self) -> None:
        self.alice.close()
        self.admin.close()


@pytest.fixture
def sides(tmp_path: Path) -> Iterator[tuple[Side, Side]]:
    need_apache_kafka()
    for name in ("ours", "theirs"):
        (tmp_path / name).mkdir()
    ours = BarnabasProcess(tmp_path / "ours", AUTHORIZATION)
    ours.more_listeners = ("SASL_PLAINTEXT://127.0.0.1:0",)
    theirs_port, sasl_port = free_port(), free_port()
    listeners = f"PLAINTEXT://127.0.0.1:{theirs_port},SASL_PLAINTEXT://127.0.0.1:{sasl_port}"
    theirs = ApacheKafka(tmp_path / "theirs", {**AUTHORIZATION, "listeners": listeners})
    theirs.port = theirs_port
    both: list[Side] = []
    try:
        theirs.start()
        both.append(Side(theirs, sasl_port))
        ours.start()
        both.append(Side(ours, ours.ports["SASL_PLAINTEXT"]))
        yield both[1], both[0]
    finally:
        for side in both:
            side.close()
        theirs.close()
        ours.close()


def common_versions(ours: Mapping[int, Any], theirs: Mapping[int, Any]) -> Iterator[tuple[ApiKey, int]]:
    for key in sorted(ours.keys() & theirs.keys()):
        lowest = max(ours[key][0], theirs[key][0])
        for version in range(lowest, min(ours[key][1], theirs[key][1]) + 1):
            if ApiKey(key) not in LEFT_OUT:
                yield ApiKey(key), version


def test_both_refuse_the_same(sides: tuple[Side, Side]) -> None:
    ours, theirs = sides
    cases = list(common_versions(ours.admin.supported_versions(), theirs.admin.supported_versions()))
    count, differences = 0, []
    for rights in PROFILES:
        for side in sides:
            side.grant(rights)
        for api_key, version in cases:
            seed = f"{api_key.name} {version}"
            verdicts = ours.ask(api_key, version, seed), theirs.ask(api_key, version, seed)
            count += 1
            if verdicts[0] != verdicts[1]:
                differences.append((api_key.name, version, rights, *verdicts))
    assert not differences, f"{len(differences)} of {count}: {differences[:20]}"
    assert count >= 2000
