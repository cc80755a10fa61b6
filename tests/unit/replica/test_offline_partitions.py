"""Partitions whose log directory fails: what they answer, who waits for them, and what the controller is told."""

from __future__ import annotations

import errno

import pytest

from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.replica.partitions.partition_fetch import PartitionFetch
from barnabas.storage.storage_metrics import LogMetrics
from tests.support.simulated_files import SimulatedFiles
from tests.unit.replica.replica_harness import ANOTHER, US, Replicas
from tests.unit.storage.log_harness import Broker, batch, fault_once

BROKEN = OSError(errno.EIO, "broken")


def _two_dirs() -> tuple[Replicas, str, str]:
    """Partition 0 lies in the first directory returned, 1 in the second."""
    replicas = Replicas(Broker(log_dirs=("/a", "/b")))
    for partition in (0, 1):
        replicas.announce("topic", partition, US)
        assert _code(replicas.lead(partition=partition, isr=(US, ANOTHER))) is ErrorCode.NONE
    log_dirs = [replicas.partition(partition=number).log.parent_dir for number in (0, 1)]
    return replicas, *log_dirs


def _code(response: object) -> ErrorCode:
    ((error,),) = [topic.partition_errors for topic in response.topics]  # type: ignore[attr-defined]
    return ErrorCode(error.error_code)


def _disk(replicas: Replicas) -> SimulatedFiles:
    assert isinstance(replicas.broker.files, SimulatedFiles)
    return replicas.broker.files


def test_a_disk_error_takes_the_directory_out_and_answers_who_waits() -> None:
    replicas, failing, working = _two_dirs()
    waiting_produce = replicas.append(("topic", 0, batch()), acks=-1)
    waiting_fetch = replicas.fetch(PartitionFetch("topic", 0, 0, 1000), max_wait_ms=500)
    assert not waiting_produce
    assert not waiting_fetch
    _disk(replicas).fault = fault_once("write", BROKEN, ".log")
    (refused,) = replicas.append(("topic", 0, batch()))
    assert refused.error is ErrorCode.KAFKA_STORAGE_ERROR
    assert replicas.broker.failed_dirs == [failing]

    replicas.manager.orders.handle_log_dir_failure(failing)
    assert [entry.error for entry in waiting_produce] == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert [fetch.error for fetch in waiting_fetch] == [ErrorCode.KAFKA_STORAGE_ERROR]
    with pytest.raises(ApiError) as caught:
        replicas.partition(partition=0)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert replicas.manager.offline_partition_count == 1
    # told to lead it, or to delete it, the broker says why it cannot; so the controller learns of it
    assert _code(replicas.lead(partition=0, leader_epoch=1, is_new=False)) is ErrorCode.KAFKA_STORAGE_ERROR
    (stopped,) = replicas.stop(partition=0).partition_errors
    assert stopped.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    (appended,) = replicas.append(("topic", 1, batch()))
    assert appended.error is ErrorCode.NONE
    assert replicas.broker.manager.directories.online_paths() == [working]


def test_checkpoints_skip_a_failed_directory() -> None:
    replicas, failing, working = _two_dirs()
    replicas.manager.orders.handle_log_dir_failure(failing)
    _disk(replicas).calls.clear()
    replicas.manager.checkpoint_high_watermarks()
    assert _disk(replicas).exists(f"{working}/replication-offset-checkpoint")
    assert not _disk(replicas).exists(f"{failing}/replication-offset-checkpoint")


def test_a_checkpoint_that_cannot_be_written_takes_the_directory_out_unless_the_disk_is_full() -> None:
    replicas, *_ = _two_dirs()
    for error, failed in ((OSError(errno.ENOSPC, "full"), []), (BROKEN, ["/a"])):
        _disk(replicas).fault = fault_once("open", error, "/a/replication-offset-checkpoint.tmp")
        replicas.manager.checkpoint_high_watermarks()
        assert replicas.broker.failed_dirs == failed


def test_nothing_is_written_while_no_watermark_moves() -> None:
    replicas, *_ = _two_dirs()
    replicas.lead(partition=0, leader_epoch=1)
    replicas.append(("topic", 0, batch()))
    replicas.manager.checkpoint_high_watermarks()
    _disk(replicas).calls.clear()
    replicas.manager.checkpoint_high_watermarks()
    assert not _disk(replicas).calls
    replicas.append(("topic", 0, batch()))
    replicas.manager.checkpoint_high_watermarks()
    assert _disk(replicas).calls["sync_dir"] == 1


