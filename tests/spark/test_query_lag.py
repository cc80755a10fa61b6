"""What others see of a query's progress: its lag, and the offsets of its group."""

from __future__ import annotations

import pytest

from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.topic_partition import TopicPartition
from barnabas_spark.reading.stream_reader import GroupProgress
from barnabas_spark.topic_offsets import Offsets, query_lag

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def test_lag_is_what_each_partition_has_more_than_was_read() -> None:
    ours = {
        "description": "PythonMicroBatchStream@1",
        "endOffset": '{"t": {"0": 7}}',
        "latestOffset": {"t": {"0": 10, "1": 4}},
    }
    other = {"description": "RateStreamV2[rowsPerSecond=1]", "endOffset": "5", "latestOffset": "9"}
    assert query_lag({"sources": [other, ours]}) == {T0: 3, T1: 4}
    assert (
        query_lag({"sources": [{"description": "PythonMicroBatchStream@1", "endOffset": None, "latestOffset": None}]})
        == {}
    )
    assert query_lag(None) == {}
    # The first micro-batch, whose end has the query's start.
    ours["endOffset"] = '{"t": {"0": 7}, "(start) t": {"0": 2}}'
    assert query_lag({"sources": [ours]}) == {T0: 3, T1: 4}


class Group:
    """A coordinator that may fail."""

    def __init__(self) -> None:
        self.commits: list[Offsets] = []
        self.fails = False

    def commit(self, group_id: str, offsets: Offsets) -> None:
        assert group_id == "lag"
        if self.fails:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        self.commits.append(offsets)


def test_a_group_is_told_what_is_new_and_a_failed_commit_is_made_up(caplog: pytest.LogCaptureFixture) -> None:
    group, progress = Group(), GroupProgress("lag")
    progress.note({T0: 5, T1: 1}, group)
    progress.note({T0: 5, T1: 1}, group)
    group.fails = True
    progress.note({T0: 6, T1: 1}, group)
    assert "not committed to group lag" in caplog.text
    group.fails = False
    progress.note({T0: 7, T1: 1}, group)
    assert group.commits == [{T0: 5, T1: 1}, {T0: 7}]
