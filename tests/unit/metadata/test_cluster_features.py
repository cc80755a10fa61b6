"""The levels of features: what may be changed to what, and what is in force."""

from __future__ import annotations

import pytest

from barnabas.metadata.cluster_features import ClusterFeatures, FeatureChange, supported_features
from barnabas.protocol.codes import UpgradeType
from barnabas.zk.kafka_zk_client import KafkaZkClient
from barnabas.zk.znodes.broker_zk_data import FinalizedFeatures
from tests.support.inline_store import InlineStore
from tests.support.mock_clock import MockClock

NAME = "transaction.version"
UP, DOWN = UpgradeType.UPGRADE, UpgradeType.SAFE_DOWNGRADE


@pytest.fixture
def zk_client() -> KafkaZkClient:
    client = KafkaZkClient(InlineStore(MockClock()).new_session(), MockClock())
    client.create_finalized_features(FinalizedFeatures())
    return client


def change(features: ClusterFeatures, level: int, kind: int = UP, name: str = NAME, *, dry: bool = False) -> str | None:
    changed = FeatureChange(name, level, kind)
    return features.update([changed], is_atomic=False, validate_only=dry).get(changed)


def test_a_level_goes_up_and_down_and_outlives_the_broker(zk_client: KafkaZkClient) -> None:
    features = ClusterFeatures(zk_client)
    features.load()
    assert features.in_force == ({}, 0)
    assert change(features, 2, dry=True) is None
    assert features.in_force == ({}, 0)
    assert change(features, 2) is None
    assert features.in_force == ({NAME: 2}, 1)
    assert change(features, 2) is None
    assert features.in_force == ({NAME: 2}, 1), "nothing has changed"
    again = ClusterFeatures(zk_client)
    again.load()
    assert again.in_force == ({NAME: 2}, 1)
    assert change(again, 1, DOWN) is None
    assert change(again, 0, DOWN) is None
    assert again.in_force == ({}, 3)


@pytest.mark.parametrize(
    ("level", "kind", "name", "reason"),
    [
        (3, UP, NAME, "brokers were found to have incompatible versions for the feature: the highest is 2, not 3."),
        (0, UP, NAME, "Can not provide versionLevel: 0 less than 1"),
        (0, DOWN, "other", "Can not delete non-existing finalized feature."),
        (1, UP, NAME, "from existing versionLevel: 2 to provided versionLevel: 1 without"),
        (1, 9, NAME, "Received unknown upgrade type."),
        (1, UP, "other", "the provided feature is not supported."),
        (1, UP, "", "Feature name can not be empty."),
    ],
)
def test_a_change_that_is_wrong(zk_client: KafkaZkClient, level: int, kind: int, name: str, reason: str) -> None:
    features = ClusterFeatures(zk_client)
    change(features, 2)
    assert reason in (change(features, level, kind, name) or "")
    assert features.in_force.levels == {NAME: 2}


def test_a_downgrade_does_not_raise_a_level(zk_client: KafkaZkClient) -> None:
    features = ClusterFeatures(zk_client)
    assert "can not be greater than the existing versionLevel: 0" in (change(features, 2, DOWN) or "")


@pytest.mark.parametrize(("is_atomic", "levels"), [(True, {}), (False, {NAME: 2})])
def test_one_wrong_change_keeps_the_others_from_being_made(
    zk_client: KafkaZkClient, is_atomic: bool, levels: dict[str, int]
) -> None:
    features = ClusterFeatures(zk_client)
    wrong = FeatureChange("other", 1, UP)
    reasons = features.update([FeatureChange(NAME, 2, UP), wrong], is_atomic=is_atomic, validate_only=False)
    assert list(reasons) == [wrong]
    assert features.in_force.levels == levels


def test_a_release_without_features_has_none_in_force(zk_client: KafkaZkClient) -> None:
    zk_client.update_finalized_features(FinalizedFeatures({NAME: 2}))
    for release, levels in (("3.9", {}), ("4.0", {NAME: 2}), (None, {NAME: 2})):
        features = ClusterFeatures(zk_client, supported_features(release))
        features.load()
        assert features.in_force.levels == levels
