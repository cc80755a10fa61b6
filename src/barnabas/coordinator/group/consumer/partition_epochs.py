"""The epochs in which the members of a consumer group own their partitions (KIP-848).

Held by `ConsumerGroup`, guarded by the group's lock, changed by the replay of records. Pure.
Kafka: ConsumerGroup.currentPartitionEpoch.
"""

from __future__ import annotations

from barnabas.coordinator.group.consumer.heartbeat_terms import PartitionEpochs
from barnabas.coordinator.group.consumer.member import ConsumerGroupMember

NO_EPOCH = -1


class CurrentPartitionEpochs:
    """The member epoch of each partition's owner. A partition that its owner has to give up is still owned."""

    __slots__ = ("_epochs",)

    def __init__(self) -> None:
        self._epochs: dict[bytes, dict[int, int]] = {}

    def of(self, topic_id: bytes, partition: int) -> int:
        """Return the epoch of a partition's owner, -1 if it has none."""
        return self._epochs.get(topic_id, {}).get(partition, NO_EPOCH)

    def replace_member(self, old: ConsumerGroupMember | None, new: ConsumerGroupMember | None) -> None:
        """Set the epochs of the partitions of `new` instead of `old`. None stands for a member that joins or leaves."""
        # The old ones first: a partition that the member keeps would otherwise be dropped with its new epoch.
        if old is not None:
            self._drop(old.assigned_partitions, old.member_epoch)
            self._drop(old.partitions_pending_revocation, old.member_epoch)
        if new is not None:
            self._add(new.assigned_partitions, new.member_epoch)
            self._add(new.partitions_pending_revocation, new.member_epoch)

    def _drop(self, partitions: PartitionEpochs, epoch: int) -> None:
        for topic_id, numbers in partitions.items():
            epochs = self._epochs.get(topic_id, {})
            for number in numbers:
                # After compaction the new owner's record may come first: its epoch is higher, and stays.
                if epochs.get(number) == epoch:
                    del epochs[number]
            if not epochs:
                self._epochs.pop(topic_id, None)

    def _add(self, partitions: PartitionEpochs, epoch: int) -> None:
        for topic_id, numbers in partitions.items():
            epochs = self._epochs.setdefault(topic_id, {})
            for number in numbers:
                present = epochs.get(number)
                # The records of the old and the new owner may be replayed in either order: the higher epoch stays.
                if present is None or present < epoch:
                    epochs[number] = epoch
