"""The commits, fetches and deletions of a group's offsets.

Called by handlers on request handler and processor threads: a commit is brief. Takes the group's lock only, and calls
no callback under it.

A commit takes three steps. Its records are encoded without a lock (`encode_commit`, pure, as for transactional
commits): that is most of the work. Under the group's lock the membership says whether the member may commit, and the
records are appended to the local log. With a single replica they count at once, else when all in-sync replicas have
them; no fetch sees them before.
Kafka: GroupCoordinator (handleCommitOffsets, handleFetchOffsets, handleDeleteOffsets) and
GroupMetadataManager.storeOffsets of 3.9, OffsetMetadataManager of 4.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, TypeGuard

from barnabas.coordinator.group.classic.classic_group import ClassicGroup
from barnabas.coordinator.group.committed_offsets import CommittedOffsets, PartitionKey
from barnabas.coordinator.group.group import Group, GroupType, Membership
from barnabas.coordinator.group.group_environment import GroupEnvironment
from barnabas.coordinator.group.offsets.offset_terms import (
    CommitTerms,
    FetchedOffset,
    FetchedOffsets,
    OffsetFetchTerms,
    TopicToCommit,
    count_of,
)
from barnabas.coordinator.group.offsets_topic import (
    LAST_TIMESTAMP,
    LONGEST_STRING,
    NO_TIMESTAMP,
    OFFSET_ERRORS,
    PARTITION,
    PLAIN_VALUE,
    USUAL_VERSION,
    committed_offset,
    offset_key,
    offset_key_prefix,
    offset_value,
    topic_key_prefix,
)
from barnabas.coordinator.runtime.coordinator_log import StoredAppend
from barnabas.coordinator.runtime.record import CoordinatorRecord, KeyAndValue
from barnabas.protocol.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from barnabas.coordinator.group.consumer.consumer_group import ConsumerGroup


_NONE: Final = ErrorCode.NONE
_CONSUMER: Final = "consumer"
_DEAD: Final = "Dead"

CommitCallback = Callable[[list[ErrorCode]], None]
"""Called once with an error for each offset, in the order of the request."""
DeleteCallback = Callable[[ErrorCode, Sequence[ErrorCode]], None]
"""Called once with the error of the whole request, or an error for each partition."""


class EncodedCommit:
    """The offsets of a commit, and their records. too_large: the positions in the request of those left out."""

    __slots__ = ("records", "too_large", "values")

    def __init__(self) -> None:
        self.values: dict[str, dict[int, bytes]] = {}
        """What counts once the records are stored (`committed_offsets.OffsetValues`)."""
        self.records: list[KeyAndValue] = []
        self.too_large: list[int] = []

    def errors(self, error: ErrorCode) -> list[ErrorCode]:
        """Return the error of each offset of the request, if `error` is that of the append."""
        errors = [error] * len(self.records)
        # Positions ascend, so each insertion finds the ones before it in place.
        for position in self.too_large:
            errors.insert(position, ErrorCode.OFFSET_METADATA_TOO_LARGE)
        return errors


_pack_partition: Final = PARTITION.pack
_pack_plain_value: Final = PLAIN_VALUE.pack


def encode_commit(
    terms: CommitTerms, topics: list[TopicToCommit], now_ms: int, max_metadata_size: int
) -> EncodedCommit:
    """Encode the offsets whose metadata is not too large. now_ms: the time of the commit."""
    prefix = offset_key_prefix(terms.group_id)
    # -1 alone is the broker's setting: with another negative number an offset has expired already, as in Kafka.
    expires_ms = NO_TIMESTAMP if terms.retention_ms == -1 else min(now_ms + terms.retention_ms, LAST_TIMESTAMP)
    encoded = EncodedCommit()
    records, too_large = encoded.records, encoded.too_large
    for topic in topics:
        topic_prefix = topic_key_prefix(prefix, topic.topic.encode())
        values: dict[int, bytes] = {}
        for each in topic.partitions:
            partition, metadata = each.partition_index, each.committed_metadata
            if metadata and _is_too_large(metadata, max_metadata_size):
                too_large.append(len(records) + len(too_large))
                continue
            committed_ms = now_ms if each.commit_timestamp == NO_TIMESTAMP else each.commit_timestamp
            if metadata or expires_ms != NO_TIMESTAMP:
                value = offset_value(
                    each.committed_offset, each.committed_leader_epoch, metadata or "", committed_ms, expires_ms
                )
            else:
                # What `offset_value` does for nearly every commit, in line.
                value = _pack_plain_value(
                    USUAL_VERSION, each.committed_offset, each.committed_leader_epoch, 0, committed_ms
                )
            values[partition] = value
            records.append((topic_prefix + _pack_partition(partition), value))
        if values:
            of_topic = encoded.values.setdefault(topic.topic, values)
            if of_topic is not values:  # the request names the topic twice
                of_topic.update(values)
    return encoded


def _is_too_large(metadata: str, limit: int) -> bool:
    """Return whether the text exceeds the limit (UTF-16 units, as in Kafka) or the 32767 bytes of a string."""
    size = len(metadata)
    if size > limit or size > LONGEST_STRING:
        return True
    if metadata.isascii():
        return False
    return len(metadata.encode("utf-16-le")) // 2 > limit or len(metadata.encode()) > LONGEST_STRING


class OffsetService:
    """The service of committed offsets. Counters are plain attributes, exact enough for rates (see `metrics`).

    on_removed: called, without locks, with a group that was removed because it had no members and no offsets.
    """

    def __init__(self, environment: GroupEnvironment, on_removed: Callable[[Group], None]) -> None:
        self._environment = environment
        self._on_removed = on_removed
        self._check = environment.partitions.check
        self._table = environment.table
        self._log = environment.log
        self._now_ms = environment.clock.milliseconds
        self._max_metadata_size = environment.config.max_metadata_size
        self.committed_count = 0
        """The number of committed offsets (Kafka: offset-commit-rate and -count)."""
        self.deleted_count = 0
        """The number of offsets that requests have deleted."""

    # -- commit

    def commit_offsets(
        self, terms: CommitTerms, topics: list[TopicToCommit], on_complete: CommitCallback
    ) -> list[ErrorCode] | None:
        """Commit offsets, and return their errors, in the order of the request. The caller holds no lock.

        None: the records wait for replicas, and `on_complete` is called with the errors when they are replicated.

        An error of the group (NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION,
        REBALANCE_IN_PROGRESS, ...) is the error of every offset; OFFSET_METADATA_TOO_LARGE is one partition's.
        """
        error = self._check(terms.group_id)
        if error is not _NONE:
            return [error] * count_of(topics)
        # Encoded before the lock is taken: that is most of the work, and the group's other members wait for the lock.
        now_ms = self._now_ms()
        encoded = encode_commit(terms, topics, now_ms, self._max_metadata_size)
        stored: StoredAppend | None = None
        group: Group | None = None
        try:
            # A client without a generation only keeps offsets in the group, which need not exist before.
            is_member, group_id = terms.generation >= 0, terms.group_id
            with self._table.locked(group_id) if is_member else self._table.locked_or_new(group_id) as group:
                if group is None:
                    error = _missing(terms)
                else:
                    error = self._check_committer(group.membership, terms, topics)
                    if error is _NONE and encoded.records:
                        stored = self._append(group, encoded, now_ms)
        except ApiError as refused:
            error = refused.code
        if error is not _NONE:
            return [error] * count_of(topics)
        if stored is None or group is None:
            return [ErrorCode.OFFSET_METADATA_TOO_LARGE] * len(encoded.too_large)
        if stored.is_decided:
            return self._errors(stored.error, encoded)
        self._when_replicated(group, stored, encoded, on_complete)
        return None

    def _append(self, group: Group, encoded: EncodedCommit, now_ms: int) -> StoredAppend:
        """Append the records, and let the offsets count if that is all they need. Under the group's lock."""
        stored = self._log.append(group.partition, encoded.records, OFFSET_ERRORS, now_ms=now_ms)
        if not stored.is_decided:
            group.offsets.begin_waiting(encoded.values)
        elif stored.error is _NONE:
            group.offsets.put_all(encoded.values, stored.position)
        return stored

    def _check_committer(self, membership: Membership, terms: CommitTerms, topics: list[TopicToCommit]) -> ErrorCode:
        """Return NONE if the client may commit. A commit of a classic member counts as a heartbeat, as in Kafka."""
        if isinstance(membership, ClassicGroup):
            error = membership.check_offset_commit(
                terms.member_id, terms.group_instance_id, terms.generation, is_transactional=False
            )
            if error is _NONE:
                membership.members.refresh_session(terms.member_id)
            return error
        if not _is_consumer_group(membership) or not membership.has_members:
            return membership.check_offset_commit(
                terms.member_id, terms.group_instance_id, terms.generation, is_transactional=False
            )
        # A consumer group knows its partitions by topic id. A topic that is gone has none, and is not checked.
        known = self._environment.metadata.image.topics
        partitions = [
            (known[topic.topic].topic_id, each.partition_index)
            for topic in topics
            if topic.topic in known
            for each in topic.partitions
        ]
        return membership.check_members_commit(
            terms.member_id, terms.generation, partitions, names_epochs=terms.tells_missing_groups
        )

    def _when_replicated(
        self, group: Group, stored: StoredAppend, encoded: EncodedCommit, on_complete: CommitCallback
    ) -> None:
        # The group may have been removed meanwhile. Its offsets are dropped with it, so a change of them does no harm.
        def on_stored(error: ErrorCode) -> None:
            with group.lock:
                group.offsets.end_waiting(encoded.values, stored.position, is_stored=error is _NONE)
            on_complete(self._errors(error, encoded))

        stored.when_replicated(on_stored)

    def _errors(self, error: ErrorCode, encoded: EncodedCommit) -> list[ErrorCode]:
        """Return the result of the append, and OFFSET_METADATA_TOO_LARGE for the offsets that were left out."""
        if error is _NONE:
            self.committed_count += len(encoded.records)
        return encoded.errors(error)

    # -- fetch

    def fetch_offsets(self, terms: OffsetFetchTerms) -> FetchedOffsets:
        """Return the committed offsets. A group that does not exist has none, which is no error."""
        error = self._check(terms.group_id)
        if error is not ErrorCode.NONE:
            return FetchedOffsets(error)
        with self._table.locked(terms.group_id) as group:
            if group is None:
                return FetchedOffsets(ErrorCode.NONE, _nothing_committed(terms))
            error = group.membership.check_offset_fetch(terms.member_id, terms.member_epoch)
            if error is not ErrorCode.NONE:
                return FetchedOffsets(error)
            if group.membership.state_name == _DEAD:
                return FetchedOffsets(ErrorCode.NONE, _nothing_committed(terms))
            committed = _committed(group.offsets, terms)
        # Decoded without the lock: many offsets take a while, and network threads wait for the lock to commit.
        return FetchedOffsets(ErrorCode.NONE, _decoded(committed))

    def offset_count(self, group_id: str) -> int:
        """Return how many offsets a group has committed, 0 if it does not exist."""
        with self._table.locked(group_id) as group:
            return 0 if group is None else len(group.offsets)

    # -- delete

    def delete_offsets(self, group_id: str, partitions: Sequence[PartitionKey], on_complete: DeleteCallback) -> None:
        """Delete the offsets of these partitions, except of topics that a member reads (KIP-496)."""
        error = self._check(group_id)
        stored: StoredAppend | None = None
        errors: list[ErrorCode] = []
        removed: list[PartitionKey] = []
        if error is ErrorCode.NONE:
            with self._table.locked(group_id) as group:
                if group is None or group.membership.state_name == _DEAD:
                    error = ErrorCode.GROUP_ID_NOT_FOUND
                elif group.membership.has_members and group.membership.protocol_type != _CONSUMER:
                    error = ErrorCode.NON_EMPTY_GROUP
                else:
                    # Decided and removed under one lock: a member that subscribes meanwhile finds the offsets gone.
                    is_read = {topic: group.membership.is_subscribed_to(topic) for topic, _ in partitions}
                    errors = [
                        ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if is_read[topic] else ErrorCode.NONE
                        for topic, _ in partitions
                    ]
                    removed = [key for key in dict.fromkeys(partitions) if not is_read[key[0]]]
                    stored = remove_offsets(self._environment, group, removed)
                    if stored is None and removed:
                        remove_if_useless(self._environment, group)
            if group is not None and group.is_removed:
                self._on_removed(group)
        if stored is None:
            on_complete(error, errors)
            return

        def on_stored(error: ErrorCode) -> None:
            if error is ErrorCode.NONE:
                self.deleted_count += len(removed)
            on_complete(ErrorCode.NONE, [error if known is ErrorCode.NONE else known for known in errors])

        stored.when_replicated(on_stored)


