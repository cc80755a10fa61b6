"""Half a minute and ten minutes of the cluster campaign; slow, both."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.chaos.cluster_campaign import ClusterCampaign
from tests.support.server_fixtures import AGAINST_KAFKA
from tests.support.small_disk import mount_problem

pytestmark = pytest.mark.skipif(AGAINST_KAFKA, reason="the kit starts brokers of Barnabas")


def _campaign(directory: Path, seed: int) -> ClusterCampaign:
    """Return a campaign of every fault; outside of CI without full disks where none can be mounted."""
    must_fill = os.environ.get("CI", "").lower() == "true"
    return ClusterCampaign(directory, seed, splits=True, full_disks=must_fill or mount_problem() is None)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_half_a_minute(tmp_path: Path) -> None:
    campaign = _campaign(tmp_path, seed=1)
    campaign.run(seconds=30, rounds=1)
    assert campaign.events
    assert campaign.acknowledged > 100
    assert campaign.committed() > 10
    assert all(reader.commits for reader in campaign.readers)


@pytest.mark.slow
@pytest.mark.timeout(5400)
def test_ten_minutes(tmp_path: Path) -> None:
    campaign = _campaign(tmp_path, seed=2)
    campaign.run(seconds=600, rounds=30)
    never = campaign.faults.kinds - campaign.events.keys()
    assert not never, f"these faults never happened: {never}"
