"""The uniform assignor: members get equally many partitions, and keep their present ones where they can.

The default of consumer groups. Used by the consumer group service through `built_in`; pure. There is one way
for members that all subscribe to the same topics, and one for members that do not. Racks are ignored, as in Kafka 4.
Kafka: org.apache.kafka.coordinator.group.assignor.UniformAssignor.
"""

from __future__ import annotations

from typing import Final

from barnabas.coordinator.group.assignors.assignor import (
    Assignment,
    GroupSpec,
    GroupSubscriptionType,
    TopicDescriber,
)
from barnabas.coordinator.group.assignors.uniform_heterogeneous import UniformHeterogeneousAssignment
from barnabas.coordinator.group.assignors.uniform_homogeneous import UniformHomogeneousAssignment


class UniformAssignor:
    """The assignor named `uniform`. Implements ConsumerGroupPartitionAssignor."""

    name: Final = "uniform"

    def assign(self, spec: GroupSpec, topics: TopicDescriber) -> dict[str, Assignment]:
        """Assign for balance first, then stickiness. Raises PartitionAssignorError when a topic is unknown."""
        if not spec.members:
            return {}
        if spec.subscription_type is GroupSubscriptionType.HOMOGENEOUS:
            return UniformHomogeneousAssignment(spec, topics).build()
        return UniformHeterogeneousAssignment(spec, topics).build()
