"""The membership as the commits see it: one interface for the members of both protocols.

Called by `OffsetCommits` under the coordinator channel's lock. Implemented by GroupMembership (classic protocol) and
ConsumerMembership (KIP-848).
"""

from __future__ import annotations

from typing import Protocol

from barnabas.clients.consumer.group.generation import Generation
from barnabas.protocol.errors import ErrorCode

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
