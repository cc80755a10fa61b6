"""A member's identity in its group, as commits carry it. Immutable.

Made by the memberships of both protocols, under the coordinator channel's lock. Kafka: AbstractCoordinator.Generation.
"""

from __future__ import annotations

from typing import NamedTuple

UNKNOWN_GENERATION_ID = -1


class Generation(NamedTuple):
    """A generation of the group, with this member's id and the assignor's name. The member id comes first.

    In the consumer protocol (KIP-848), `id` is the member's own epoch, and there is no name.
    """

    id: int = UNKNOWN_GENERATION_ID
    member_id: str = ""
    protocol_name: str | None = None

    @property
    def is_known(self) -> bool:
        """Whether the coordinator knows the member in this generation, so that it still owns its partitions."""
        return self.id != UNKNOWN_GENERATION_ID and bool(self.member_id)


NO_GENERATION = Generation()
