"""Commits what a stream has read to a consumer group, so that lag tools see the query (option `commitGroupId`).

Owned by the stream reader, on one thread of a Python process on the driver; no lock.
"""

from __future__ import annotations

import logging
from typing import Protocol

from barnabas.clients.errors import ClientTimeout, Disconnected
from barnabas.protocol.errors import ApiError
from barnabas_spark.topic_offsets import Offsets

logger = logging.getLogger(__name__)


class OffsetCommitter(Protocol):
    """The part of a broker that keeps the offsets of groups."""

    def commit(self, group_id: str, offsets: Offsets) -> None:
        """Commit the offsets of a group. Raises ApiError, ClientTimeout, Disconnected."""


class GroupProgress:
    """What the group was told last. Spark's checkpoint alone decides where the query goes on."""

    def __init__(self, group_id: str) -> None:
        self._group_id = group_id
        self._committed: Offsets = {}

    def note(self, read: Offsets, offsets: OffsetCommitter) -> None:
        """Commit the ends of what was read, if they have changed.

        A commit that fails is a warning, because no record depends on it: the next micro-batch commits again.
        """
        changed = {partition: offset for partition, offset in read.items() if self._committed.get(partition) != offset}
        if not changed:
            return
        try:
            offsets.commit(self._group_id, changed)
        except (ApiError, ClientTimeout, Disconnected) as error:
            logger.warning("offsets were not committed to group %s: %s", self._group_id, error)
            return
        self._committed.update(changed)
