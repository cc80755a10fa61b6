"""The restoration of memberships from the records that a coordinator has loaded.

Called by `PartitionLoader`, in steps, on the loading thread, before any request can see the groups; nothing is shared.
A classic group is made here, of its one record: stable with its members, or empty. A consumer group has many records,
which `consumer.replay` applies. A record that cannot be read costs its own group its members, which join again, and no
other group. Kafka: GroupMetadataManager (readGroupMessageValue, loadGroup), GroupMetadata.loadGroup.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping

from barnabas.coordinator.group.classic.classic_group import ClassicGroup
from barnabas.coordinator.group.classic.classic_group_member import ClassicMember, MemberTerms
from barnabas.coordinator.group.classic.states import ClassicState
from barnabas.coordinator.group.group import Membership
from barnabas.coordinator.group.offsets_topic import (
    CONSUMER_GROUP_KINDS,
    GROUP_KIND,
    NO_TIMESTAMP,
    GroupMetadataKey,
    GroupMetadataValue,
)
from barnabas.coordinator.runtime.record import decode_record, version_of
from barnabas.protocol.errors import DecodeError
from barnabas.runtime.clock import Clock

logger = logging.getLogger(__name__)

GROUPS_PER_STEP = 20
"""The number of classic groups that are made in one step."""
# Version 0 of the record has no rebalance timeout: the session timeout stands in for it, as in Kafka.
_REBALANCE_TIMEOUT_SINCE = 1


def loaded_classic_group(key: bytes, value: bytes, clock: Clock) -> ClassicGroup:
    """Return the group of this record; its members' sessions begin now.

    Raises DecodeError when the record cannot be read or names a member twice.
    """
    group_id = decode_record(GroupMetadataKey, key).group
    stored = decode_record(GroupMetadataValue, value)
    group = ClassicGroup(group_id, clock)
    group.generation = stored.generation
    group.kind = stored.protocol_type or None
    group.protocol_name = stored.protocol
    since_ms = stored.current_state_timestamp
    group.state_since_ms = None if since_ms == NO_TIMESTAMP else since_ms
    group.state = ClassicState.STABLE if stored.members else ClassicState.EMPTY
    has_rebalance_timeout = version_of(value) >= _REBALANCE_TIMEOUT_SINCE
    members = group.members
    for each in stored.members:
        if each.member_id in members.by_id or each.group_instance_id in members.static_ids:
            raise DecodeError(f"member {each.member_id} (instance id {each.group_instance_id}) is listed twice")
        terms = MemberTerms(
            each.client_id,
            each.client_host,
            each.rebalance_timeout if has_rebalance_timeout else each.session_timeout,
            each.session_timeout,
            # The record has the chosen protocol alone: the group can choose another one when the members join again.
            ((stored.protocol or "", bytes(each.subscription)),),
        )
        session = members.new_session(each.member_id, each.session_timeout)
        members.add(ClassicMember(each.member_id, each.group_instance_id, terms, session, bytes(each.assignment)))
    if stored.leader in members.by_id:  # else the member named first leads: without a leader a group never agrees
        members.leader_id = stored.leader
    group.find_subscribed_topics()
    return group


def restore_memberships(records: Mapping[bytes, bytes], clock: Clock) -> Iterator[Mapping[str, Membership]]:
    """Yield memberships by group id, in steps. records: the newest of each key, without committed offsets."""
    some: dict[str, Membership] = {}
    of_consumer_groups: list[tuple[bytes, bytes]] = []
    for key, value in records.items():
        kind = version_of(key)
        if kind == GROUP_KIND:
            try:
                some[decode_record(GroupMetadataKey, key).group] = loaded_classic_group(key, value, clock)
            except (DecodeError, IndexError, UnicodeDecodeError):
                logger.exception("The group of the key %r cannot be read", key)
            if len(some) >= GROUPS_PER_STEP:
                yield some
                some = {}
        elif kind in CONSUMER_GROUP_KINDS:
            # Collected, because a consumer group has many records, which are applied together.
            of_consumer_groups.append((key, value))
        else:
            # Kafka has records of share groups and streams groups, too; the other groups are served all the same.
            logger.warning("Unknown record type %d found while loading offsets and group metadata", kind)
    yield some
    if of_consumer_groups:
        from barnabas.coordinator.group.consumer.replay import restore_consumer_groups  # noqa: PLC0415 - there may never be any

        yield from restore_consumer_groups(of_consumer_groups)
