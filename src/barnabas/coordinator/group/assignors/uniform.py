"""The uniform assignor: members read equally many partitions, and keep of what they have what they can.

The default of consumer groups. Used by the consumer group service through `built_in`; pure. Two ways: for members
that all subscribe to the same topics, and for members that do not. Racks are not looked at, as in Kafka 4.
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
    """See the module. Implements ConsumerGroupPartitionAssignor."""

    name: Final = "uniform"

    def assign(self, spec: GroupSpec, topics: TopicDescriber) -> dict[str, Assignment]:
        """Balance first, then stickiness. PartitionAssignorError: a topic is unknown."""
        if not spec.members:
            return {}
        if spec.subscription_type is GroupSubscriptionType.HOMOGENEOUS:
            return UniformHomogeneousAssignment(spec, topics).build()
        return UniformHeterogeneousAssignment(spec, topics).build()
