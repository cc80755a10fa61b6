"""Puts together what a broker needs for consumer groups (KIP-848), when the first of them comes.

Imported and called by `group_coordination`, once, on whatever thread that is: a handler's, or the loader's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from barnabas.coordinator.group.assignors.built_in import assignors_named
from barnabas.coordinator.group.classic.service import ClassicGroupService
from barnabas.coordinator.group.consumer.classic_members import ConsumerGroupClassicMembers
from barnabas.coordinator.group.consumer.service import ConsumerGroupService
from barnabas.coordinator.group.consumer.topics.regex_resolver import TopicRegexResolver
from barnabas.coordinator.group.environment import GroupEnvironment


class ConsumerGroups(NamedTuple):
    """The service, and what it does for members that speak the classic protocol."""

    service: ConsumerGroupService
    classic_members: ConsumerGroupClassicMembers


def build_consumer_groups(
    environment: GroupEnvironment, classic: ClassicGroupService, count_rebalance: Callable[[], None]
) -> ConsumerGroups:
    """Told of changes of the metadata from now on. count_rebalance: told of each new target assignment."""
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
    """Raise INVALID_REGULAR_EXPRESSION unless it is one."""
    from barnabas.coordinator.group.consumer.topics.regex import check_regular_expression  # noqa: PLC0415 - loads google-re2

    check_regular_expression(regex)
