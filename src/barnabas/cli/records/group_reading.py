"""`barnabas consume --group`: reads as a member of a group, and commits the records that were written.

Called by the consume command, on the main thread.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import click

from barnabas.cli.client_options import BOOTSTRAP_TIMEOUT_MS, command_settings

if TYPE_CHECKING:
    from barnabas.clients.consumer import Consumer, ConsumerRecord
    from barnabas.clients.consumer.consumer_settings import ConsumerSettings
    from barnabas.clients.consumer.group.offset_commits import Offsets
    from barnabas.clients.values import OffsetAndMetadata
    from barnabas.protocol.topic_partition import TopicPartition

_POLL_MS = 500
_RECORDS_PER_POLL = 5000
_IDLE_POLLS_WITHOUT_PARTITIONS = 8
"""The empty polls after which a member without partitions gives up.

A cooperative group may give a new member no partition in its first rebalance, and some in the next one.
"""

_RESETS = {None: "earliest", "beginning": "earliest", "end": "latest"}


@dataclass(frozen=True)
class GroupOptions:
    """The command's options for a group. Without a `name`, the command reads without a group."""

    name: str | None
    pattern: str | None
    instance_id: str | None
    assignors: Sequence[str]
    no_commit: bool

    def check(self, topics: Sequence[str], partitions: Sequence[int], start: str | None) -> None:
        """Check the options together. Raises click.UsageError."""
        if self.name is None:
            if self.pattern or self.instance_id or self.assignors or self.no_commit:
                raise click.UsageError("--pattern, --instance-id, --assignor and --no-commit need a --group")
            if len(topics) != 1:
                raise click.UsageError("give one TOPIC, or join a --group")
            return
        if partitions:
            raise click.UsageError("in a --group, the group chooses the partitions")
        if start not in _RESETS:
            raise click.UsageError("in a --group, --from takes beginning or end: where to begin what it has not read")
        if bool(topics) == bool(self.pattern):
            raise click.UsageError("give one or more TOPICs, or a --pattern")
        try:
            re.compile(self.pattern or "")
        except re.error as error:
            raise click.UsageError(f"--pattern {self.pattern!r} is no regular expression: {error}") from None

    def settings(self, start: str | None, timeout_ms: int) -> ConsumerSettings:
        """Return the settings of the consumer: the options', over those of the command's file.

        Raises ValueError for a wrong `--command-config`.
        """
        from barnabas.clients.consumer import ConsumerConfig

        settings: ConsumerSettings = {
            **cast("ConsumerSettings", command_settings(ConsumerConfig)),
            "default_api_timeout_ms": timeout_ms,
            "request_timeout_ms": timeout_ms,
            "bootstrap_timeout_ms": BOOTSTRAP_TIMEOUT_MS,
            # A typing error in a topic's name must not create that topic.
            "allow_auto_create_topics": False,
            "auto_offset_reset": "earliest" if self.name is None else _RESETS[start],
        }
        if self.name is not None:
            settings["group_id"] = self.name
            settings["group_instance_id"] = self.instance_id
            # The command commits what it has written. Automatic commits count records as processed when `poll` has
            # returned them.
            settings["enable_auto_commit"] = False
            if self.assignors:
                settings["partition_assignment_strategy"] = tuple(self.assignors)
        return settings


