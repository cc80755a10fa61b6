"""The choice between the two group protocols, of which each consumer imports the one that it speaks.

Called by `Consumer` on the consumer's thread; no state.
"""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.clients.consumer.assignors.partition_assignor import PartitionAssignor
from barnabas.clients.consumer.group.config import GroupProtocol
from barnabas.clients.consumer.group.group_client import GroupClient
from barnabas.clients.consumer.group.member_coordinator import MemberCoordinator


def make_coordinator(group: GroupClient, assignors: Sequence[PartitionAssignor]) -> MemberCoordinator:
    """Return the consumer's side of its group, in the protocol that its config names.

    assignors: those of the classic protocol.
    """
    if group.config.group_protocol == GroupProtocol.CONSUMER:
        from barnabas.clients.consumer.group.consumer.reconciling_coordinator import (  # noqa: PLC0415
            ReconcilingCoordinator,
        )

        return ReconcilingCoordinator(group)
    from barnabas.clients.consumer.group.classic.classic_coordinator import ConsumerCoordinator  # noqa: PLC0415

    return ConsumerCoordinator(group, assignors)
