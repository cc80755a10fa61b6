"""Interceptors: what they see, what they may change, and that their errors stop nothing."""

from __future__ import annotations

import pytest

from barnabas.clients.consumer.consumer import Consumer
from barnabas.clients.consumer.consumer_config import ConsumerInterceptor, ConsumerInterceptors
from barnabas.clients.consumer.consumer_record import ConsumerRecord
from barnabas.clients.consumer.group.offset_commits import Offsets
from barnabas.clients.values import OffsetAndMetadata
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.records.record_batch_builder import RecordBatchBuilder
from tests.support.scripted_cluster import TP0, ScriptedCluster
from tests.support.scripted_group import ScriptedGroup


class Recorder(ConsumerInterceptor):
    def __init__(self) -> None:
        self.committed: list[Offsets] = []
        self.closed = 0

    def on_consume(self, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
        return [record for record in records if record.value != b"unwanted"]

    def on_commit(self, offsets: Offsets) -> None:
        self.committed.append(offsets)

    def close(self) -> None:
        self.closed += 1


class Failing(ConsumerInterceptor):
    def on_consume(self, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
        raise RuntimeError("on_consume")

    def on_commit(self, offsets: Offsets) -> None:
        raise RuntimeError("on_commit")

    def close(self) -> None:
        raise RuntimeError("close")


def test_records_pass_all_interceptors_and_errors_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    cluster = ScriptedCluster({"t": [0]})
    builder = RecordBatchBuilder()
    builder.append(1, None, b"wanted")
    builder.append(1, None, b"unwanted")
    cluster.logs["t", 0] = builder.build()
    recorder = Recorder()
    consumer = Consumer(
        "", client=cluster.client(), auto_offset_reset="earliest", interceptor_classes=[Failing(), recorder]
    )
    consumer.assign([TP0])
    assert [record.value for record in consumer.poll(1000)] == [b"wanted"]
    consumer.close()
    assert recorder.closed == 1
    assert "Error executing interceptor on_consume" in caplog.text


def test_an_interceptor_that_returns_no_list_is_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    class Forgetful(ConsumerInterceptor):
        def on_consume(self, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
            return None  # type: ignore[return-value]  # as a function without `return` does

    record = ConsumerRecord("t", 0, 0, 1, 0, None, b"v", ())
    assert ConsumerInterceptors([Forgetful(), Recorder()]).on_consume([record]) == [record]
    assert "on_consume must return a list of records, not None" in caplog.text


def test_no_interceptor_is_refused() -> None:
    with pytest.raises(TypeError, match="on_consume, on_commit and close"):
        Consumer("localhost:1", interceptor_classes=["counter"])  # type: ignore[list-item]


def test_every_commit_is_seen_once_and_those_that_fail_are_not() -> None:
    group = ScriptedGroup({"t": [0]})
    builder = RecordBatchBuilder()
    builder.append(1, None, b"wanted")
    group.cluster.logs["t", 0] = builder.build()
    recorder = Recorder()
    consumer = group.consumer(interceptor_classes=[Failing(), recorder], auto_commit_interval_ms=10**9)
    consumer.subscribe(["t"])
    for _ in range(100):
        if consumer.poll(20):
            break
    in_order: list[str] = []
    consumer.commit_async({TP0: OffsetAndMetadata(0)}, lambda offsets, error: in_order.append("callback"))
    consumer.commit_sync({TP0: OffsetAndMetadata(1)})
    assert [offsets[TP0].offset for offsets in recorder.committed] == [0, 1]
    assert in_order == ["callback"]
    group.group_errors[ApiKey.OFFSET_COMMIT] = [ErrorCode.GROUP_AUTHORIZATION_FAILED]
    with pytest.raises(ApiError):
        consumer.commit_sync({TP0: OffsetAndMetadata(1)})
    assert len(recorder.committed) == 2
    # The last commit is the automatic one of a consumer that closes.
    consumer.close()
    assert [offsets[TP0].offset for offsets in recorder.committed] == [0, 1, 1]
