"""Orders to move logs between directories: a repeated order has one thread, and ends none."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.replica.log_dir_moves import LogDirMoves
from tests.support.waiting import wait_until

SLOW, QUICK = TopicPartition("slow", 0), TopicPartition("quick", 0)
OLD, NEW, OTHER = "/old", "/new", "/other"
SECONDS = 60


class Logs:
    """Logs of two partitions; a copy of SLOW lasts until `may_end`. copied: the partition of each copy that began."""

    def __init__(self) -> None:
        self.may_end = threading.Event()
        self.copied: list[TopicPartition] = []
        self.copying: list[TopicPartition] = []
        self.most_at_once = 0
        self.moved: list[tuple[TopicPartition, str]] = []
        self._copies: dict[TopicPartition, Any] = {}
        self._lock = threading.Lock()
        self.partitions = {
            key: SimpleNamespace(
                topic_partition=key, log=SimpleNamespace(topic_partition=key, parent_dir=OLD, log_end_offset=0)
            )
            for key in (SLOW, QUICK)
        }
        self.futures: Any = SimpleNamespace(
            get=self._copies.get, all=list, check_directory=lambda _dir: None, prefer=None, copy=self.copy
        )

    def begin_move(self, log: Any, log_dir: str) -> None:
        self._copies[log.topic_partition] = SimpleNamespace(
            topic_partition=log.topic_partition, parent_dir=log_dir, log_end_offset=0
        )

    def give_up_move(self, key: TopicPartition) -> None:
        self._copies.pop(key, None)

    def copy(self, log: Any, _future: Any, _most: int) -> int:
        key = log.topic_partition
        with self._lock:
            self.copied.append(key)
            self.copying.append(key)
            self.most_at_once = max(self.most_at_once, self.copying.count(key))
        if key == SLOW:
            assert self.may_end.wait(SECONDS)
        with self._lock:
            self.copying.remove(key)
        return 0

    def complete_move(self, log: Any, future: Any) -> bool:
        held = self._copies.get(log.topic_partition)
        if held is None or held is not future:
            return False  # given up, or for another directory by now
        self.give_up_move(log.topic_partition)
        log.parent_dir = held.parent_dir
        self.moved.append((log.topic_partition, held.parent_dir))
        return True


def moves_of(logs: Logs, threads: int = 4) -> LogDirMoves:
    hosted: Any = SimpleNamespace(
        offline=SimpleNamespace(check=lambda _key: None),
        get=logs.partitions.get,
        partition_or_error=lambda topic, number: logs.partitions[TopicPartition(topic, number)],
    )
    quota: Any = SimpleNamespace(is_exceeded=False, record=lambda _count: None)
    manager: Any = logs
    return LogDirMoves(hosted, manager, quota, threads, lambda: None)


def test_a_repeated_order_is_no_second_move() -> None:
    logs = Logs()
    moves = moves_of(logs)
    try:
        for _ in range(4):
            assert moves.alter({SLOW: NEW}) == {SLOW: ErrorCode.NONE}
            wait_until(lambda: logs.copying == [SLOW], seconds=SECONDS)
        # Another thread has looked at what waits when this one has moved: it took no part in the first move.
        moves.alter({QUICK: NEW})
        wait_until(lambda: (QUICK, NEW) in logs.moved, seconds=SECONDS)
        assert logs.copied.count(SLOW) == 1
        logs.may_end.set()
        wait_until(lambda: (SLOW, NEW) in logs.moved, seconds=SECONDS)
        assert moves.dead_threads == 0
        assert logs.moved.count((SLOW, NEW)) == 1
        assert logs.most_at_once == 1
    finally:
        logs.may_end.set()
        moves.shutdown()


def test_an_order_for_another_directory_is_carried_out_after_the_first() -> None:
    logs = Logs()
    moves = moves_of(logs)
    try:
        moves.alter({SLOW: NEW})
        wait_until(lambda: logs.copying == [SLOW], seconds=SECONDS)
        moves.alter({SLOW: OTHER})
        logs.may_end.set()
        wait_until(lambda: logs.moved == [(SLOW, OTHER)], seconds=SECONDS)
        moves.alter({SLOW: OLD})
        wait_until(lambda: logs.moved[-1] == (SLOW, OLD), seconds=SECONDS)
        assert (moves.dead_threads, logs.most_at_once) == (0, 1)
    finally:
        logs.may_end.set()
        moves.shutdown()
