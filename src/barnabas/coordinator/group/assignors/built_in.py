"""The assignors that `group.consumer.assignors` can name.

Called by `broker/` when the first consumer group needs one, and by `group_admin` for the name of the default; pure. The
setting allows the names of `_BY_SETTING` only (`config.keys.coordinator_keys`).
Kafka: GroupCoordinatorConfig.consumerGroupAssignors.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from barnabas.coordinator.group.assignors.assignor import ConsumerGroupPartitionAssignor
from barnabas.coordinator.group.assignors.range import ServerRangeAssignor
from barnabas.coordinator.group.assignors.uniform import UniformAssignor

_UNIFORM: Final = UniformAssignor()
_RANGE: Final = ServerRangeAssignor()
_BY_SETTING: Final[Mapping[str, ConsumerGroupPartitionAssignor]] = {
    "uniform": _UNIFORM,
    "range": _RANGE,
    "org.apache.kafka.coordinator.group.assignor.UniformAssignor": _UNIFORM,
    "org.apache.kafka.coordinator.group.assignor.RangeAssignor": _RANGE,
}


def assignors_named(names: Iterable[str]) -> dict[str, ConsumerGroupPartitionAssignor]:
    """Return the assignors by name, in the order of the setting: the first is the default.

    A name is the assignor's own or that of its Java class. Raises ValueError when there is no such assignor: classes
    of users' own cannot be loaded.
    """
    assignors: dict[str, ConsumerGroupPartitionAssignor] = {}
    for name in names:
        assignor = _BY_SETTING.get(name)
        if assignor is None:
            raise ValueError(f"{name} is not a known assignor; known are {', '.join(_BY_SETTING)}")
        assignors.setdefault(assignor.name, assignor)
    return assignors
