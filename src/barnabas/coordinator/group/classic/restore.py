"""The restoration of a classic group from its record: stable with its members, or empty.

Called by `loading.restore` while a coordinator loads, on the loading thread, before any request can see the group.
Kafka: GroupMetadataManager.readGroupMessageValue and GroupMetadata.loadGroup.
"""

from __future__ import annotations

from barnabas.coordinator.group.classic.group import ClassicGroup
from barnabas.coordinator.group.classic.member import ClassicMember, MemberTerms
from barnabas.coordinator.group.classic.states import ClassicState
from barnabas.coordinator.group.log.schemas import NO_TIMESTAMP, GroupMetadataKey, GroupMetadataValue
from barnabas.coordinator.runtime.record import decode_record, version_of
from barnabas.protocol.errors import DecodeError
from barnabas.runtime.clock import Clock

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
