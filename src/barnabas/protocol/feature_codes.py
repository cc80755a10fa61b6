"""The numbers in messages about features of the cluster: the kinds of changes of a level (KIP-584).

Shared by the broker's handlers and the admin client; immutable. Kafka: FeatureUpdate.UpgradeType.
"""

from __future__ import annotations

from enum import IntEnum


class UpgradeType(IntEnum):
    """The changes of a feature's level that a client allows. An unsafe downgrade may lose metadata."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3