def remove_offsets(
    environment: GroupEnvironment, group: Group, partitions: Iterable[PartitionKey]
) -> StoredAppend | None:
    """Remove these offsets of a group, and write their tombstones. The caller holds the group's lock.

    Return the append, None if the group has none of these offsets. A group that is left without members and offsets is
    removed, too. If the local log refuses the tombstones, no offset is removed; the append has the error.
    """
    offsets = group.offsets
    prefix = offset_key_prefix(group.group_id)
    found = [
        (topic, partition)
        for topic, partition in partitions
        if partition in offsets.of_topic(topic) or offsets.is_unstable(topic, partition)
    ]
    records = [CoordinatorRecord(offset_key(prefix, topic.encode(), partition), None) for topic, partition in found]
    if not records:
        return None
    stored = environment.log.append(group.partition, records, OFFSET_ERRORS)
    # With a failed append nothing has happened, in the log or here. A tombstone that waits for replicas counts at once:
    # the next fetch does not see the offset.
    if stored.position >= 0:
        for topic, partition in found:
            offsets.remove(topic, partition, stored.position)
        remove_if_useless(environment, group)
    return stored


def remove_if_useless(environment: GroupEnvironment, group: Group) -> bool:
    """Remove a group without members and offsets from the table; return whether it was one. Under its lock.

    Its tombstone may be lost: a coordinator that loads the group removes it again.
    """
    if group.membership.has_members or not group.offsets.is_empty:
        return False
    tombstones = group.membership.tombstones()
    if tombstones and environment.log.append_unwatched(group.partition, tombstones) is not ErrorCode.NONE:
        return False
    environment.table.remove(group)
    return True


