"""What clients may not do to topics, coordinators, producer ids and the cluster, in Kafka's order and words."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.api.authorize import NOT_REQUESTED
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.cluster import DescribeClusterRequest
from barnabas.protocol.messages.fetch import FetchRequest
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.list_offsets import ListOffsetsRequest
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.messages.produce import ProduceRequest
from barnabas.protocol.messages.topics import CreateTopicsRequest, DeleteTopicsRequest
from barnabas.protocol.messages.transactions import InitProducerIdRequest
from barnabas.protocol.uuid import ZERO_UUID
from barnabas.security.acl.acl_authorizer import Action
from barnabas.security.acl.acl_codes import AclOperation, ResourceType
from tests.support.raw_client import make_batch
from tests.unit.api.permissions_harness import CLUSTER, IDS, MINE, THEIRS, Broker, Permission

UNKNOWN, NEW = "unknown", "new"
REFUSED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def topic(operation: AclOperation, name: str = MINE) -> Permission:
    return operation, ResourceType.TOPIC, name


def cluster(operation: AclOperation) -> Permission:
    return operation, ResourceType.CLUSTER, CLUSTER


# -- Produce


def produce(broker: Broker, *names: str, acks: int = 1, version: int = 12, **batch: Any) -> Any:
    """The answer; with a transactional id the batches are part of a transaction."""
    transactional_id = batch.pop("transactional_id", None)
    records = make_batch([b"v"], **batch)
    topics = [
        ProduceRequest.TopicProduceData(
            name, IDS.get(name, ZERO_UUID), [ProduceRequest.PartitionProduceData(0, records)]
        )
        for name in names
    ]
    request = ProduceRequest(transactional_id=transactional_id, acks=acks, timeout_ms=1000, topic_data=topics)
    return broker.call(request, version)


def end_offset(broker: Broker, name: str) -> int:
    return broker.replicas.manager.hosted.partition_or_error(name, 0).log.log_end_offset


def test_records_are_written_where_that_is_allowed() -> None:
    broker = Broker(topic(AclOperation.WRITE))
    answer = produce(broker, THEIRS, MINE, UNKNOWN)
    codes = [each.partition_responses[0].error_code for each in answer.responses]
    assert codes == [REFUSED, ErrorCode.NONE, REFUSED], "whether a topic exists is told to who may write to it"
    assert (end_offset(broker, MINE), end_offset(broker, THEIRS)) == (1, 0)
    assert broker.permissions.asked == [Action(*topic(AclOperation.WRITE, name)) for name in (THEIRS, MINE, UNKNOWN)]


def test_a_topic_that_is_named_by_its_id_is_no_less_protected() -> None:
    broker = Broker(topic(AclOperation.WRITE))
    codes = [
        each.partition_responses[0].error_code for each in produce(broker, THEIRS, MINE, UNKNOWN, version=13).responses
    ]
    assert codes == [REFUSED, ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_ID]
    assert end_offset(broker, THEIRS) == 0


def test_who_waits_for_no_answer_loses_the_connection() -> None:
    broker = Broker()
    assert produce(broker, MINE, acks=0) is None
    assert broker.events == ["close"]
    assert end_offset(broker, MINE) == 0


def test_transactional_ids_are_asked_for_first() -> None:
    transactional = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
    broker = Broker(topic(AclOperation.WRITE))
    answer = produce(broker, THEIRS, MINE, transactional_id="t", **transactional)
    codes = {each.partition_responses[0].error_code for each in answer.responses}
    assert codes == {ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED}
    assert broker.permissions.asked == [Action(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, "t")]
    broker.permissions.allowed.add((AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, "t"))
    answer = produce(broker, THEIRS, MINE, transactional_id="t", **transactional)
    codes = {each.partition_responses[0].error_code for each in answer.responses}
    assert codes == {REFUSED, ErrorCode.NOT_ENOUGH_REPLICAS}, "there is no coordinator to ask for the transaction"


# -- Fetch and ListOffsets


def fetch(broker: Broker, *names: str, version: int = 12, replica_id: int = -1) -> dict[str | bytes, int]:
    """Error code by what the topic was named by."""
    topics = [
        FetchRequest.FetchTopic(name, IDS.get(name, b"?" * 16), [FetchRequest.FetchPartition(0)]) for name in names
    ]
    request = FetchRequest(replica_id=replica_id, max_wait_ms=0, min_bytes=0, max_bytes=100, topics=topics)
    answer = broker.call(request, version)
    return {each.topic_id if version > 12 else each.topic: each.partitions[0].error_code for each in answer.responses}


def test_records_are_read_where_that_is_allowed() -> None:
    broker = Broker(topic(AclOperation.READ))
    assert fetch(broker, THEIRS, MINE, UNKNOWN) == {THEIRS: REFUSED, MINE: ErrorCode.NONE, UNKNOWN: REFUSED}
    by_id = fetch(broker, THEIRS, MINE, UNKNOWN, version=13)
    assert by_id == {IDS[THEIRS]: REFUSED, IDS[MINE]: ErrorCode.NONE, b"?" * 16: ErrorCode.UNKNOWN_TOPIC_ID}


@pytest.mark.parametrize("version", [12, 13])
def test_a_session_reads_what_may_be_read_now(version: int) -> None:
    broker = Broker(topic(AclOperation.READ))
    topics = [
        FetchRequest.FetchTopic(name, IDS.get(name, b"?" * 16), [FetchRequest.FetchPartition(0)])
        for name in (THEIRS, MINE, UNKNOWN)
    ]
    full = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=100, session_epoch=0, topics=topics)
    begun = broker.call(full, version)
    assert begun.session_id != 0

    def go_on(epoch: int, replica_id: int = -1) -> dict[str | bytes, int]:
        request = FetchRequest(replica_id=replica_id, max_wait_ms=0, min_bytes=0, max_bytes=100)
        request.session_id, request.session_epoch = begun.session_id, epoch
        answer = broker.call(request, version)
        assert answer.error_code == ErrorCode.NONE
        return {each.topic or each.topic_id: each.partitions[0].error_code for each in answer.responses}

    theirs, mine, unknown = (THEIRS, MINE, UNKNOWN) if version < 13 else (IDS[THEIRS], IDS[MINE], b"?" * 16)
    of_unknown = REFUSED if version < 13 else ErrorCode.UNKNOWN_TOPIC_ID
    assert go_on(1) == {theirs: REFUSED, unknown: of_unknown}
    broker.permissions.allowed = {topic(AclOperation.READ, THEIRS)}
    assert go_on(2) == {theirs: ErrorCode.NONE, mine: REFUSED, unknown: of_unknown}
    assert go_on(3) == {mine: REFUSED, unknown: of_unknown}
    assert set(go_on(4, replica_id=1).values()) == {REFUSED}
    broker.permissions.allowed = {cluster(AclOperation.CLUSTER_ACTION)}
    codes = go_on(5, replica_id=1)
    assert REFUSED not in codes.values()
    assert unknown in codes


def test_only_brokers_fetch_as_replicas() -> None:
    broker = Broker(topic(AclOperation.READ))
    assert set(fetch(broker, THEIRS, MINE, UNKNOWN, replica_id=1).values()) == {REFUSED}
    broker = Broker(cluster(AclOperation.CLUSTER_ACTION))
    codes = fetch(broker, MINE, UNKNOWN, replica_id=1)
    assert REFUSED not in codes.values()
    assert codes[UNKNOWN] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("version", range(11))
def test_offsets_are_told_to_who_may_describe(version: int) -> None:
    asked = [
        ListOffsetsRequest.ListOffsetsTopic(name, [ListOffsetsRequest.ListOffsetsPartition(0, timestamp=-1)])
        for name in (THEIRS, MINE, UNKNOWN)
    ]
    answer = Broker(topic(AclOperation.DESCRIBE)).call(ListOffsetsRequest(topics=asked), version)
    assert [each.partitions[0].error_code for each in answer.topics] == [REFUSED, ErrorCode.NONE, REFUSED]


# -- Metadata


def metadata(broker: Broker, *topics: Any, version: int = 12, **body: Any) -> Any:
    wanted = [MetadataRequest.MetadataRequestTopic(*each) for each in topics] if topics else None
    return broker.call(MetadataRequest(wanted, **body), version)


def test_of_all_topics_those_that_may_not_be_described_are_left_out() -> None:
    broker = Broker(topic(AclOperation.DESCRIBE), topic(AclOperation.DESCRIBE, THEIRS))
    for allowed in ([MINE, THEIRS], [MINE]):  # the second time the answer for all has been made already
        broker.permissions.allowed = {topic(AclOperation.DESCRIBE, name) for name in allowed}
        assert [each.name for each in metadata(broker).topics] == allowed
    assert not any(action.log_if_denied for action in broker.permissions.asked)


def test_topics_that_may_not_be_described_look_alike_whether_they_exist_or_not() -> None:
    broker = Broker(topic(AclOperation.DESCRIBE), cluster(AclOperation.CREATE))
    by_name = metadata(broker, (ZERO_UUID, THEIRS), (ZERO_UUID, UNKNOWN), allow_auto_topic_creation=True).topics
    assert [(each.error_code, each.name, each.topic_id, each.partitions) for each in by_name] == [
        (REFUSED, name, ZERO_UUID, []) for name in (THEIRS, UNKNOWN)
    ]
    by_id = metadata(broker, (IDS[THEIRS], None), (IDS[MINE], None)).topics
    assert [(each.error_code, each.name, each.topic_id) for each in by_id] == [
        (REFUSED, None, IDS[THEIRS]),
        (ErrorCode.NONE, MINE, IDS[MINE]),
    ]
    assert broker.topics.created == []


@pytest.mark.parametrize("permission", [cluster(AclOperation.CREATE), topic(AclOperation.CREATE, NEW)])
def test_topics_are_created_on_the_way_by_who_may(permission: Permission) -> None:
    broker = Broker(topic(AclOperation.DESCRIBE, NEW))
    asked = metadata(broker, (ZERO_UUID, NEW), allow_auto_topic_creation=True).topics
    assert ([each.error_code for each in asked], broker.topics.created) == ([REFUSED], [])
    broker.permissions.allowed.add(permission)
    asked = metadata(broker, (ZERO_UUID, NEW), allow_auto_topic_creation=True).topics
    assert ([each.error_code for each in asked], broker.topics.created) == ([ErrorCode.LEADER_NOT_AVAILABLE], [NEW])


def test_the_operations_that_are_allowed_are_told() -> None:
    broker = Broker(topic(AclOperation.DESCRIBE), topic(AclOperation.WRITE), topic(AclOperation.READ, THEIRS))
    wanted = {"include_topic_authorized_operations": True, "include_cluster_authorized_operations": True}
    answer = metadata(broker, version=10, **wanted)
    (only,) = answer.topics
    assert only.topic_authorized_operations == 1 << AclOperation.DESCRIBE | 1 << AclOperation.WRITE
    assert answer.cluster_authorized_operations == 0, "who may not describe the cluster is told of none"
    broker.permissions.asked.clear()
    broker.permissions.allowed |= {cluster(AclOperation.DESCRIBE), cluster(AclOperation.ALTER)}
    operations = 1 << AclOperation.DESCRIBE | 1 << AclOperation.ALTER
    assert metadata(broker, version=10, **wanted).cluster_authorized_operations == operations
    asked = DescribeClusterRequest(include_cluster_authorized_operations=True)
    assert broker.call(asked, 1).cluster_authorized_operations == operations
    assert broker.call(DescribeClusterRequest(), 1).cluster_authorized_operations == NOT_REQUESTED
    of_mine = [
        a for a in broker.permissions.asked if a.resource_name == MINE and a.operation is not AclOperation.DESCRIBE
    ]
    assert of_mine
    assert not any(action.log_if_allowed or action.log_if_denied for action in of_mine), "he only asks"


# -- Topics


def create(broker: Broker, *names: str, validate_only: bool = False) -> Any:
    topics = [CreateTopicsRequest.CreatableTopic(name, 1, 1) for name in names]
    return broker.call(CreateTopicsRequest(topics, 0, validate_only), 7).topics


@pytest.mark.parametrize("permission", [cluster(AclOperation.CREATE), topic(AclOperation.CREATE, NEW)])
def test_topics_are_created_by_who_may(permission: Permission) -> None:
    broker = Broker(permission)
    answers = {each.name: (each.error_code, each.error_message) for each in create(broker, NEW, THEIRS, "two", "two")}
    assert answers["two"] == (ErrorCode.INVALID_REQUEST, "Found multiple entries for this topic.")
    if permission[1] is ResourceType.CLUSTER:
        assert broker.topics.created == [NEW, THEIRS]
    else:
        assert answers[THEIRS] == (REFUSED, "Authorization failed.")
        assert broker.topics.created == [NEW]


@pytest.mark.parametrize("may_create", [True, False])
@pytest.mark.parametrize("validate_only", [True, False])
def test_each_entry_of_a_creation_is_answered(may_create: bool, validate_only: bool) -> None:
    """As by Kafka: a topic that is named twice has two answers. The name of KRaft's log is refused before all else."""
    broker = Broker(*([cluster(AclOperation.CREATE)] if may_create else []))
    reserved = "__cluster_metadata"
    names = ["two", NEW, "two", reserved, reserved, "two"]
    answers = create(broker, *names, validate_only=validate_only)
    assert [each.name for each in answers] == names
    twice = (ErrorCode.INVALID_REQUEST, "Found multiple entries for this topic.", REFUSED)
    prohibited = (ErrorCode.INVALID_REQUEST, f"Creation of internal topic {reserved} is prohibited.", ErrorCode.NONE)
    told = [(each.error_code, each.error_message, each.topic_config_error_code) for each in answers]
    assert [told[0], *told[2:]] == [twice, twice, prohibited, prohibited, twice]
    assert broker.topics.created == ([NEW] if may_create else [])
    assert not any(action.resource_name == reserved for action in broker.permissions.asked)


