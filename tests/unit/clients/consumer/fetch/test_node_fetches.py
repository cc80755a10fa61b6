"""When a node is asked for records, and whether it may wait for some."""

from __future__ import annotations

from barnabas.clients.consumer.fetch.node_fetches import FetchPlan, NodeFetches
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.rpc.fetch_request import FetchPosition

MAX_WAIT_MS = 500


def plan(unread_bytes: int = 0, *, has_more: bool = False, wanted: bool = True) -> FetchPlan:
    made = FetchPlan()
    made.unread_bytes = unread_bytes
    made.has_more = has_more
    if wanted:
        made.positions.append(FetchPosition(TopicPartition("t", 0), 0, 1000))
    return made


def after_answer(record_bytes: int, unread_bytes: int) -> NodeFetches:
    """The fetches of a node that answered at 0 ms, with what is buffered then."""
    fetches = NodeFetches(0, MAX_WAIT_MS)
    fetches.sent(0)
    assert fetches.wait_ms(plan(unread_bytes), 0) is None, "in flight"
    fetches.answered(record_bytes)
    fetches.wait_ms(plan(unread_bytes, wanted=False), 0)
    return fetches


def test_only_a_node_with_nothing_buffered_and_nothing_known_may_wait() -> None:
    assert NodeFetches(0, MAX_WAIT_MS).wait_ms(plan(), 0) == MAX_WAIT_MS
    assert after_answer(1000, 1000).wait_ms(plan(), 1) == MAX_WAIT_MS
    assert after_answer(1000, 1000).wait_ms(plan(has_more=True), 1) == 0
    assert after_answer(1000, 1000).wait_ms(plan(1), 1) == 0
    assert after_answer(1000, 1000).wait_ms(plan(wanted=False), 1) is None


def test_half_of_the_buffered_records_are_read_first() -> None:
    fetches = after_answer(1000, 1000)
    assert fetches.wait_ms(plan(501, has_more=True), 1) is None
    assert fetches.wait_ms(plan(500, has_more=True), 1) == 0


def test_an_answer_without_records_is_not_repeated_until_the_buffer_is_empty() -> None:
    fetches = after_answer(0, 1000)
    assert fetches.wait_ms(plan(10), 1) is None
    assert fetches.wait_ms(plan(10, has_more=True), 1) == 0
    assert fetches.wait_ms(plan(), 1) == MAX_WAIT_MS


def test_partitions_without_records_are_asked_for_while_others_are_read_slowly() -> None:
    fetches = after_answer(0, 1000)
    assert fetches.wait_ms(plan(1000), MAX_WAIT_MS - 1) is None
    assert fetches.wait_ms(plan(1000), MAX_WAIT_MS) == 0
