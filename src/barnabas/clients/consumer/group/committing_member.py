"""A member of a group as the commits see it: its identity, and one interface for the members of both protocols.

Called by `OffsetCommits` under the coordinator channel's lock. Implemented by GroupMembership (classic protocol) and
ConsumerMembership (KIP-848), which make the identities. Kafka: AbstractCoordinator.Generation.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from barnabas.protocol.errors import ErrorCode

_UNKNOWN_GENERATION_ID = -1

NOT_PART_OF_GROUP = (
    "Offset commit cannot be completed since the consumer is not part of an active group for auto partition"
    " assignment; it is likely that the consumer was kicked out of the group."
)
REBALANCED = (
    "Commit cannot be completed since the group has already rebalanced and assigned the partitions to another member."
    " This means that the time between subsequent calls to poll() was longer than the configured max_poll_interval_ms,"
    " which typically implies that the poll loop is spending too much time message processing. You can address this"
    " either by increasing max_poll_interval_ms or by reducing the maximum size of batches returned in poll() with"
    " max_poll_records."
)


class Generation(NamedTuple):
    """The identity of a member: a generation of the group, the member's id, the assignor's name. The id comes first.

    In the consumer protocol (KIP-848), `id` is the member's own epoch, and there is no name.
    """

    id: int = _UNKNOWN_GENERATION_ID
    member_id: str = ""
    protocol_name: str | None = None

    @property
    def is_known(self) -> bool:
        """Whether the coordinator knows the member in this generation, so that it still owns its partitions."""
        return self.id != _UNKNOWN_GENERATION_ID and bool(self.member_id)


NO_GENERATION = Generation()


class CommittingMember(Protocol):
    """A member that commits offsets."""

    @property
    def generation(self) -> Generation:
        """The identity that a commit of this member carries."""

    @property
    def reading_generation(self) -> Generation | None:
        """The identity that a look-up of committed offsets carries, or None if the protocol wants none."""

    def commit_refusal(self, *, at_last: bool) -> Exception | None:
        """Return the error of a commit that cannot be sent now, or None if the member may commit.

        With `at_last` there is no later occasion for this commit.
        """

    def commit_failure(self, error: ErrorCode, sent: Generation | None) -> Exception | None:
        """React to an error of OffsetCommit, and return the error for the caller; None if the error is no member's.

        sent: the identity that the commit carried, or None for the commit of a consumer that chose its partitions.
        """