def test_the_settings_of_a_new_topic_are_shown_to_who_may_see_them() -> None:
    broker = Broker(cluster(AclOperation.CREATE), topic(AclOperation.DESCRIBE_CONFIGS, "shown"))
    shown, hidden = create(broker, "shown", NEW, validate_only=True)
    assert (shown.topic_config_error_code, shown.num_partitions) == (ErrorCode.NONE, 1)
    assert shown.configs
    assert (hidden.topic_config_error_code, hidden.num_partitions, hidden.replication_factor) == (REFUSED, -1, -1)
    assert (hidden.topic_id, hidden.configs) == (ZERO_UUID, [])
    _, late = create(broker, "shown", NEW)
    assert (late.error_code, late.topic_config_error_code) == (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NONE)
    assert (late.topic_id, late.num_partitions, late.configs) == (ZERO_UUID, -1, [])


def test_topics_are_deleted_by_who_may() -> None:
    broker = Broker(topic(AclOperation.DELETE), topic(AclOperation.DELETE, UNKNOWN))
    wanted = [(THEIRS, ZERO_UUID), (None, IDS[THEIRS]), (None, IDS[MINE]), (UNKNOWN, ZERO_UUID), (MINE, ZERO_UUID)]
    states = [DeleteTopicsRequest.DeleteTopicState(*each) for each in wanted]
    request = DeleteTopicsRequest(states, timeout_ms=0)
    answers = [(each.name, each.error_code) for each in broker.call(request, 6).responses]
    assert answers[:4] == [
        (THEIRS, REFUSED),
        (None, REFUSED),
        (None, REFUSED),  # who may not describe it does not hear its name
        (UNKNOWN, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert broker.topics.deleted == [MINE]


# -- Coordinators and producer ids

COORDINATORS = [
    (0, (AclOperation.DESCRIBE, ResourceType.GROUP, "k"), ErrorCode.GROUP_AUTHORIZATION_FAILED),
    (
        1,
        (AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, "k"),
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ),
    (2, cluster(AclOperation.CLUSTER_ACTION), ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
]


@pytest.mark.parametrize(("key_type", "permission", "refusal"), COORDINATORS)
def test_coordinators_are_found_by_who_may_describe(key_type: int, permission: Permission, refusal: ErrorCode) -> None:
    request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=["k"])
    refused, allowed = (Broker(*may).call(request, 6).coordinators[0] for may in ([], [permission]))
    assert refused.error_code == refusal
    assert allowed.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    if key_type < 2:
        assert Broker().call(FindCoordinatorRequest("k", key_type), 3).error_code == refusal


def test_producer_ids_are_for_who_may_write_something() -> None:
    def code(*permissions: Permission, transactional_id: str | None = None) -> int:
        answer: int = Broker(*permissions).call(InitProducerIdRequest(transactional_id, 1000), 4).error_code
        return answer

    assert code() == code(topic(AclOperation.READ)) == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert code(topic(AclOperation.WRITE)) == code(cluster(AclOperation.IDEMPOTENT_WRITE)) == ErrorCode.NONE
    refused = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert code(cluster(AclOperation.IDEMPOTENT_WRITE), transactional_id="t") == refused
    mine = (AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, "t")
    assert code(mine, transactional_id="t") == ErrorCode.COORDINATOR_NOT_AVAILABLE
