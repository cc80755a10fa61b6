"""The restoration of memberships from the records that a coordinator has loaded.

Called by `PartitionLoader`, in steps, on the loading thread; nothing is shared. A record that cannot be read costs its
own group its members, which join again, and no other group. Kafka: GroupMetadataManager.loadGroup.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping

from barnabas.coordinator.group.classic.restore import loaded_classic_group
from barnabas.coordinator.group.log.schemas import CONSUMER_GROUP_KINDS, GROUP_KIND, GroupMetadataKey
from barnabas.coordinator.group.membership import Membership
from barnabas.coordinator.runtime.record import decode_record, version_of
from barnabas.protocol.errors import DecodeError
from barnabas.runtime.clock import Clock

logger = logging.getLogger(__name__)

GROUPS_PER_STEP = 20
"""The number of classic groups that are made in one step."""


def restore_memberships(records: Mapping[bytes, bytes], clock: Clock) -> Iterator[Mapping[str, Membership]]:
    """Yield memberships by group id, in steps. records: the newest of each key, without committed offsets."""
    some: dict[str, Membership] = {}
    of_consumer_groups: list[tuple[bytes, bytes]] = []
    for key, value in records.items():
        kind = version_of(key)
        if kind == GROUP_KIND:
            try:
                some[decode_record(GroupMetadataKey, key).group] = loaded_classic_group(key, value, clock)
            except (DecodeError, IndexError, UnicodeDecodeError):
                logger.exception("The group of the key %r cannot be read", key)
            if len(some) >= GROUPS_PER_STEP:
                yield some
                some = {}
        elif kind in CONSUMER_GROUP_KINDS:
            # Collected, because a consumer group has many records, which are applied together.
            of_consumer_groups.append((key, value))
        else:
            # Kafka has records of share groups and streams groups, too; the other groups are served all the same.
            logger.warning("Unknown record type %d found while loading offsets and group metadata", kind)
    yield some
    if of_consumer_groups:
        from barnabas.coordinator.group.consumer.replay import (  # noqa: PLC0415 - there may never be any
            restore_consumer_groups,
        )

        yield from restore_consumer_groups(of_consumer_groups)
