"""The construction of the services of consumer groups (KIP-848), when they are needed for the first time.

Imported and called once by `group_coordinator_builder`, on a handler's thread or the loader's.
Kafka: BrokerServer.createGroupCoordinator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from barnabas.coordinator.group.assignors.server_assignors import assignors_named
from barnabas.coordinator.group.classic.classic_group_service import ClassicGroupService
from barnabas.coordinator.group.consumer.classic_members import ConsumerGroupClassicMembers
from barnabas.coordinator.group.consumer.consumer_group_service import ConsumerGroupService
from barnabas.coordinator.group.consumer.topics.regex_resolver import TopicRegexResolver
from barnabas.coordinator.group.group_environment import GroupEnvironment


class ConsumerGroups(NamedTuple):
    """The service of consumer groups, and its part for members that speak the classic protocol."""

    service: ConsumerGroupService
    classic_members: ConsumerGroupClassicMembers


def build_consumer_groups(
    environment: GroupEnvironment, classic: ClassicGroupService, count_rebalance: Callable[[], None]
) -> ConsumerGroups:
    """Return the services, which follow changes of the metadata. count_rebalance: called for each new target."""
    # The setting was checked at start: an unknown name does not get here.
    assignors = assignors_named(environment.config.consumer.assignors)
    service = ConsumerGroupService(
        environment,
        assignors,
        TopicRegexResolver(environment.clock, environment.scheduler, lambda: environment.metadata.image),
        _check_regular_expression,
        classic,
        count_rebalance=count_rebalance,
    )
    return ConsumerGroups(service, ConsumerGroupClassicMembers(environment, service, classic))


def _check_regular_expression(regex: str) -> None:
    """Check the syntax of an expression. Raises ApiError: INVALID_REGULAR_EXPRESSION when it is malformed."""
    from barnabas.coordinator.group.consumer.topics.regex import check_regular_expression

    check_regular_expression(regex)
