"""A thread that reads a topic in a group, commits as it goes, and notes what it saw and what was acknowledged.

Its consumer may lose its place in the group at any time. It then goes on at the committed offset, so it may read
records again, but none below an offset whose commit was acknowledged: committed offsets never go back.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from tests.chaos.group_consumers import GroupConsumer

_POLL_SECONDS = 0.2


class CommittedRange(NamedTuple):
    """The offsets that a group may have committed in a partition: at least what was acknowledged, at most what was sent
    with a commit."""

    acknowledged: int
    attempted: int


class GroupReader:
    """The reader of one topic. The thread alone writes; the campaign reads single items, and waits for `seen`."""

    def __init__(self, topic: str, partitions: int, group: str, make_consumer: Callable[[], GroupConsumer]) -> None:
        self.topic = topic
        self.group = group
        self.seen: list[dict[int, bytes]] = [{} for _ in range(partitions)]
        """The values by offset, of each partition."""
        self.reread = 0
        self.commits = 0
        self.failed_commits = 0
        self.failure: BaseException | None = None
        self._acknowledged = [0] * partitions
        self._attempted = [0] * partitions
        self._make_consumer = make_consumer
        self._is_ended = False
        self._thread = threading.Thread(target=self._run, name=f"reader-{topic}", daemon=True)

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def close(self, timeout_seconds: float = 60) -> None:
        """End the thread."""
        self._is_ended = True
        if self._thread.is_alive():
            self._thread.join(timeout_seconds)

    def committed_range(self, partition: int) -> CommittedRange:
        """Return what the group may have committed. Read it before the group is asked."""
        return CommittedRange(self._acknowledged[partition], self._attempted[partition])

    def wait_for(self, partition: int, offsets: AbstractSet[int], timeout_seconds: float) -> None:
        """Wait until the records at these offsets were read. Raises AssertionError: not in time."""
        deadline = time.monotonic() + timeout_seconds
        while missing := offsets - self.seen[partition].keys():
            assert self.failure is None, self.failure
            assert time.monotonic() < deadline, (
                f"{self.topic}-{partition}: group {self.group} has not read {len(missing)} committed records after"
                f" {timeout_seconds} s, the first at {min(missing)}"
            )
            time.sleep(0.05)
        assert self.failure is None, self.failure

    def _run(self) -> None:
        try:
            consumer = self._make_consumer()
            try:
                while not self._is_ended:
                    self._read_some(consumer)
            finally:
                consumer.close()
        except BaseException as error:
            self.failure = error
            raise

    def _read_some(self, consumer: GroupConsumer) -> None:
        positions: dict[int, int] = {}
        for partition, offset, value in consumer.poll(_POLL_SECONDS):
            floor = self._acknowledged[partition]
            assert offset >= floor, (
                f"{self.topic}-{partition}: group {self.group} reads offset {offset} again, and {floor} is committed"
            )
            before = self.seen[partition].setdefault(offset, value)
            assert before == value, f"{self.topic}-{partition}: two values at {offset}: {before[:40]!r}, {value[:40]!r}"
            positions[partition] = max(offset + 1, positions.get(partition, 0))
        if positions:
            self._commit(consumer, positions)

    def _commit(self, consumer: GroupConsumer, positions: Mapping[int, int]) -> None:
        for partition, offset in positions.items():
            self._attempted[partition] = max(self._attempted[partition], offset)
        if consumer.commit(positions):
            self.commits += 1
            for partition, offset in positions.items():
                self._acknowledged[partition] = max(self._acknowledged[partition], offset)
        else:
            self.failed_commits += 1
