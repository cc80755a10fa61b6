"""What clients may do, as requests by a user with few rights: the cases, the rights, and what an answer says of them.

`test_same_permissions` asks ours and Apache Kafka 3.9 at once, and ours alone about what Kafka answered when
`record_permissions` ran. A verdict holds the error codes of permissions, the bit fields of authorized operations, and
the topics, groups and transactions that an answer names. Other errors are not compared (other tests do): whether a
group is loaded is no permission.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final, NamedTuple

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
from barnabas.protocol.messages.group_admin import DescribeGroupsRequest, ListGroupsRequest
from barnabas.protocol.messages.list_offsets import ListOffsetsRequest
from barnabas.protocol.messages.log_dirs import DescribeLogDirsRequest
from barnabas.protocol.messages.message import Message
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.messages.offsets import OffsetCommitRequest, OffsetCommitResponse, OffsetFetchRequest
from barnabas.protocol.messages.produce import ProduceRequest
from barnabas.protocol.messages.transactions import (
    DescribeTransactionsRequest,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ListTransactionsRequest,
)
from barnabas.security.acl.acl_codes import AclOperation, AclPermissionType, PatternType, ResourceType
from tests.fuzz.real_requests import TARGET, RealRequests
from tests.support.raw_client import SECONDS, ConnectionClosed, RawClient
from tests.support.raw_group_member import await_coordinator
from tests.support.sasl_exchange import SaslRawClient
from tests.support.server_process import ServerProcess

PASSWORD: Final = "alice-knows-this"
SETTINGS: Final = {
    "super.users": "User:ANONYMOUS",
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "sasl.enabled.mechanisms": "PLAIN",
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.num.partitions": "5",
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

CLOSED: Final = "closed"
OTHER_TOPIC, GROUP_ID, OTHER_GROUP = "unseen", "seen-group", "unseen-group"
TRANSACTION_ID, OTHER_TRANSACTION = "seen-transaction", "unseen-transaction"
NAMES: Final = {TARGET, OTHER_TOPIC, GROUP_ID, OTHER_GROUP, TRANSACTION_ID, OTHER_TRANSACTION}
"""What there is on each side, besides what requests make."""

# -- rights

READ, WRITE, DESCRIBE, ALL = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.ALL


class Right(NamedTuple):
    """One entry for alice."""

    kind: ResourceType
    operation: AclOperation
    permission: AclPermissionType = AclPermissionType.ALLOW
    name: str = "*"
    pattern: PatternType = PatternType.LITERAL

    def creation(self) -> CreateAclsRequest.AclCreation:
        name = "kafka-cluster" if self.kind is ResourceType.CLUSTER else self.name
        return CreateAclsRequest.AclCreation(
            self.kind, name, self.pattern, "User:alice", "*", self.operation, self.permission
        )

    def __str__(self) -> str:
        pattern = "" if self.pattern is PatternType.LITERAL else f" {self.pattern.name}"
        return f"{self.permission.name} {self.operation.name} {self.kind.name} {self.name}{pattern}"


_SUPPORTED: Final = {
    ResourceType.TOPIC: "READ WRITE CREATE DELETE ALTER DESCRIBE DESCRIBE_CONFIGS ALTER_CONFIGS ALL",
    ResourceType.GROUP: "READ DELETE DESCRIBE ALL",
    ResourceType.CLUSTER: "CREATE ALTER DESCRIBE DESCRIBE_CONFIGS ALTER_CONFIGS IDEMPOTENT_WRITE",
    ResourceType.TRANSACTIONAL_ID: "WRITE DESCRIBE ALL",
}
TOPIC, GROUP, TRANSACTION = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID
DENY: Final = AclPermissionType.DENY
PROFILES: Final[Sequence[tuple[Right, ...]]] = (
    (),
    *((Right(kind, AclOperation[name]),) for kind, names in _SUPPORTED.items() for name in names.split()),
    (Right(TOPIC, READ, name=TARGET), Right(GROUP, READ, name=GROUP_ID)),
    (Right(TOPIC, WRITE, name="tar", pattern=PatternType.PREFIXED), Right(TRANSACTION, WRITE, name=TRANSACTION_ID)),
    (Right(TOPIC, READ), Right(GROUP, READ)),
    (Right(TOPIC, WRITE), Right(TRANSACTION, WRITE), Right(GROUP, READ)),
    (Right(TOPIC, ALL), Right(GROUP, ALL), Right(TOPIC, DESCRIBE, DENY, TARGET)),
    (Right(TOPIC, ALL), Right(GROUP, ALL), Right(TOPIC, READ, DENY, TARGET)),
)

# -- cases


class Case(NamedTuple):
    """One request. lists: one about everything there is, instead of that of RealRequests."""

    api_key: ApiKey
    version: int
    lists: bool = False

    @property
    def name(self) -> str:
        return f"{self.api_key.name} {self.version}" + (" of all" if self.lists else "")

    def request(self, topic_id: bytes) -> Message:
        if self.lists:
            return _everything(self.api_key, self.version)
        request = RealRequests(random.Random(self.name), topic_id).make(self.api_key, self.version)
        if isinstance(request, ProduceRequest):
            request.acks = 1
        return request


_LISTING: Final = {
    ApiKey.METADATA,
    ApiKey.LIST_OFFSETS,
    ApiKey.OFFSET_FETCH,
    ApiKey.DESCRIBE_GROUPS,
    ApiKey.LIST_GROUPS,
    ApiKey.DESCRIBE_LOG_DIRS,
    ApiKey.LIST_TRANSACTIONS,
    ApiKey.DESCRIBE_TRANSACTIONS,
}
_ALL_OFFSETS_SINCE, _MANY_GROUPS_SINCE, _OPERATIONS_SINCE = 2, 8, 3
_TOPIC_OPERATIONS_SINCE = 8


def _everything(api_key: ApiKey, version: int) -> Message:
    """A request about all topics, groups or transactions; about two of each where all cannot be asked for."""
    match api_key:
        case ApiKey.METADATA:
            with_operations = version >= _TOPIC_OPERATIONS_SINCE
            return MetadataRequest(None if version else [], True, include_topic_authorized_operations=with_operations)
        case ApiKey.LIST_OFFSETS:
            place = ListOffsetsRequest.ListOffsetsPartition(0, timestamp=-1)
            topics = [ListOffsetsRequest.ListOffsetsTopic(name, [place]) for name in (TARGET, OTHER_TOPIC)]
            return ListOffsetsRequest(topics=topics)
        case ApiKey.OFFSET_FETCH if version < _ALL_OFFSETS_SINCE:
            asked = [OffsetFetchRequest.OffsetFetchRequestTopic(name, [0]) for name in (TARGET, OTHER_TOPIC)]
            return OffsetFetchRequest(GROUP_ID, asked)
        case ApiKey.OFFSET_FETCH if version < _MANY_GROUPS_SINCE:
            return OffsetFetchRequest(GROUP_ID, None)
        case ApiKey.OFFSET_FETCH:
            groups = [OffsetFetchRequest.OffsetFetchRequestGroup(name, topics=None) for name in (GROUP_ID, OTHER_GROUP)]
            return OffsetFetchRequest(groups=groups)
        case ApiKey.DESCRIBE_GROUPS:
            return DescribeGroupsRequest([GROUP_ID, OTHER_GROUP], version >= _OPERATIONS_SINCE)
        case ApiKey.LIST_GROUPS:
            return ListGroupsRequest()
        case ApiKey.DESCRIBE_LOG_DIRS:
            return DescribeLogDirsRequest(None)
        case ApiKey.LIST_TRANSACTIONS:
            return ListTransactionsRequest()
        case _:
            return DescribeTransactionsRequest([TRANSACTION_ID, OTHER_TRANSACTION])


Versions = Mapping[int, tuple[int, int]]
"""API key -> lowest and highest version."""


def common_versions(ours: Versions, theirs: Versions) -> dict[int, tuple[int, int]]:
    """The versions that both serve."""
    return {
        key: (max(ours[key][0], theirs[key][0]), min(ours[key][1], theirs[key][1]))
        for key in sorted(ours.keys() & theirs.keys())
        if ApiKey(key) not in LEFT_OUT
    }


def all_cases(versions: Versions) -> Iterator[Case]:
    """Every API and version."""
    for key, (lowest, highest) in versions.items():
        for version in range(lowest, highest + 1):
            yield Case(ApiKey(key), version)
            if ApiKey(key) in _LISTING:
                yield Case(ApiKey(key), version, lists=True)


def sample_of(versions: Versions, profile: int) -> Iterator[Case]:
    """Every API in one version, another one for each profile; every version for a user without rights."""
    if not profile:
        yield from all_cases(versions)
        return
    for key, (lowest, highest) in versions.items():
        version = lowest + profile % (highest - lowest + 1) if highest >= lowest else None
        if version is not None:
            yield from all_cases({key: (version, version)})


# -- verdicts


class Verdict(NamedTuple):
    """What an answer says of permissions. refusals: codes. operations: bit fields. seen: those of NAMES in it."""

    refusals: tuple[int, ...]
    operations: tuple[tuple[str, int], ...]
    seen: tuple[str, ...]


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
    refusals = sorted(int(value) for name, value in fields if name == "error_code" and value in REFUSALS)
    operations = sorted((name, value) for name, value in fields if name.endswith("authorized_operations"))
    seen = sorted({value for _, value in fields if isinstance(value, str) and value in NAMES})
    return Verdict(tuple(refusals), tuple(operations), tuple(seen))


# -- a broker


class Side:
    """A broker with topics, groups and transactions; alice's connection, and the operator's."""

    def __init__(self, server: ServerProcess, sasl_port: int) -> None:
        self._server, self._sasl = server, (server.host, sasl_port)
        self.admin = RawClient(server)
        for topic in (TARGET, OTHER_TOPIC):
            self.admin.create_topic(topic)
        await_coordinator(self.admin, "group-0")
        for group in (GROUP_ID, OTHER_GROUP):
            await_coordinator(self.admin, group)
            self._commit(group)
        for transaction in (TRANSACTION_ID, OTHER_TRANSACTION):
            self._begin(transaction)
        self.topic_id = self.admin.topic_id(TARGET)
        self.alice = self._connect()

    def _commit(self, group: str) -> None:
        partitions = [OffsetCommitRequest.OffsetCommitRequestPartition(0, 0, committed_metadata="")]
        topics = [
            OffsetCommitRequest.OffsetCommitRequestTopic(name, partitions=partitions) for name in (TARGET, OTHER_TOPIC)
        ]
        answer = self.admin.call(OffsetCommitRequest(group, topics=topics), 7, OffsetCommitResponse)
        assert not any(each.error_code for topic in answer.topics for each in topic.partitions), answer

    def _begin(self, transaction: str) -> None:
        """Give a transactional id a producer; the first one waits for the ids of producers."""
        self.admin.await_transaction_coordinator(transaction)
        deadline = time.monotonic() + SECONDS
        while True:
            made = self.admin.call(InitProducerIdRequest(transaction, 60_000), 1, InitProducerIdResponse)
            if made.error_code == ErrorCode.NONE:
                return
            assert time.monotonic() < deadline, made
            time.sleep(0.05)

    def _connect(self) -> SaslRawClient:
        alice = SaslRawClient(self._server, address=self._sasl)
        assert alice.log_in("alice", PASSWORD).error_code == ErrorCode.NONE
        return alice

    def grant(self, rights: Sequence[Right]) -> None:
        """Give alice these rights and no others."""
        everything = DeleteAclsRequest.DeleteAclsFilter(1, None, PatternType.ANY, "User:alice", None, 1, 1)
        self.admin.call(DeleteAclsRequest([everything]), 3, DeleteAclsResponse)
        answer = self.admin.call(CreateAclsRequest([each.creation() for each in rights]), 3, CreateAclsResponse)
        assert not any(each.error_code for each in answer.results)

    def ask(self, case: Case) -> Verdict | str:
        """The verdict about a request of alice's, or CLOSED."""
        try:
            answer = self.alice.call(case.request(self.topic_id), case.version, response_class(case.api_key))
        except (ConnectionClosed, ConnectionError):
            self.alice.close()
            self.alice = self._connect()
            return CLOSED
        return verdict_of(answer)

    def close(self) -> None:
        self.alice.close()
        self.admin.close()
