"""ElectLeaders v0-2 on one broker: elections are not needed, impossible, or refused, and in which words."""

from __future__ import annotations

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.topics import ElectLeadersRequest, ElectLeadersResponse
from tests.broker.versions import each_version
from tests.support.raw_client import SECONDS, RawClient

PREFERRED, UNCLEAN = 0, 1
Wanted = ElectLeadersRequest.TopicPartitions
Result = tuple[ErrorCode, str | None]


def _elect(
    client: RawClient, *topics: ElectLeadersRequest.TopicPartitions, version: int = 2, election_type: int = PREFERRED
) -> tuple[ErrorCode, dict[tuple[str, int], Result]]:
    return _answer(client, ElectLeadersRequest(election_type, list(topics), SECONDS * 1000), version)


def _answer(
    client: RawClient, request: ElectLeadersRequest, version: int
) -> tuple[ErrorCode, dict[tuple[str, int], Result]]:
    response = client.call(request, version, ElectLeadersResponse)
    results = {
        (topic.topic, result.partition_id): (ErrorCode(result.error_code), result.error_message)
        for topic in response.replica_election_results
        for result in topic.partition_result
    }
    return ErrorCode(response.error_code), results


@each_version(ApiKey.ELECT_LEADERS)
def test_the_preferred_leader_leads_already(client: RawClient, topic: str, version: int) -> None:
    client.create_topic(topic, 2)
    code, results = _elect(client, Wanted(topic, [0, 1, 0]), version=version)
    assert code is ErrorCode.NONE
    needless = (ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")
    assert results == {(topic, 0): needless, (topic, 1): needless}


def test_an_unclean_election_is_not_needed_while_the_leader_lives(client: RawClient, topic: str) -> None:
    client.create_topic(topic, 1)
    _, results = _elect(client, Wanted(topic, [0]), election_type=UNCLEAN)
    assert results[topic, 0][0] is ErrorCode.ELECTION_NOT_NEEDED


def test_what_does_not_exist_is_said_by_partition(client: RawClient, topic: str) -> None:
    client.create_topic(topic, 1)
    missing = f"{topic}-missing"
    code, results = _elect(client, Wanted(topic, [0, 9]), Wanted(missing, [0]))
    unknown = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist.")
    assert code is ErrorCode.NONE
    assert results[topic, 9] == unknown
    assert results[missing, 0] == unknown
    assert results[topic, 0][0] is ErrorCode.ELECTION_NOT_NEEDED


def test_of_all_partitions_only_those_elected_are_named(client: RawClient, topic: str) -> None:
    client.create_topic(topic, 3)
    code, results = _answer(client, ElectLeadersRequest(PREFERRED, None, SECONDS * 1000), 2)
    assert code is ErrorCode.NONE
    assert results == {}


def test_an_election_of_another_kind(client: RawClient, topic: str) -> None:
    client.create_topic(topic, 1)
    code, results = _elect(client, Wanted(topic, [0]), election_type=7)
    assert code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert results[topic, 0][0] is ErrorCode.UNKNOWN_SERVER_ERROR
