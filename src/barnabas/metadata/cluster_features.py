"""The features of the cluster (KIP-584): the levels that this broker supports, and those in force.

Made by `broker`; read by the request handlers on any thread, changed by UpdateFeatures on a handler's. `in_force` is an
immutable value that is replaced by one assignment; `_lock` makes one change out of reading, checking and writing. This
broker's controller, which sets /feature up before requests are served, is the only other writer.
Kafka: FinalizedFeatureCache, BrokerFeatures, KafkaController.processFeatureUpdates.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from barnabas.protocol.codes import UpgradeType
from barnabas.protocol.kafka_releases import RELEASES
from barnabas.zk.kafka_zk_client import KafkaZkClient
from barnabas.zk.znodes.broker_zk_data import FinalizedFeatures


class LevelRange(NamedTuple):
    """The levels of a feature that are supported, both ends included. Level 0: the feature is not in force."""

    lowest: int
    highest: int


class FeaturesInForce(NamedTuple):
    """The levels of the features in force, and the epoch of their last change; -1 before they are read."""

    levels: Mapping[str, int]
    epoch: int


class FeatureChange(NamedTuple):
    """A wanted level of a feature. upgrade_type: as the client sent it, which may be none of `UpgradeType`."""

    feature: str
    level: int
    upgrade_type: int


Reasons: TypeAlias = Mapping[FeatureChange, str]
"""The changes that cannot be made, with the reason."""

SUPPORTED: Final[Mapping[str, LevelRange]] = {"transaction.version": LevelRange(0, 2)}
FEATURES_SINCE: Final = "4.0"
"""The first release of Apache Kafka whose clients use these features."""


def supported_features(release: str | None) -> Mapping[str, LevelRange]:
    """Return the features of a broker that plays a release of Apache Kafka, or plays none."""
    has_features = release is None or RELEASES.index(release) >= RELEASES.index(FEATURES_SINCE)
    return SUPPORTED if has_features else {}


class ClusterFeatures:
    """The features. supported: by name; none while the broker plays a release that has no features."""

    def __init__(self, zk_client: KafkaZkClient, supported: Mapping[str, LevelRange] = SUPPORTED) -> None:
        self.supported = supported
        self._zk_client = zk_client
        self._lock = threading.Lock()
        self._in_force = FeaturesInForce({}, -1)

    @property
    def in_force(self) -> FeaturesInForce:
        """The features in force, of those that are supported."""
        return self._in_force

    def load(self) -> None:
        """Read what is in force. Called once, when the controller has set the features up."""
        with self._lock:
            self._take(*self._stored())

    def update(self, changes: Sequence[FeatureChange], *, is_atomic: bool, validate_only: bool) -> Reasons:
        """Bring features to other levels; return why changes cannot be made, the others are.

        is_atomic: with one that cannot be made, none is made. validate_only: none is made at all.
        """
        with self._lock:
            finalized, epoch = self._stored()
            levels = dict(finalized.features)
            reasons: dict[FeatureChange, str] = {}
            for change in changes:
                reason = _rejection_reason(change, self.supported.get(change.feature), levels.get(change.feature, 0))
                if reason is not None:
                    reasons[change] = reason
                elif change.level == 0:
                    levels.pop(change.feature, None)
                else:
                    levels[change.feature] = change.level
            is_changed = levels != finalized.features
            if is_changed and not validate_only and not (reasons and is_atomic):
                finalized = FinalizedFeatures(levels)
                epoch = self._zk_client.update_finalized_features(finalized)
            self._take(finalized, epoch)
            return reasons

    def _stored(self) -> tuple[FinalizedFeatures, int]:
        return self._zk_client.finalized_features() or (FinalizedFeatures(), -1)

    def _take(self, finalized: FinalizedFeatures, epoch: int) -> None:
        levels = {
            name: min(level, self.supported[name].highest)
            for name, level in finalized.features.items()
            if name in self.supported
        }
        self._in_force = FeaturesInForce(levels, epoch)


def _rejection_reason(change: FeatureChange, supported: LevelRange | None, present: int) -> str | None:
    """Return why a change cannot be made, in the words of Apache Kafka 3.9, or None. present: 0 without the feature."""
    for is_wrong, reason in _RULES:
        if is_wrong(change, supported, present):
            return reason.format(
                level=change.level, present=present, highest=0 if supported is None else supported.highest
            )
    return None


_Rule: TypeAlias = tuple[Callable[[FeatureChange, LevelRange | None, int], bool], str]
_RULES: Final[Sequence[_Rule]] = (
    (lambda change, _supported, _present: not change.feature, "Feature name can not be empty."),
    (
        lambda change, _supported, _present: change.upgrade_type not in tuple(UpgradeType),
        "Received unknown upgrade type.",
    ),
    (
        lambda change, supported, _present: change.level >= 1 and supported is None,
        "Could not apply finalized feature update because the provided feature is not supported.",
    ),
    (
        lambda change, supported, _present: supported is not None and change.level > supported.highest,
        (
            "Could not apply finalized feature update because brokers were found to have incompatible versions for the"
            " feature: the highest is {highest}, not {level}."
        ),
    ),
    (
        lambda change, _supported, _present: change.level < 1 and change.upgrade_type == UpgradeType.UPGRADE,
        "Can not provide versionLevel: {level} less than 1 without setting the SAFE downgradeType in the request.",
    ),
    (
        lambda change, _supported, present: change.level < 1 and present == 0,
        "Can not delete non-existing finalized feature.",
    ),
    (
        lambda change, _supported, present: change.level < present and change.upgrade_type == UpgradeType.UPGRADE,
        (
            "Can not downgrade finalized feature from existing versionLevel: {present} to provided versionLevel:"
            " {level} without setting the SAFE downgradeType in the request."
        ),
    ),
    (
        lambda change, _supported, present: change.level > present and change.upgrade_type != UpgradeType.UPGRADE,
        (
            "When finalized feature downgrade is requested, the provided versionLevel: {level} can not be greater than"
            " the existing versionLevel: {present}."
        ),
    ),
)
"""What is wrong with a change, in Kafka's order; the first that applies is the reason."""
