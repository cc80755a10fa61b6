"""Assignors by the names under which members agree on them. Pure.

Called by `Consumer`; each consumer gets objects of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from barnabas.clients.consumer.assignors.cooperative_sticky import CooperativeStickyAssignor
from barnabas.clients.consumer.assignors.partition_assignor import PartitionAssignor
from barnabas.clients.consumer.assignors.range import RangeAssignor
from barnabas.clients.consumer.assignors.round_robin import RoundRobinAssignor
from barnabas.clients.consumer.assignors.sticky import StickyAssignor
from barnabas.config.nearest_name import nearest_hint

BUILT_IN: dict[str, Callable[[], PartitionAssignor]] = {
    RangeAssignor.name: RangeAssignor,
    RoundRobinAssignor.name: RoundRobinAssignor,
    StickyAssignor.name: StickyAssignor,
    CooperativeStickyAssignor.name: CooperativeStickyAssignor,
}


def make_assignors(wanted: Iterable[str | PartitionAssignor]) -> list[PartitionAssignor]:
    """Make assignors by name, and take the user's own as they are. Raises ValueError for unknown or repeated names."""
    made: dict[str, PartitionAssignor] = {}
    for each in wanted:
        if isinstance(each, str) and each not in BUILT_IN:
            hint = nearest_hint(each, BUILT_IN)
            raise ValueError(f"partition_assignment_strategy knows {', '.join(BUILT_IN)}, not {each!r}{hint}")
        assignor = BUILT_IN[each]() if isinstance(each, str) else each
        if assignor.name in made:
            raise ValueError(f"The assignor name {assignor.name!r} is used in more than one assignor")
        made[assignor.name] = assignor
    return list(made.values())
