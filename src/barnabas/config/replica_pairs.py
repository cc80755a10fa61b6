"""The replicas that a topic's throttle is for. Immutable. Kafka: ThrottledReplicaListValidator, AllReplicas."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_ALL: Final = ("*",)


@dataclass(frozen=True, slots=True)
class ReplicaPairs:
    """The value of `leader.replication.throttled.replicas`: pairs of partition:broker, or `*` for all.

    listed: the pairs without leading zeros.
    """

    is_all: bool
    listed: frozenset[str]

    @classmethod
    def of(cls, items: tuple[str, ...]) -> ReplicaPairs:
        """Return the pairs of a value that `config_key.ThrottledReplicas` has accepted."""
        if not items:
            return NO_REPLICAS
        if items == _ALL:
            return cls(is_all=True, listed=frozenset())
        pairs = [item.split(":") for item in items]
        return cls(is_all=False, listed=frozenset(f"{int(partition)}:{int(broker)}" for partition, broker in pairs))

    def covers(self, partition: int, broker_id: int) -> bool:
        """Return whether the replica of a partition on a broker is among them."""
        return self.is_all or (bool(self.listed) and f"{partition}:{broker_id}" in self.listed)


NO_REPLICAS: Final = ReplicaPairs(is_all=False, listed=frozenset())
