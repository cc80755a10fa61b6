"""Groups as administrators see them: listed, described, deleted.

Called by handlers on request handler threads, without locks. Takes one group's lock at a time, and calls no callback
under it. Its results are the messages of the protocol, without a form of their own.
Kafka: GroupCoordinator.handleListGroups, handleDescribeGroup, handleDeleteGroups (3.9); GroupMetadataManager
.describeGroups and .consumerGroupDescribe, GroupCoordinatorShard.deleteGroups (4.3).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Final

from barnabas.coordinator.group.classic.classic_group import ClassicGroup
from barnabas.coordinator.group.classic.states import ClassicState
from barnabas.coordinator.group.group import Group
from barnabas.coordinator.group.group_environment import GroupEnvironment
from barnabas.coordinator.group.offsets_topic import CONSUMER_GROUP_ERRORS, offset_key, offset_key_prefix
from barnabas.coordinator.runtime.coordinator_log import StoredAppend
from barnabas.coordinator.runtime.record import CoordinatorRecord
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.consumer_groups import ConsumerGroupDescribeResponse
from barnabas.protocol.messages.group_admin import DescribeGroupsResponse, ListGroupsResponse

logger = logging.getLogger(__name__)

ListedGroup = ListGroupsResponse.ListedGroup
DescribedGroup = DescribeGroupsResponse.DescribedGroup
DescribedConsumerGroup = ConsumerGroupDescribeResponse.DescribedGroup

_DEAD: Final = ClassicState.DEAD.value
_BATCH_BYTES: Final = 256 * 1024
"""The size of a batch of tombstones: small enough for `max.message.bytes` of the topic."""


class GroupAdminService:
    """The requests of administrators about groups of both protocols.

    on_removed: called with each deleted group, without locks.
    """

    def __init__(self, environment: GroupEnvironment, on_removed: Callable[[Group], None]) -> None:
        self._environment = environment
        self._check = environment.partitions.check
        self._table = environment.table
        self._on_removed = on_removed
        self._default_assignor: str | None = None
        self.serves_consumer_groups = environment.config.consumer.is_enabled
        """Whether this broker offers groups of KIP-848 (`group.coordinator.rebalance.protocols`)."""

    # -- list

    def list_groups(self, states: Collection[str], types: Collection[str]) -> tuple[ErrorCode, list[ListedGroup]]:
        """Return this broker's groups in one of `states` and of one of `types`; an empty collection matches all.

        With COORDINATOR_LOAD_IN_PROGRESS the list is partial: this broker still loads some of its groups. With
        COORDINATOR_NOT_AVAILABLE it is empty: the coordinator has not started.
        """
        partitions = self._environment.partitions
        if not partitions.is_started:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE, []
        wanted_states = {state.strip().lower() for state in states}
        wanted_types = {kind.strip().lower() for kind in types}
        error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if partitions.is_loading else ErrorCode.NONE
        found = []
        for group in self._table.entries():
            # One lock at a time: the list is no snapshot of all groups, as Kafka's is none.
            with group.lock:
                membership = group.membership
                state, kind = membership.state_name, membership.group_type.value
                is_wanted = (not wanted_states or state.lower() in wanted_states) and (
                    not wanted_types or kind in wanted_types
                )
                if is_wanted and not group.is_removed:
                    found.append(
                        ListedGroup(
                            group_id=group.group_id,
                            protocol_type=membership.protocol_type,
                            group_state=state,
                            group_type=kind,
                        )
                    )
        return error, found

    # -- describe

    def describe_groups(self, group_ids: Sequence[str], *, tells_missing: bool) -> list[DescribedGroup]:
        """Describe classic groups. A group that does not exist is Dead, and has an error if `tells_missing`."""
        return [self._describe(group_id, tells_missing=tells_missing) for group_id in group_ids]

    def _describe(self, group_id: str, *, tells_missing: bool) -> DescribedGroup:
        error = self._check(group_id)
        if error is not ErrorCode.NONE:
            return DescribedGroup(group_id=group_id, error_code=error)
        with self._table.locked(group_id) as group:
            if group is not None and isinstance(group.membership, ClassicGroup):
                return _described_classic_group(group.membership)
        missing = DescribedGroup(group_id=group_id, group_state=_DEAD)
        # Until v5 an unknown group is Dead without an error; v6 names GROUP_ID_NOT_FOUND (KIP-1043).
        if tells_missing:
            missing.error_code = ErrorCode.GROUP_ID_NOT_FOUND
            missing.error_message = (
                f"Group {group_id} not found." if group is None else f"Group {group_id} is not a classic group."
            )
        return missing

    def describe_consumer_groups(self, group_ids: Sequence[str]) -> list[DescribedConsumerGroup]:
        """Describe groups of KIP-848, each with its error."""
        return [self._describe_consumer_group(group_id) for group_id in group_ids]

    def _describe_consumer_group(self, group_id: str) -> DescribedConsumerGroup:
        error = ErrorCode.INVALID_GROUP_ID if not group_id else self._check(group_id)
        if error is not ErrorCode.NONE:
            return DescribedConsumerGroup(group_id=group_id, error_code=error)
        # Imported late: a broker without consumer groups starts faster.
        from barnabas.coordinator.group.consumer.consumer_group import ConsumerGroup  # noqa: PLC0415
        from barnabas.coordinator.group.consumer.description import described_consumer_group  # noqa: PLC0415

        with self._table.locked(group_id) as group:
            if group is not None and isinstance(group.membership, ConsumerGroup):
                names = self._environment.metadata.image.topic_names
                return described_consumer_group(group.membership, self._default_assignor_name(), names)
        words = "not found" if group is None else "is not a consumer group"
        return DescribedConsumerGroup(
            group_id=group_id, error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message=f"Group {group_id} {words}."
        )

    def _default_assignor_name(self) -> str:
        if self._default_assignor is None:
            # Imported late: a broker without consumer groups starts faster.
            from barnabas.coordinator.group.assignors.server_assignors import assignors_named  # noqa: PLC0415

            self._default_assignor = next(iter(assignors_named(self._environment.config.consumer.assignors)))
        return self._default_assignor

    # -- delete

    def delete_groups(self, group_ids: Collection[str], on_complete: Callable[[Mapping[str, ErrorCode]], None]) -> None:
        """Delete groups without members, with their offsets.

        `on_complete` is called once with the error of each group: now, or on the thread that completes the last append.
        """
        deletions = _Deletions(group_ids, on_complete)
        for group_id in deletions.group_ids:
            self._delete(group_id, deletions.ended)

    def _delete(self, group_id: str, ended: Callable[[str, ErrorCode], None]) -> None:
        error = self._check(group_id)
        stored: StoredAppend | None = None
        removed: Group | None = None
        if error is ErrorCode.NONE:
            with self._table.locked(group_id) as group:
                error = ErrorCode.GROUP_ID_NOT_FOUND if group is None else group.membership.deletion_error()
                if group is not None and error is ErrorCode.NONE:
                    stored = self._append_tombstones(group)
                    # Removed under the lock that the append was made under: a member that joins from now on gets a new
                    # group, whose records lie behind the tombstones in the log.
                    if stored is None or stored.position >= 0:
                        self._table.remove(group)
                        removed = group
        if removed is not None:
            logger.info("Group %s was deleted.", group_id)
            self._on_removed(removed)
        if stored is None:
            ended(group_id, error)
        else:
            stored.when_replicated(lambda error: ended(group_id, error))

    def _append_tombstones(self, group: Group) -> StoredAppend | None:
        """Append the tombstones of the group, under its lock; return the last append, or the first that failed.

        Return None if the group has no records.
        """
        stored: StoredAppend | None = None
        for batch in _batches(_tombstones(group)):
            stored = self._environment.log.append(group.partition, batch, CONSUMER_GROUP_ERRORS)
            if stored.position < 0:
                # The group stays as it is in memory, though the next coordinator may load less of it. The client may
                # delete it again.
                return stored
        return stored


class _Deletions:
    """The errors of one request's groups, which is answered when all are known. `_lock` guards them."""

    def __init__(self, group_ids: Collection[str], on_complete: Callable[[Mapping[str, ErrorCode]], None]) -> None:
        # A group that is named twice is deleted once: the second attempt would answer GROUP_ID_NOT_FOUND.
        self.group_ids = list(dict.fromkeys(group_ids))
        self._on_complete = on_complete
        self._lock = threading.Lock()
        self._left = len(self.group_ids)
        self._errors: dict[str, ErrorCode] = {}
        if not self.group_ids:
            on_complete({})

    def ended(self, group_id: str, error: ErrorCode) -> None:
        """Set the error of a group, and answer the request after the last one.

        Called once for each group, on any thread, without locks.
        """
        with self._lock:
            self._errors[group_id] = error
            self._left -= 1
            is_last = self._left == 0
        if is_last:
            self._on_complete(self._errors)


