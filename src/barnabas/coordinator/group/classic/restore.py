"""Makes a classic group of its record: stable with the members that it had, or empty.

Called while a coordinator loads (`loading.loader`), on a scheduler thread, before anybody else knows the group.
Kafka: GroupMetadataManager.readGroupMessageValue and GroupMetadata.loadGroup.
"""

from __future__ import annotations

from barnabas.coordinator.group.classic.group import ClassicGroup
from barnabas.coordinator.group.classic.member import ClassicMember
from barnabas.coordinator.group.classic.states import ClassicState
from barnabas.coordinator.group.log.schemas import (
    NO_TIMESTAMP,
    GroupMetadataKey,
    GroupMetadataValue,
    decode_record,
    version_of,
)
from barnabas.protocol.errors import DecodeError
from barnabas.runtime.clock import Clock

_REBALANCE_TIMEOUT_SINCE = 1


def loaded_classic_group(key: bytes, value: bytes, clock: Clock) -> ClassicGroup:
    """The group that these bytes are; its members' sessions begin now. Raises DecodeError."""
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
    for each in stored.members:
        if each.member_id in group.members.by_id or each.group_instance_id in group.members.static_ids:
            raise DecodeError(f"the member {each.member_id} ({each.group_instance_id}) is there twice")
        member = ClassicMember(
            each.member_id,
            each.group_instance_id,
            each.client_id,
            each.client_host,
            each.rebalance_timeout if has_rebalance_timeout else each.session_timeout,
            each.session_timeout,
            stored.protocol_type,
            ((stored.protocol or "", bytes(each.subscription)),),
            group.new_session(each.member_id, each.session_timeout),
            bytes(each.assignment),
        )
        group.restore_member(member)
    if stored.leader in group.members.by_id:  # else whoever is named first leads: a group without a leader never agrees
        group.members.leader_id = stored.leader
    group.find_subscribed_topics()
    return group
