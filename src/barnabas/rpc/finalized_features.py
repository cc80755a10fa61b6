"""The features that a cluster has finalized (KIP-584), as its nodes tell with ApiVersions.

Made by ApiVersionsDiscovery on the client's thread; immutable, so no lock. Kafka: ApiVersions.FinalizedFeaturesInfo.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from barnabas.protocol.messages.api_versions import ApiVersionsResponse


class FinalizedLevels(NamedTuple):
    """The level of each feature by its name, in force since `epoch`, which is -1 when nothing is finalized."""

    epoch: int
    levels: Mapping[str, int]

    def level_of(self, name: str) -> int:
        """Return the level of a feature; 0 for one that is not finalized."""
        return self.levels.get(name, 0)


NOTHING_FINALIZED = FinalizedLevels(-1, {})


def finalized_in(answer: ApiVersionsResponse) -> FinalizedLevels:
    """Return the features in an answer to ApiVersions; nodes before KIP-584 name none."""
    levels = {feature.name: feature.max_version_level for feature in answer.finalized_features}
    return FinalizedLevels(answer.finalized_features_epoch, levels)
