"""The assignors that `group.consumer.assignors` can name.

Called by `broker/` when the first consumer group needs one, and by the check of the setting; pure.
Kafka: GroupCoordinatorConfig.consumerGroupAssignors.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from barnabas.coordinator.group.assignors.assignor import ConsumerGroupPartitionAssignor
from barnabas.coordinator.group.assignors.range import ServerRangeAssignor
from barnabas.coordinator.group.assignors.uniform import UniformAssignor

_BUILT_IN: Final[tuple[ConsumerGroupPartitionAssignor, ...]] = (UniformAssignor(), ServerRangeAssignor())
_JAVA_PACKAGE: Final = "org.apache.kafka.coordinator.group.assignor."
_BY_SETTING: Final = {
    **{assignor.name: assignor for assignor in _BUILT_IN},
    **{_JAVA_PACKAGE + type(assignor).__name__: assignor for assignor in _BUILT_IN},
}


def assignors_named(names: Iterable[str]) -> dict[str, ConsumerGroupPartitionAssignor]:
    """The assignors by name, in the order of the setting: the first is the default. Their Java classes are names too.

    ValueError: there is no such assignor (classes of users' own cannot be loaded).
    """
    assignors: dict[str, ConsumerGroupPartitionAssignor] = {}
    for name in names:
        assignor = _BY_SETTING.get(name)
        if assignor is None:
            raise ValueError(f"{name} is not a known assignor; there are {', '.join(a.name for a in _BUILT_IN)}")
        assignors.setdefault(assignor.name, assignor)
    return assignors