class GroupReading:
    """The polls of a member. `timeout_ms`: how long to wait for the group. None: follow, without an end."""

    def __init__(self, consumer: Consumer, options: GroupOptions, timeout_ms: int | None, limit: int | None) -> None:
        self._consumer = consumer
        self._options = options
        self._timeout_ms = timeout_ms
        self._left = limit
        self._behind: dict[TopicPartition, OffsetAndMetadata] = {}
        """The offsets after the written records, for the partitions that this member still has."""

    def subscribe(self, topics: Sequence[str]) -> None:
        """Join the group. Commit revoked partitions first, because an asynchronous commit may be rejected by then.

        Raises ApiError for a topic that does not exist: a member of its group would wait for it without a word.
        """
        from barnabas.clients.consumer import RebalanceListener
        from barnabas.protocol.errors import ApiError, ErrorCode

        for topic in topics:
            if not self._consumer.partitions_for(topic):
                raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {topic}")
        reading = self

        class Committing(RebalanceListener):
            def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
                reading.commit_and_forget(partitions)

            def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> None:
                reading.forget(partitions)

        # The listener is called inside `poll`, on this thread, so it may commit and wait.
        self._consumer.subscribe(topics, pattern=self._options.pattern, listener=Committing())

    def polls(self) -> Iterator[list[ConsumerRecord]]:
        """Yield records, at most `limit`, until each assigned partition is at the end that it had when assigned.

        Raises ClientTimeout when the group does not let this member join in time.
        """
        ends: dict[TopicPartition, int] = {}
        idle_polls = 0
        while self._left is None or self._left > 0:
            limit = _RECORDS_PER_POLL if self._left is None else min(self._left, _RECORDS_PER_POLL)
            records = self._consumer.poll(_POLL_MS, limit)
            if records:
                if self._left is not None:
                    self._left -= len(records)
                idle_polls = 0
                yield records
            elif self._timeout_ms is not None:
                idle_polls += 1
                if self._is_at_end(ends, idle_polls):
                    return

    def _is_at_end(self, ends: dict[TopicPartition, int], idle_polls: int) -> bool:
        """Return whether this member has read its partitions.

        Raises ClientTimeout if it could not join, ValueError if no topic matches its pattern.
        """
        consumer = self._consumer
        # A member without a generation has no partitions yet, so an empty poll says nothing about the end.
        if consumer.group_metadata().generation_id < 0:
            if self._timeout_ms is not None and idle_polls * _POLL_MS >= self._timeout_ms:
                from barnabas.clients.errors import ClientTimeout

                raise ClientTimeout(f"group {self._options.name} did not let this member join")
            return False
        assigned = consumer.assignment()
        if not assigned:
            if idle_polls < _IDLE_POLLS_WITHOUT_PARTITIONS:
                return False
            if not consumer.subscription():
                raise ValueError(f"no topic matches --pattern {self._options.pattern!r}")
            return True
        new = assigned - ends.keys()
        if new:
            ends.update(consumer.end_offsets(new))
        return all(consumer.position(each) >= ends[each] for each in assigned)

    def written(self, records: Sequence[ConsumerRecord]) -> None:
        """Commit the offsets after records that were written, without waiting."""
        if self._options.no_commit:
            return
        from barnabas.clients.consumer import OffsetAndMetadata, TopicPartition

        behind = {TopicPartition(each.topic, each.partition): OffsetAndMetadata(each.offset + 1) for each in records}
        self._behind.update(behind)
        self._consumer.commit_async(behind, _warn)

    def forget(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        """Forget partitions that other members have now. Returns their offsets, which may not be committed yet."""
        return {each: self._behind.pop(each) for each in partitions if each in self._behind}

    def commit_and_forget(self, partitions: Sequence[TopicPartition]) -> None:
        """Commit partitions that other members are about to get, and forget them."""
        if behind := self.forget(partitions):
            from barnabas.clients.errors import ClientTimeout, CommitFailed, RetriableCommitFailed
            from barnabas.protocol.errors import ApiError

            try:
                self._consumer.commit_sync(behind)
            except (ApiError, ClientTimeout, CommitFailed, RetriableCommitFailed) as error:
                _warn(behind, error)

    def finish(self) -> None:
        """Commit for the last time, and await the answers. Raises ApiError, ClientTimeout, CommitFailed."""
        if self._options.no_commit:
            return
        from barnabas.protocol.errors import ApiError, ErrorCode

        while True:
            try:
                self._consumer.commit_sync(self._behind)
            except ApiError as error:
                if error.code is not ErrorCode.REBALANCE_IN_PROGRESS:
                    raise
                # The poll goes on with the rebalance, after which the member may commit. A record that the poll may
                # return was not written, so it is not committed either.
                self._consumer.poll(_POLL_MS, 1)
            else:
                return


def _warn(_offsets: Offsets, error: Exception | None) -> None:
    if error is not None:
        click.echo(f"barnabas: offsets were not committed: {error}", err=True)
