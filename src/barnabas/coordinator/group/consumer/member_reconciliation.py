"""The step of one member towards its part of the target assignment (KIP-848).

Called with each heartbeat and JoinGroup of a member under the group's lock. A partition is given up before another
member gets it. A member with partitions to give up stays at its old epoch until it says that it no longer owns them. A
member that waits for a partition goes on to the new epoch without it, and gets it with its first heartbeat after the
partition is released. `consumer.update` has an example. Pure. Kafka: CurrentAssignmentBuilder of 4.3.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from barnabas.coordinator.group.consumer.consumer_group_member import (
    ConsumerGroupMember,
    PartitionEpochs,
    ReconciliationState,
)
from barnabas.protocol.errors import ApiError, ErrorCode

_NO_EPOCHS: Mapping[int, int] = {}


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """The inputs of one step.

    target_epoch, target: the group's target assignment, the member's part of it. subscribed_topic_ids: the subscribed
    topics that exist. subscription_changed: by this request. owned: the partitions that the member says it owns, None
    when it does not say. epoch_of: returns the epoch of a partition's present owner, -1 if it has none.
    """

    target_epoch: int
    target: Mapping[bytes, AbstractSet[int]]
    subscribed_topic_ids: Container[bytes]
    subscription_changed: bool
    owned: Mapping[bytes, AbstractSet[int]] | None
    epoch_of: Callable[[bytes, int], int]

    def next_state(self, member: ConsumerGroupMember) -> ConsumerGroupMember:
        """Return the member after the step, or the same object if there is no step to take.

        Raises ApiError: FENCED_MEMBER_EPOCH when a later release left the member in a state unknown here, and the
        member owns partitions.
        """
        # Nearly every heartbeat ends here, with the same object: the caller then writes no record.
        if member.state is ReconciliationState.STABLE and member.member_epoch == self.target_epoch:
            return self._without_unsubscribed(member)
        if member.state is ReconciliationState.UNREVOKED_PARTITIONS and self._owns_any_of(
            member.partitions_pending_revocation
        ):
            return self._without_unsubscribed(member)
        # A member without partitions can take its target whatever its state meant; any other one has to join again.
        if member.state is ReconciliationState.UNKNOWN:
            if self.owned is None or self.owned:
                raise ApiError(
                    ErrorCode.FENCED_MEMBER_EPOCH,
                    "The consumer group member is in a unknown state. "
                    "The member must abandon all its partitions and rejoin.",
                )
            return self._reconciled(member, self.target_epoch)
        return self._reconciled(member, member.member_epoch)

    def _owns_any_of(self, partitions: PartitionEpochs) -> bool:
        """Return whether the member may still own one of them: it does until it says otherwise."""
        if self.owned is None:
            return True
        return any(not numbers.isdisjoint(partitions.get(topic_id, ())) for topic_id, numbers in self.owned.items())

    def _without_unsubscribed(self, member: ConsumerGroupMember) -> ConsumerGroupMember:
        """Return the member without the topics that it no longer subscribes to, at its present epoch."""
        wanted = self.subscribed_topic_ids
        if not self.subscription_changed or all(topic_id in wanted for topic_id in member.assigned_partitions):
            return member
        kept = {topic_id: epochs for topic_id, epochs in member.assigned_partitions.items() if topic_id in wanted}
        revoked = dict(member.partitions_pending_revocation)
        for topic_id, epochs in member.assigned_partitions.items():
            if topic_id not in wanted:
                revoked[topic_id] = {**revoked.get(topic_id, _NO_EPOCHS), **epochs}
        moved = replace(member.at_epoch(member.member_epoch), assigned_partitions=kept)
        if self._owns_any_of(revoked):
            return replace(moved, state=ReconciliationState.UNREVOKED_PARTITIONS, partitions_pending_revocation=revoked)
        return moved

    def _reconciled(self, member: ConsumerGroupMember, epoch: int) -> ConsumerGroupMember:
        """Return the member at its target's epoch, or at `epoch` as long as it has partitions to give up."""
        assigned: dict[bytes, dict[int, int]] = {}
        revoked: dict[bytes, dict[int, int]] = {}
        gained: dict[bytes, list[int]] = {}
        waits = False
        # Every partition of the member's is kept or revoked, every other one of its target is gained or waited for.
        for topic_id in {**self.target, **member.assigned_partitions}:
            target = self.target.get(topic_id, frozenset()) if topic_id in self.subscribed_topic_ids else frozenset()
            present = member.assigned_partitions.get(topic_id, _NO_EPOCHS)
            if kept := {number: since for number, since in present.items() if number in target}:
                assigned[topic_id] = kept
            if lost := {number: since for number, since in present.items() if number not in target}:
                revoked[topic_id] = lost
            missing = [number for number in target if number not in present]
            free = [number for number in missing if self._is_free(member, topic_id, number)]
            waits = waits or len(free) < len(missing)
            if free:
                gained[topic_id] = free
        # First give up, then gain. At the old epoch the member can still commit for the partitions that it gives up.
        if revoked and self._owns_any_of(revoked):
            return replace(
                member.at_epoch(epoch),
                state=ReconciliationState.UNREVOKED_PARTITIONS,
                assigned_partitions=assigned,
                partitions_pending_revocation=revoked,
            )
        for topic_id, numbers in gained.items():
            assigned.setdefault(topic_id, {}).update(dict.fromkeys(numbers, self.target_epoch))
        return replace(
            member.at_epoch(self.target_epoch),
            state=ReconciliationState.UNRELEASED_PARTITIONS if waits else ReconciliationState.STABLE,
            assigned_partitions=assigned,
            partitions_pending_revocation={},
        )

    def _is_free(self, member: ConsumerGroupMember, topic_id: bytes, partition: int) -> bool:
        """Return whether no member owns the partition, or only this member, which was to give it up."""
        pending = member.partitions_pending_revocation.get(topic_id, _NO_EPOCHS)
        return partition in pending or self.epoch_of(topic_id, partition) == -1
