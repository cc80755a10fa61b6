"""Two rounds of the cluster campaign in every run of the tests, ten minutes of it among the slow ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.cluster_campaign import ClusterCampaign
from tests.support.server_fixtures import AGAINST_KAFKA

pytestmark = pytest.mark.skipif(AGAINST_KAFKA, reason="the kit starts brokers of Barnabas")

KINDS = (
    "kill_one",
    "kill_two",
    "kill_controller",
    "pause",
    "restart",
    "lose_session",
    "reassign",
    "isolate_one",
    "isolate_controller",
    "isolate_all",
    "cut_link",
)


@pytest.mark.timeout(600)
def test_two_rounds(tmp_path: Path) -> None:
    campaign = ClusterCampaign(tmp_path, seed=1)
    campaign.run(seconds=0, rounds=2)
    assert campaign.events
    assert campaign.acknowledged > 100


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_ten_minutes(tmp_path: Path) -> None:
    campaign = ClusterCampaign(tmp_path, seed=2, splits=True)
    campaign.run(seconds=600, rounds=10)
    assert min(campaign.events[kind] for kind in KINDS) > 0
