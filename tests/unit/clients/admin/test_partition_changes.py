"""Partitions, elections, reassignments and quotas on scripted brokers: what is asked, what is returned and raised."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.clients.admin import DEFAULT, Admin, ElectionType, NewPartitions, PartitionReassignment, QuotaEntity
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from barnabas.protocol.messages.reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from barnabas.protocol.messages.topics import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
)
from barnabas.protocol.topic_partition import TopicPartition
from tests.support.scripted_cluster import ScriptedCluster

FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)
REQUESTS = (
    CreatePartitionsRequest,
    ElectLeadersRequest,
    AlterPartitionReassignmentsRequest,
    ListPartitionReassignmentsRequest,
    DescribeClientQuotasRequest,
    AlterClientQuotasRequest,
)


class Cluster:
    """Answers each API with the next of its answers, and the last one from then on."""

    def __init__(self, api_key: ApiKey, *answers: Any) -> None:
        self._scripted = ScriptedCluster({"t": [0, 1]}, brokers=2, extra=REQUESTS)
        self._answers = list(answers)
        self._scripted.handlers[api_key] = lambda request: (
            self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        )
        self._api_key = api_key
        self.admin = Admin("", client=self._scripted.client())

    @property
    def asked(self) -> list[Any]:
        return [request.body for request in self._scripted.sent(self._api_key)]


def created(*codes: ErrorCode) -> CreatePartitionsResponse:
    results = [
        CreatePartitionsResponse.CreatePartitionsTopicResult(f"t{i}", code, None) for i, code in enumerate(codes)
    ]
    return CreatePartitionsResponse(results=results)


def test_partitions_are_asked_of_the_controller_until_there_is_one() -> None:
    cluster = Cluster(ApiKey.CREATE_PARTITIONS, created(ErrorCode.NOT_CONTROLLER), created(ErrorCode.NONE))
    cluster.admin.create_partitions({"t0": NewPartitions(3, [[1], [0]]), "t1": NewPartitions(5)}, validate_only=True)
    assert len(cluster.asked) == 2
    first, second = cluster.asked[0].topics
    assert (first.name, first.count, [each.broker_ids for each in first.assignments]) == ("t0", 3, [[1], [0]])
    assert (second.count, second.assignments, cluster.asked[0].validate_only) == (5, None, True)


def test_topics_that_get_no_partitions_are_raised() -> None:
    cluster = Cluster(ApiKey.CREATE_PARTITIONS, created(ErrorCode.NONE, ErrorCode.INVALID_PARTITIONS))
    with pytest.raises(ApiError, match="Topic: t1"):
        cluster.admin.create_partitions({"t0": NewPartitions(2), "t1": NewPartitions(1)})


def elected(code: ErrorCode, *results: tuple[int, ErrorCode]) -> ElectLeadersResponse:
    partitions = [ElectLeadersResponse.PartitionResult(index, error, None) for index, error in results]
    return ElectLeadersResponse(
        error_code=code, replica_election_results=[ElectLeadersResponse.ReplicaElectionResult("t", partitions)]
    )


def test_elections_tell_of_each_partition_but_those_that_needed_none() -> None:
    answer = elected(
        ErrorCode.NONE,
        (0, ErrorCode.NONE),
        (1, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE),
        (2, ErrorCode.ELECTION_NOT_NEEDED),
    )
    cluster = Cluster(ApiKey.ELECT_LEADERS, answer)
    results = cluster.admin.elect_leaders(ElectionType.UNCLEAN, [FIRST, SECOND])
    assert results.keys() == {FIRST, SECOND}
    assert results[FIRST] is None
    error = results[SECOND]
    assert error is not None
    assert (error.code, "t-1" in error.message) == (ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, True)
    (asked,) = cluster.asked
    assert (asked.election_type, asked.topic_partitions[0].partitions) == (1, [0, 1])
    cluster.admin.elect_leaders(ElectionType.PREFERRED)
    assert cluster.asked[1].topic_partitions is None


def test_no_election_at_all_is_raised() -> None:
    with pytest.raises(ApiError, match="CLUSTER_AUTHORIZATION_FAILED"):
        Cluster(ApiKey.ELECT_LEADERS, elected(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)).admin.elect_leaders(
            ElectionType.PREFERRED
        )


def test_reassignments_begin_and_end() -> None:
    results = [
        AlterPartitionReassignmentsResponse.ReassignablePartitionResponse(0, ErrorCode.NONE, None),
        AlterPartitionReassignmentsResponse.ReassignablePartitionResponse(
            1, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "none goes on"
        ),
    ]
    answer = AlterPartitionReassignmentsResponse(
        error_code=0,
        error_message=None,
        responses=[AlterPartitionReassignmentsResponse.ReassignableTopicResponse("t", results)],
    )
    cluster = Cluster(ApiKey.ALTER_PARTITION_REASSIGNMENTS, answer)
    found = cluster.admin.alter_partition_reassignments({FIRST: [1, 0], SECOND: None})
    assert found[FIRST] is None
    assert str(found[SECOND]) == "NO_REASSIGNMENT_IN_PROGRESS: none goes on"
    ((topic,),) = (body.topics for body in cluster.asked)
    assert [(each.partition_index, each.replicas) for each in topic.partitions] == [(0, [1, 0]), (1, None)]


def test_reassignments_that_go_on() -> None:
    ongoing = ListPartitionReassignmentsResponse.OngoingTopicReassignment(
        "t", [ListPartitionReassignmentsResponse.OngoingPartitionReassignment(1, [0, 1], [1], [0])]
    )
    cluster = Cluster(
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ListPartitionReassignmentsResponse(error_code=ErrorCode.NOT_CONTROLLER, error_message=None, topics=[]),
        ListPartitionReassignmentsResponse(error_code=0, error_message=None, topics=[ongoing]),
    )
    assert cluster.admin.list_partition_reassignments() == {SECOND: PartitionReassignment((0, 1), (1,), (0,))}
    cluster.admin.list_partition_reassignments([FIRST])
    assert [asked.topics and asked.topics[0].partition_indexes for asked in cluster.asked] == [None, None, [0]]


def test_quotas_by_whose_they_are() -> None:
    entry = DescribeClientQuotasResponse.EntryData(
        [
            DescribeClientQuotasResponse.EntityData("client-id", None),
            DescribeClientQuotasResponse.EntityData("user", "anna"),
        ],
        [DescribeClientQuotasResponse.ValueData("producer_byte_rate", 1024.0)],
    )
    cluster = Cluster(
        ApiKey.DESCRIBE_CLIENT_QUOTAS, DescribeClientQuotasResponse(error_code=0, error_message=None, entries=[entry])
    )
    found = cluster.admin.describe_client_quotas(QuotaEntity(user="anna", client_id=DEFAULT), strict=True)
    assert found == {QuotaEntity(user="anna", client_id=DEFAULT): {"producer_byte_rate": 1024.0}}
    assert str(*found) == "user anna, client-id default"
    (asked,) = cluster.asked
    assert [(each.entity_type, each.match_type, each.match) for each in asked.components] == [
        ("user", 0, "anna"),
        ("client-id", 1, None),
    ]
    assert asked.strict


def test_quotas_are_set_and_taken_away() -> None:
    whose = [AlterClientQuotasResponse.EntityData("ip", None)]
    cluster = Cluster(
        ApiKey.ALTER_CLIENT_QUOTAS,
        AlterClientQuotasResponse(entries=[AlterClientQuotasResponse.EntryData(0, None, whose)]),
        AlterClientQuotasResponse(
            entries=[AlterClientQuotasResponse.EntryData(ErrorCode.INVALID_REQUEST, None, whose)]
        ),
    )
    changes: dict[QuotaEntity, dict[str, float | None]] = {
        QuotaEntity(ip=DEFAULT): {"connection_creation_rate": 5.0, "request_percentage": None}
    }
    cluster.admin.alter_client_quotas(changes)
    ((entry,),) = (body.entries for body in cluster.asked)
    assert [(part.entity_type, part.entity_name) for part in entry.entity] == [("ip", None)]
    assert [(each.key, each.value, each.remove) for each in entry.ops] == [
        ("connection_creation_rate", 5.0, False),
        ("request_percentage", 0.0, True),
    ]
    with pytest.raises(ApiError, match="Quota of ip default"):
        cluster.admin.alter_client_quotas(changes, validate_only=True)
