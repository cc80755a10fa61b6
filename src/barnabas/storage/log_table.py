"""The logs that are open: by partition, by topic, and by log directory.

A partition has one current log, which serves requests, and one future log while it moves to another log directory. All
methods that do not say otherwise are about current logs; those about a log directory are about both kinds. Both logs of
a partition lie in one log directory only where a start without the current log's directory made the log anew beside its
copy, until the partition is opened and the copy dropped.

Owned by LogManager. Any thread looks logs up without a lock (one look-up in a dictionary is atomic). Changes, one key
at a time, and copies are made under `_lock`; no other lock is taken inside it. Kafka: LogManager's pools of logs.
"""

from __future__ import annotations

import threading

from barnabas.protocol.topic_partition import TopicPartition
from barnabas.storage.log.unified_log import UnifiedLog


class LogTable:
    """One current log per partition, and at most one future log."""

    __slots__ = ("_by_dir", "_by_topic", "_futures", "_lock", "_logs", "get", "get_future")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._logs: dict[TopicPartition, UnifiedLog] = {}
        self._futures: dict[TopicPartition, UnifiedLog] = {}
        self._by_dir: dict[str, dict[UnifiedLog, None]] = {}
        """The logs of each log directory, in the order in which they came."""
        self._by_topic: dict[str, dict[int, UnifiedLog]] = {}
        # The dictionary's own method: requests look logs up, and save the call of a Python function.
        self.get = self._logs.get
        """Look up a partition's log; None when there is none."""
        self.get_future = self._futures.get
        """Look up a partition's future log; None when there is none."""

    def add(self, log: UnifiedLog) -> UnifiedLog | None:
        """Add a log of either kind; if the partition has one of this kind, return that one and change nothing."""
        key = log.topic_partition
        with self._lock:
            # Of two threads that load or make the same log, one wins, and the other one gets the winner's.
            present = (self._futures if log.is_future else self._logs).setdefault(key, log)
            if present is not log:
                return present
            self._by_dir.setdefault(log.parent_dir, {})[log] = None
            if not log.is_future:
                self._by_topic.setdefault(key.topic, {})[key.partition] = log
            return None

    def remove(self, topic_partition: TopicPartition) -> UnifiedLog | None:
        """Remove and return a log; None when there is none."""
        with self._lock:
            log = self._logs.pop(topic_partition, None)
            if log is not None:
                del self._by_dir[log.parent_dir][log]
                self._remove_from_topic(topic_partition)
            return log

    def remove_future(self, topic_partition: TopicPartition) -> UnifiedLog | None:
        """Remove and return a future log; None when there is none."""
        with self._lock:
            log = self._futures.pop(topic_partition, None)
            if log is not None:
                del self._by_dir[log.parent_dir][log]
            return log

    def take_place(self, log: UnifiedLog, source: str) -> None:
        """Note that a log in the table has left `source` for the log directory of its future log, and has its place."""
        key = log.topic_partition
        with self._lock:
            del self._by_dir[log.parent_dir][self._futures.pop(key)]
            del self._by_dir[source][log]
            self._by_dir[log.parent_dir][log] = None

    def remove_dir(self, log_dir: str) -> list[UnifiedLog]:
        """Remove and return the logs of a log directory, current and future."""
        with self._lock:
            removed = self._by_dir.pop(log_dir, {})
            for log in removed:
                key = log.topic_partition
                if log.is_future:
                    del self._futures[key]
                else:
                    del self._logs[key]
                    self._remove_from_topic(key)
            return list(removed)

    def all(self) -> list[UnifiedLog]:
        """Return every log, as of now."""
        with self._lock:
            return list(self._logs.values())

    def futures(self) -> list[UnifiedLog]:
        """Return every future log, as of now."""
        with self._lock:
            return list(self._futures.values())

    def of_topic(self, topic: str) -> list[UnifiedLog]:
        """Return the logs of a topic, current and future, as of now."""
        with self._lock:
            futures = [log for key, log in self._futures.items() if key.topic == topic]
            return [*self._by_topic.get(topic, {}).values(), *futures]

    def any_of_topic(self, topic: str) -> UnifiedLog | None:
        """Return a log of the topic; None when there is none."""
        with self._lock:
            return next(iter(self._by_topic.get(topic, {}).values()), None)

    def in_dir(self, log_dir: str) -> list[UnifiedLog]:
        """Return the logs of a log directory, current and future, as of now."""
        with self._lock:
            return list(self._by_dir.get(log_dir, {}))

    def count_in(self, log_dir: str) -> int:
        """Return the number of logs in a log directory, current and future."""
        with self._lock:
            return len(self._by_dir.get(log_dir, {}))

    def _remove_from_topic(self, key: TopicPartition) -> None:
        of_topic = self._by_topic[key.topic]
        del of_topic[key.partition]
        if not of_topic:
            del self._by_topic[key.topic]
