"""What the coordinator asks of a group's members, whatever protocol they speak.

Implemented by `ClassicGroup` and `ConsumerGroup`, both pure; called under the group's lock by the offset service, the
administration of groups and the expiry of offsets. Kafka: org.apache.kafka.coordinator.group.Group.
"""

from __future__ import annotations

from enum import Enum
from typing import Protocol

from barnabas.coordinator.group.log.record import GroupRecord
from barnabas.protocol.errors import ErrorCode


class GroupType(Enum):
    """The protocol of a group, in the words of ListGroups (KIP-848)."""

    CLASSIC = "classic"
    CONSUMER = "consumer"


class Membership(Protocol):
    """Who is in a group, and where the group stands."""

    @property
    def group_type(self) -> GroupType:
        """Which protocol."""

    @property
    def state_name(self) -> str:
        """The state in Kafka's words ("Stable", "Empty", "Dead", ...)."""

    @property
    def protocol_type(self) -> str:
        """What the members coordinate: "consumer", "connect", or "" while nobody ever joined."""

    @property
    def has_members(self) -> bool:
        """Whether anybody is in the group, waiting to join included."""

    @property
    def member_count(self) -> int:
        """How many are in it; read without the group's lock, too."""

    @property
    def empty_since_ms(self) -> int | None:
        """Wall clock time since when offsets may expire (Kafka: currentStateTimestamp, of a group that is empty).

        None: not empty, or not known (then each offset's own commit time counts).
        """

    @property
    def keeps_all_offsets(self) -> bool:
        """Whether none of its offsets may expire now: it has members, and what they read is not known or changing."""

    def check_offset_commit(
        self, member_id: str, group_instance_id: str | None, generation: int, *, is_transactional: bool
    ) -> ErrorCode:
        """May this member commit? generation: of the classic protocol, the member epoch of KIP-848; -1 of nobody."""

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        """May offsets be read by whoever names this member (None: nobody in particular)?"""

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member reads the topic: then its offsets neither expire nor can they be deleted.

        Of an active classic group whose members' subscriptions cannot be read: True.
        """

    def deletion_error(self) -> ErrorCode:
        """Why the group cannot be deleted (NON_EMPTY_GROUP), or NONE."""

    def tombstones(self) -> list[GroupRecord]:
        """The records that remove this membership from `__consumer_offsets`."""
