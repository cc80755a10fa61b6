"""TxnOffsetCommit from frame to frame: permissions in Kafka's order, and the words of each version."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from barnabas.api.apis import Apis
from barnabas.api.authorize import Authorizer
from barnabas.api.handlers.transactional_offsets import TransactionalOffsetsApi
from barnabas.api.registry import Registry
from barnabas.api.request_parser import RequestParser
from barnabas.api.transaction_verification import TransactionVerification, VerificationErrors, VerificationMetrics
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.headers import encode_request_header
from barnabas.protocol.messages.transactions import TxnOffsetCommitRequest
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.security.acl.acl_codes import AclOperation, ResourceType
from barnabas.storage.log_environment import LogManagerConfig
from tests.support.no_transaction_coordinator import BuiltVerifier
from tests.support.recording_channel import RecordingChannel, connection
from tests.unit.api.permissions_harness import Permission, Permissions
from tests.unit.coordinator.group.offset_harness import GROUP, GroupBroker
from tests.unit.storage.log_harness import Broker as StoredLogs

MINE, THEIRS = "mine", "theirs"
WRITE, READ = AclOperation.WRITE, AclOperation.READ
ID: Permission = (WRITE, ResourceType.TRANSACTIONAL_ID, "t")
OF_GROUP: Permission = (READ, ResourceType.GROUP, GROUP)
OF_TOPIC: Permission = (READ, ResourceType.TOPIC, MINE)


class Coordinator:
    """A coordinator of transactions that answers `error` for every partition."""

    def __init__(self) -> None:
        self.error = ErrorCode.NONE
        self.adds: list[bool] = []
        self.asked: list[tuple[Any, ...]] = []

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        callback: Any,
        *,
        adds: bool,
    ) -> None:
        self.adds.append(adds)
        self.asked.append((transactional_id, producer_id, producer_epoch, *partitions))
        errors: VerificationErrors = dict.fromkeys(partitions, self.error) if self.error else {}
        callback(errors)


class Broker:
    """Coordinates GROUP, and knows two topics of two partitions."""

    def __init__(self, authorizer: Authorizer | None = None) -> None:
        self.groups = GroupBroker(StoredLogs(manager_config=LogManagerConfig()))
        self.groups.announce(MINE, THEIRS)
        self.coordinator = Coordinator()
        replicas = self.groups.replicas
        verification = TransactionVerification(
            replicas.manager, BuiltVerifier(self.coordinator), VerificationMetrics(replicas.clock)
        )
        api = TransactionalOffsetsApi(self.groups.transactional, verification, replicas.metadata, authorizer)
        self._parser = RequestParser(Registry(api.handlers()))
        self._apis = Apis(replicas.actions, lambda: 1)

    def commit(self, *places: tuple[str, int], version: int = 4) -> dict[tuple[str, int], int]:
        """The errors of a commit of 5 for these places."""
        partition, topic = (
            TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition,
            TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic,
        )
        topics = [topic(name, [partition(index, 5, committed_metadata=None)]) for name, index in places]
        body = TxnOffsetCommitRequest("t", GROUP, 7, 0, topics=topics)
        frame = encode_request_header(body.api_key, version, 1, "me") + b"".join(map(bytes, body.encode(version)))
        channel = RecordingChannel()
        self._apis.handle(self._parser.parse(frame, connection(), channel=channel, received_ns=1))
        answer: Any = channel.answer()
        return {(each.name, one.partition_index): one.error_code for each in answer.topics for one in each.partitions}


def test_permissions_are_asked_for_in_order() -> None:
    permissions = Permissions()
    broker = Broker(permissions)
    place, theirs = (MINE, 0), (THEIRS, 0)
    assert broker.commit(place) == {place: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED}
    permissions.allowed.add(ID)
    assert broker.commit(place) == {place: ErrorCode.GROUP_AUTHORIZATION_FAILED}
    permissions.allowed.add(OF_GROUP)
    refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert broker.commit(place, ("unknown", 0)) == {place: refused, ("unknown", 0): refused}
    assert broker.coordinator.asked == []
    permissions.allowed.add(OF_TOPIC)
    assert broker.commit(place, theirs) == {place: ErrorCode.NONE, theirs: refused}


def test_the_group_s_partition_is_verified_once_a_transaction() -> None:
    broker = Broker()
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert broker.commit((MINE, 0), (MINE, 7)) == {(MINE, 0): ErrorCode.NONE, (MINE, 7): unknown}
    assert broker.commit((MINE, 1)) == {(MINE, 1): ErrorCode.NONE}
    place = TopicPartition("__consumer_offsets", broker.groups.partitions.partition_for(GROUP))
    assert broker.coordinator.asked == [("t", 7, 0, place)]


@pytest.mark.parametrize(
    ("said", "version", "told"),
    [
        (ErrorCode.TRANSACTION_ABORTABLE, 4, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.TRANSACTION_ABORTABLE, 3, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.PRODUCER_FENCED, 4, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, 4, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (ErrorCode.CONCURRENT_TRANSACTIONS, 4, ErrorCode.CONCURRENT_TRANSACTIONS),
        (ErrorCode.NETWORK_EXCEPTION, 4, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ErrorCode.NETWORK_EXCEPTION, 2, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ErrorCode.NETWORK_EXCEPTION, 1, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
)
def test_what_a_coordinator_refuses(said: ErrorCode, version: int, told: ErrorCode) -> None:
    broker = Broker()
    broker.coordinator.error = said
    assert broker.commit((MINE, 0), version=version) == {(MINE, 0): told}
    assert broker.groups.log().log_end_offset == 0


def test_a_group_that_is_coordinated_elsewhere_is_not_asked_for() -> None:
    broker = Broker()
    broker.groups.partitions.stop()
    assert broker.commit((MINE, 0)) == {(MINE, 0): ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert broker.coordinator.asked == []


def test_nothing_to_commit() -> None:
    assert Broker().commit() == {}