def _missing(terms: CommitTerms) -> ErrorCode:
    """Return the error for a member of a group that does not exist; GROUP_ID_NOT_FOUND since v9 (KIP-848)."""
    return ErrorCode.GROUP_ID_NOT_FOUND if terms.tells_missing_groups else ErrorCode.ILLEGAL_GENERATION


def _nothing_committed(terms: OffsetFetchTerms) -> list[tuple[str, list[FetchedOffset]]]:
    return [(topic, list(map(FetchedOffset, partitions))) for topic, partitions in terms.topics or ()]


def _committed(
    offsets: CommittedOffsets, terms: OffsetFetchTerms
) -> list[tuple[str, list[tuple[int, bytes | ErrorCode | None]]]]:
    """Return the encoded values of the requested offsets. The caller holds the group's lock."""
    if terms.topics is None and not terms.require_stable:
        return [(topic, list(offsets.of_topic(topic).items())) for topic in offsets.topics]
    asked = terms.topics
    if asked is None:
        asked = [(topic, list(offsets.of_topic(topic))) for topic in offsets.topics]
    found = []
    for topic, partitions in asked:
        values = offsets.of_topic(topic)
        of_topic: list[tuple[int, bytes | ErrorCode | None]] = [
            (
                partition,
                ErrorCode.UNSTABLE_OFFSET_COMMIT
                if terms.require_stable and offsets.is_unstable(topic, partition)
                else values.get(partition),
            )
            for partition in partitions
        ]
        found.append((topic, of_topic))
    return found


def _decoded(
    committed: Iterable[tuple[str, list[tuple[int, bytes | ErrorCode | None]]]],
) -> list[tuple[str, list[FetchedOffset]]]:
    return [(topic, [_fetched(partition, value) for partition, value in values]) for topic, values in committed]


def _fetched(partition: int, value: bytes | ErrorCode | None) -> FetchedOffset:
    if value is None:
        return FetchedOffset(partition)
    if isinstance(value, ErrorCode):
        return FetchedOffset(partition, error=value)
    offset, leader_epoch, metadata, _, _ = committed_offset(value)
    return FetchedOffset(partition, offset, leader_epoch, metadata)


def _is_consumer_group(membership: Membership) -> TypeGuard[ConsumerGroup]:
    """Return whether this is a ConsumerGroup, by its type: the class is loaded with the first consumer group."""
    return membership.group_type is GroupType.CONSUMER
