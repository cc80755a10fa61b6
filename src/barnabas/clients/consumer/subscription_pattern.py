"""A regular expression that the group's coordinator matches against the names of its topics. Immutable.

Made by users, for `Consumer.subscribe`. Kafka: SubscriptionPattern (KIP-848).
"""

from __future__ import annotations

from typing import NamedTuple


class SubscriptionPattern(NamedTuple):
    """An expression in RE2's syntax. It has to match the whole name of a topic."""

    pattern: str
