"""Error answers are built from the descriptions of messages."""

from __future__ import annotations

from barnabas.protocol.error_answers import error_answer
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.classic_groups import JoinGroupRequest, JoinGroupResponse
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.messages.produce import ProduceRequest, ProduceResponse
from barnabas.protocol.messages.topics import DeleteTopicsRequest, DeleteTopicsResponse
from barnabas.protocol.messages.transactions import DescribeProducersRequest, DescribeProducersResponse

ERROR = ApiError(ErrorCode.INVALID_REQUEST, "words")
FAILED = ErrorCode.INVALID_REQUEST
ID = b"0123456789abcdef"


def test_every_item_of_the_request_is_answered() -> None:
    partitions = [ProduceRequest.PartitionProduceData(index) for index in (3, 5)]
    request = ProduceRequest(topic_data=[ProduceRequest.TopicProduceData("topic", partition_data=partitions)])
    failed = ProduceResponse.PartitionProduceResponse
    answers = [failed(index, FAILED, base_offset=-1, error_message="words") for index in (3, 5)]
    topic = ProduceResponse.TopicProduceResponse("topic", partition_responses=answers)
    assert error_answer(request, 9, ERROR) == ProduceResponse([topic])


def test_a_field_that_the_version_lacks_is_not_set() -> None:
    answer = error_answer(FindCoordinatorRequest(key="group"), 0, ERROR)
    assert answer == FindCoordinatorResponse(error_code=FAILED, node_id=-1, port=-1)
    answer = error_answer(FindCoordinatorRequest(coordinator_keys=["a", "b"]), 4, ERROR)
    found = [FindCoordinatorResponse.Coordinator(key, -1, "", -1, FAILED, "words") for key in ("a", "b")]
    assert answer == FindCoordinatorResponse(coordinators=found)


def test_a_list_may_answer_different_fields_in_different_versions() -> None:
    deleted = DeleteTopicsResponse.DeletableTopicResult
    answer = error_answer(DeleteTopicsRequest(topic_names=["a"]), 5, ERROR)
    assert answer == DeleteTopicsResponse(responses=[deleted("a", error_code=FAILED, error_message="words")])
    state = DeleteTopicsRequest.DeleteTopicState(None, ID)
    answer = error_answer(DeleteTopicsRequest(topics=[state]), 6, ERROR)
    assert answer == DeleteTopicsResponse(responses=[deleted(None, ID, FAILED, "words")])


def test_an_item_may_be_a_plain_number() -> None:
    request = DescribeProducersRequest([DescribeProducersRequest.TopicRequest("topic", [7])])
    partition = DescribeProducersResponse.PartitionResponse(7, FAILED, None)
    topic = DescribeProducersResponse.TopicResponse("topic", [partition])
    assert error_answer(request, 0, ERROR) == DescribeProducersResponse(topics=[topic])


def test_null_is_empty_before_it_is_allowed() -> None:
    for version, name in ((6, ""), (7, None)):
        assert error_answer(JoinGroupRequest(), version, ERROR) == JoinGroupResponse(
            error_code=FAILED, protocol_name=name
        )


def test_no_list_at_all_has_no_answers() -> None:
    assert error_answer(MetadataRequest(topics=None), 13, ERROR).encode(13)