def test_a_partition_that_may_lie_in_a_dead_directory_is_not_made_anew() -> None:
    replicas, failing, _ = _two_dirs()
    replicas.manager.orders.handle_log_dir_failure(failing)
    assert _code(replicas.lead("old", 7, is_new=False)) is ErrorCode.KAFKA_STORAGE_ERROR
    with pytest.raises(ApiError) as caught:
        replicas.partition("old", 7)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert _code(replicas.lead("new", 7, is_new=True)) is ErrorCode.NONE
    # one that is gone without a trace may lie there too
    (stopped,) = replicas.stop("unheard-of", 0).partition_errors
    assert stopped.error_code == ErrorCode.KAFKA_STORAGE_ERROR


def test_a_high_watermark_that_cannot_be_read_is_a_failed_directory() -> None:
    replicas, *_ = _two_dirs()
    replicas.append(("topic", 0, batch()), ("topic", 1, batch()))
    replicas.manager.checkpoint_high_watermarks()
    again = Replicas(replicas.broker)
    _disk(replicas).fault = lambda _call, path: BROKEN if path == "/a/replication-offset-checkpoint" else None
    codes = {
        again.broker.manager.get_log(TopicPartition("topic", number)).parent_dir: _code(  # type: ignore[union-attr]
            again.lead(partition=number, is_new=False)
        )
        for number in (0, 1)
    }
    assert codes == {"/a": ErrorCode.KAFKA_STORAGE_ERROR, "/b": ErrorCode.NONE}
    assert again.broker.failed_dirs == ["/a"]


def test_log_dirs_are_described() -> None:
    replicas, failing, working = _two_dirs()
    replicas.append(("topic", 0, batch()), ("topic", 1, batch(3)))
    sizes = {number: replicas.partition(partition=number).log.local.segments.size for number in (0, 1)}
    both = replicas.manager.describe_log_dirs(None)
    assert [(one.path, one.error) for one in both] == [("/a", ErrorCode.NONE), ("/b", ErrorCode.NONE)]
    assert all(0 < one.usable_bytes <= one.total_bytes for one in both)
    assert {size.topic_partition.partition: size.size for one in both for size in one.replicas} == sizes
    assert {(size.offset_lag, size.is_future) for one in both for size in one.replicas} == {(0, False)}

    replicas.manager.orders.handle_log_dir_failure(failing)
    chosen = {one.path: one for one in replicas.manager.describe_log_dirs([TopicPartition("topic", 0)])}
    assert chosen[failing] == (failing, ErrorCode.KAFKA_STORAGE_ERROR, -1, -1, [])
    assert chosen[working].replicas == []


def test_a_future_log_is_described_and_goes_with_its_directory() -> None:
    broker = Broker(log_dirs=("/a", "/b"))
    assert isinstance(broker.files, SimulatedFiles)
    for number in (0, 1):
        broker.files.make_dirs(f"/b/topic-{number}.{'0f' * 16}-future")
    broker.files.make_dirs("/a/topic-0")
    broker.start()
    replicas = Replicas(broker)
    replicas.manager.moves().shutdown()  # the future log stays one
    replicas.announce("topic", 0, US)
    assert _code(replicas.lead(is_new=False)) is ErrorCode.NONE
    replicas.append(("topic", 0, batch(3)))
    in_a, in_b = replicas.manager.describe_log_dirs(None)
    assert [(size.topic_partition.partition, size.offset_lag, size.is_future) for size in in_a.replicas] == [
        (0, 0, False)
    ]
    # Partition 1 has no current log here, so nothing says how much its future log lacks.
    described = {size.topic_partition.partition: (size.offset_lag, size.is_future) for size in in_b.replicas}
    assert described == {0: (3, True), 1: (-1, True)}
    of_futures = [
        (sample.name.tags, sample.value)
        for sample in LogMetrics(broker.manager).samples()
        if sample.name.name == "LogEndOffset" and ("is-future", "true") in sample.name.tags
    ]
    assert sorted(value for _, value in of_futures) == [0, 0]

    replicas.manager.orders.handle_log_dir_failure("/b")
    assert replicas.manager.offline_partition_count == 0
    (appended,) = replicas.append(("topic", 0, batch()))
    assert appended.error is ErrorCode.NONE
    assert replicas.stop().partition_errors[0].error_code == ErrorCode.NONE
