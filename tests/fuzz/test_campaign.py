"""A sample of the hostile input campaign in every run of the tests, with fixed seeds; `make fuzz` runs the whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.campaign import LEAST_SHARE_IN_BODY, FuzzCampaign
from tests.support.server_fixtures import AGAINST_KAFKA, MODES

pytestmark = pytest.mark.skipif(AGAINST_KAFKA, reason="others may fuzz Apache Kafka")


@pytest.mark.timeout(300)
@pytest.mark.parametrize("mode", MODES)
def test_twenty_seconds(mode: str, tmp_path: Path) -> None:
    campaign = FuzzCampaign(tmp_path, 20261121, mode)
    campaign.run(seconds=20, warm_up_seconds=5)
    assert campaign.share_in_body >= LEAST_SHARE_IN_BODY
    assert min(campaign.reached_body.values()) > 0
    assert campaign.outcomes["answered"] > 0 < campaign.outcomes["closed"]