def _described_classic_group(group: ClassicGroup) -> DescribedGroup:
    """Return the description; metadata and assignments only of a stable group. The caller holds its lock."""
    is_stable = group.state is ClassicState.STABLE
    protocol = (group.protocol_name or "") if is_stable else ""
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state_name,
        protocol_type=group.protocol_type,
        protocol_data=protocol,
        members=[
            DescribeGroupsResponse.DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.terms.client_id,
                client_host=member.terms.client_host,
                member_metadata=member.metadata(protocol) if is_stable else b"",
                member_assignment=member.assignment if is_stable else b"",
            )
            for member in group.members.by_id.values()
        ],
    )


def _tombstones(group: Group) -> Iterator[CoordinatorRecord]:
    """Yield the tombstones of every record that the group has in the log, also of waiting commits."""
    prefix = offset_key_prefix(group.group_id)
    for topic, partition in group.offsets.partitions:
        yield CoordinatorRecord(offset_key(prefix, topic.encode(), partition), None)
    yield from group.membership.tombstones()


def _batches(records: Iterator[CoordinatorRecord]) -> Iterator[list[CoordinatorRecord]]:
    batch: list[CoordinatorRecord] = []
    size = 0
    for record in records:
        batch.append(record)
        size += len(record.key)
        if size >= _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
