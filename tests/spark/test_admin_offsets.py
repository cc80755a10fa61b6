"""The driver's questions about offsets: how often they are asked, and what is said at the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from barnabas.clients.calls.offset_lookup import OffsetAndTimestamp
from barnabas.clients.errors import ClientTimeout, Unreachable
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.topic_partition import TopicPartition
from barnabas_spark.options.source_options import ConnectionOptions, OffsetRetries
from barnabas_spark.reading.admin_offsets import AdminOffsets
from barnabas_spark.reading.starting_offsets import TopicMissing

T0 = TopicPartition("t", 0)
CONNECTION = ConnectionOptions(("127.0.0.1:9",), "test", 30_000, 60_000, bootstrap_timeout_ms=50)


class Answers(AdminOffsets):
    """Questions that are answered by the errors and values of a list, and the pauses between them."""

    def __init__(self, answers: Sequence[Any], attempts: int = 3, connection: ConnectionOptions = CONNECTION) -> None:
        self.pauses: list[float] = []
        super().__init__(connection, OffsetRetries(attempts, 250), self.pauses.append)
        self._answers = list(answers)

    def _question(self, question: Callable[[Any], Any]) -> Any:
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def test_a_question_is_asked_again_after_an_error() -> None:
    lost = ApiError(ErrorCode.LEADER_NOT_AVAILABLE)
    offsets = Answers([lost, lost, ["t"]])
    assert offsets.topics() == ["t"]
    assert offsets.pauses == [0.25, 0.25]
    with pytest.raises(ApiError, match=r".*"):
        Answers([lost, lost], attempts=2).topics()


def test_a_question_is_asked_again_after_a_timeout_but_not_where_no_broker_is() -> None:
    late = ClientTimeout("no answer in time")
    offsets = Answers([late, ["t"]])
    assert offsets.topics() == ["t"]
    assert offsets.pauses == [0.25]
    with pytest.raises(ClientTimeout, match="no answer"):
        Answers([late, late], attempts=2).topics()
    nowhere = Answers([Unreachable("no broker"), ["t"]])
    with pytest.raises(Unreachable):
        nowhere.topics()
    assert nowhere.pauses == []


def test_a_topic_that_is_gone_is_named_with_what_the_query_reads() -> None:
    gone = ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "No such topic. Topic: u")
    with pytest.raises(TopicMissing, match=r"Topic: u\. .*does not exist, or was deleted.*reads t, u"):
        Answers([gone], attempts=1).partitions(["t", "u"])


def test_an_end_before_what_was_read_is_asked_for_again() -> None:
    """A replica that has just become the leader may not know the high watermark yet."""
    behind = {T0: OffsetAndTimestamp(5, -1)}
    offsets = Answers([behind, {T0: OffsetAndTimestamp(9, -1)}])
    assert offsets.latest_from({T0: 9}, [T0]) == {T0: 9}
    assert offsets.pauses == [0.25]
    assert Answers([behind, behind, behind]).latest_from({T0: 9}, [T0]) == {T0: 5}


def test_an_open_transaction_is_no_loss_for_a_query_that_read_further() -> None:
    """It read uncommitted records up to 9 before it was told to read committed ones; the log ends at 10, or at 8."""
    stable, written, cut = ({T0: OffsetAndTimestamp(end, -1)} for end in (5, 10, 8))
    committed = replace(CONNECTION, isolation_level="read_committed")
    assert Answers([stable, written], connection=committed).latest_from({T0: 9}, [T0]) == {T0: 9}
    assert Answers([stable, cut], attempts=1, connection=committed).latest_from({T0: 9}, [T0]) == {T0: 5}
    assert Answers([written], connection=committed).at_least_read({T0: 9}, {T0: 5}) == {T0: 9}
    assert Answers([], connection=committed).at_least_read({T0: 4}, {T0: 5}) == {T0: 5}
    assert Answers([]).at_least_read({T0: 9}, {T0: 5}) == {T0: 5}


def test_brokers_that_cannot_be_reached_fail_soon() -> None:
    offsets = AdminOffsets(CONNECTION, OffsetRetries(3, 250))
    with pytest.raises(Unreachable, match=r"127\.0\.0\.1:9"):
        offsets.topics()
    offsets.close()
