"""Half a minute and ten minutes of the crash campaign; slow, both. Seeds are fixed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.campaign import Campaign
from tests.support.server_fixtures import AGAINST_KAFKA

pytestmark = pytest.mark.skipif(
    AGAINST_KAFKA, reason="Apache Kafka cannot be restarted within ZooKeeper's session time-out"
)


def _survives(directory: Path, seed: int, mode: str, *, seconds: float, kills: int) -> None:
    campaign = Campaign(directory, seed, mode)
    campaign.run(seconds=seconds, kills=kills)
    assert campaign.kills >= kills
    assert campaign.entries_checked > 0
    never = [phase for phase, times in campaign.phases.items() if not times]
    assert not never, f"the campaign never saw: {never}"
    assert campaign.records_cleaned > 0
    assert campaign.records_expired > 0


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("mode", "seed"), [("inline", 1), ("queue", 2)])
def test_half_a_minute(mode: str, seed: int, tmp_path: Path) -> None:
    _survives(tmp_path, seed, mode, seconds=30, kills=8)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_ten_minutes(tmp_path: Path) -> None:
    _survives(tmp_path, 3, "inline", seconds=600, kills=200)
