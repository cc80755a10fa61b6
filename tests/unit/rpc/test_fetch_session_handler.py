"""Our side of a fetch session: what is told, what is left out, and how it goes on after each kind of answer."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.protocol.uuid import ZERO_UUID
from barnabas.rpc.fetch_request import FetchLimits, FetchPosition
from barnabas.rpc.fetch_session_handler import FetchSessionHandler

LIMITS = FetchLimits(500, 1, 1 << 20)
SESSION = 77
NAMED = 12
"""The last version that names topics."""


def positions(*wanted: tuple[str, int, int]) -> list[FetchPosition]:
    return [FetchPosition(TopicPartition(topic, partition), offset, 1000, 3) for topic, partition, offset in wanted]


def named(request: FetchRequest) -> list[tuple[str, int, int]]:
    return [(topic.topic, each.partition, each.fetch_offset) for topic in request.topics for each in topic.partitions]


def forgotten(request: FetchRequest) -> set[tuple[str, int]]:
    return {(topic.topic, partition) for topic in request.forgotten_topics_data for partition in topic.partitions}


def place(request: FetchRequest) -> tuple[int, int]:
    return request.session_id, request.session_epoch


def answer(
    *answered: tuple[str, int], session_id: int = SESSION, error: ErrorCode = ErrorCode.NONE, throttle_time_ms: int = 0
) -> FetchResponse:
    topics: dict[str, list[FetchResponse.PartitionData]] = {}
    for topic, partition in answered:
        topics.setdefault(topic, []).append(FetchResponse.PartitionData(partition_index=partition))
    responses = [FetchResponse.FetchableTopicResponse(topic=name, partitions=each) for name, each in topics.items()]
    return FetchResponse(
        error_code=error, session_id=session_id, responses=responses, throttle_time_ms=throttle_time_ms
    )


def build(handler: FetchSessionHandler, wanted: list[FetchPosition], version: int = NAMED) -> FetchRequest:
    request = handler.build(wanted).builder(LIMITS).build(version)
    assert isinstance(request, FetchRequest)
    return request


def in_session(*wanted: tuple[str, int, int]) -> FetchSessionHandler:
    handler = FetchSessionHandler(0)
    assert place(build(handler, positions(*wanted))) == (0, 0)
    assert handler.handle_response(answer(*{(topic, partition) for topic, partition, _ in wanted}), NAMED)
    return handler


def test_only_differences_are_told() -> None:
    handler = in_session(("a", 0, 10), ("a", 1, 20), ("b", 0, 30))
    request = build(handler, positions(("a", 0, 10), ("a", 1, 25), ("c", 0, 0)))
    assert place(request) == (SESSION, 1)
    assert named(request) == [("a", 1, 25), ("c", 0, 0)]
    assert forgotten(request) == {("b", 0)}
    assert set(handler.partitions) == {TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("c", 0)}
    assert handler.handle_response(answer(("c", 0)), NAMED)
    request = build(handler, positions(("a", 0, 10), ("a", 1, 25), ("c", 0, 0)))
    assert (place(request), named(request), forgotten(request)) == ((SESSION, 2), [], set())


def test_a_partition_that_comes_back_is_told_again() -> None:
    handler = in_session(("a", 0, 10), ("a", 1, 20))
    assert forgotten(build(handler, positions(("a", 0, 10)))) == {("a", 1)}
    assert handler.handle_response(answer(), NAMED)
    assert named(build(handler, positions(("a", 0, 10), ("a", 1, 20)))) == [("a", 1, 20)]


def test_a_new_leader_epoch_is_told() -> None:
    handler = in_session(("a", 0, 10))
    moved = [each._replace(leader_epoch=4) for each in positions(("a", 0, 10))]
    assert named(build(handler, moved)) == [("a", 0, 10)]


def test_a_broker_without_sessions_is_asked_for_everything() -> None:
    handler = FetchSessionHandler(0)
    for _ in range(2):
        assert place(build(handler, positions(("a", 0, 1)))) == (0, 0)
        assert handler.handle_response(answer(("a", 0), session_id=0), NAMED)
    assert handler.session_id == 0


def test_a_session_that_the_broker_ends_begins_anew() -> None:
    handler = in_session(("a", 0, 1))
    build(handler, positions(("a", 0, 1)))
    assert handler.handle_response(answer(session_id=0), NAMED)
    request = build(handler, positions(("a", 0, 1)))
    assert (place(request), named(request)) == ((0, 0), [("a", 0, 1)])


@pytest.mark.parametrize(
    ("error", "expected"),
    [(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, (0, 0)), (ErrorCode.INVALID_FETCH_SESSION_EPOCH, (SESSION, 0))],
)
def test_after_an_error_everything_is_told(error: ErrorCode, expected: tuple[int, int]) -> None:
    handler = in_session(("a", 0, 1))
    build(handler, positions(("a", 0, 1)))
    assert not handler.handle_response(answer(session_id=0, error=error), NAMED)
    request = build(handler, positions(("a", 0, 1)))
    assert (place(request), named(request)) == (expected, [("a", 0, 1)])


def test_after_a_lost_connection_the_session_is_replaced() -> None:
    handler = in_session(("a", 0, 1))
    build(handler, positions(("a", 0, 2)))
    handler.handle_error()
    request = build(handler, positions(("a", 0, 2)))
    assert (place(request), named(request)) == ((SESSION, 0), [("a", 0, 2)])


@pytest.mark.parametrize("answered", [[("a", 0)], [("a", 0), ("a", 1), ("b", 0)]])
def test_a_full_answer_must_be_complete(answered: Iterable[tuple[str, int]]) -> None:
    handler = FetchSessionHandler(0)
    build(handler, positions(("a", 0, 1), ("a", 1, 1)))
    assert not handler.handle_response(answer(*answered), NAMED)
    assert place(build(handler, positions(("a", 0, 1)))) == (0, 0)


def test_an_answer_in_a_session_has_nothing_else() -> None:
    handler = in_session(("a", 0, 1))
    build(handler, positions(("a", 0, 1)))
    assert not handler.handle_response(answer(("b", 0)), NAMED)
    assert place(build(handler, positions(("a", 0, 1)))) == (SESSION, 0)


def test_a_throttled_full_answer_is_asked_for_again() -> None:
    handler = FetchSessionHandler(0)
    build(handler, positions(("a", 0, 1)))
    assert not handler.handle_response(answer(session_id=0, throttle_time_ms=100), NAMED)
    request = build(handler, positions(("a", 0, 1)))
    assert (place(request), named(request)) == ((0, 0), [("a", 0, 1)])


def test_a_throttled_answer_in_a_session_is_an_answer() -> None:
    handler = in_session(("a", 0, 1))
    build(handler, positions(("a", 0, 1)))
    assert handler.handle_response(answer(throttle_time_ms=100), NAMED)
    assert place(build(handler, positions(("a", 0, 1)))) == (SESSION, 2)


def test_epochs_wrap_around() -> None:
    handler = in_session(("a", 0, 1))
    handler._next = handler._next._replace(epoch=2**31 - 1)
    build(handler, positions(("a", 0, 1)))
    assert handler.handle_response(answer(), NAMED)
    assert place(build(handler, positions(("a", 0, 1)))) == (SESSION, 1)


def test_closing() -> None:
    handler = in_session(("a", 0, 1))
    request = handler.closing_request(LIMITS)
    assert request is not None
    assert (place(request), named(request)) == ((SESSION, -1), [])
    assert handler.closing_request(LIMITS) is None
    assert b"".join(request.encode(7))


# -- topic ids (KIP-516)

BY_ID = 13


def with_ids(*wanted: tuple[str, int, bytes]) -> list[FetchPosition]:
    return [FetchPosition(TopicPartition(topic, number), 1, 1000, 3, topic_id) for topic, number, topic_id in wanted]


def answer_by_id(topic_id: bytes) -> FetchResponse:
    topic = FetchResponse.FetchableTopicResponse(
        topic_id=topic_id, partitions=[FetchResponse.PartitionData(partition_index=0)]
    )
    return FetchResponse(session_id=SESSION, responses=[topic])


def test_ids_are_used_if_every_partition_has_one() -> None:
    handler = FetchSessionHandler(0)
    assert not handler.build(with_ids(("a", 0, b"A" * 16), ("b", 0, ZERO_UUID))).uses_topic_ids
    data = handler.build(with_ids(("a", 0, b"A" * 16)))
    assert data.uses_topic_ids
    assert handler.handle_response(answer_by_id(b"A" * 16), BY_ID)
    assert handler.topic_name(answer_by_id(b"A" * 16).responses[0], BY_ID) == "a"
    # An id that the session does not have is a partition too many.
    assert not handler.handle_response(answer_by_id(b"B" * 16), BY_ID)


def test_a_partition_that_was_named_leaves_the_session_by_its_name() -> None:
    handler = FetchSessionHandler(0)
    handler.build(with_ids(("a", 0, ZERO_UUID)))
    assert handler.handle_response(answer(("a", 0)), NAMED)
    data = handler.build(with_ids(("b", 0, b"B" * 16)))
    assert not data.uses_topic_ids
    assert data.builder(LIMITS).versions[1] == NAMED


def test_a_topic_with_another_id_replaces_the_old_one() -> None:
    handler = FetchSessionHandler(0)
    handler.build(with_ids(("a", 0, b"A" * 16)))
    assert handler.handle_response(answer_by_id(b"A" * 16), BY_ID)
    builder = handler.build(with_ids(("a", 0, b"B" * 16))).builder(LIMITS)
    request = builder.build(BY_ID)
    assert isinstance(request, FetchRequest)
    assert [topic.topic_id for topic in request.topics] == [b"B" * 16]
    assert [topic.topic_id for topic in request.forgotten_topics_data] == [b"A" * 16]
    # By names, the old and the new topic are the same one, which must not be forgotten.
    named_request = builder.build(NAMED)
    assert isinstance(named_request, FetchRequest)
    assert not named_request.forgotten_topics_data
