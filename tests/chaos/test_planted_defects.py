"""The cluster campaign finds planted defects, each by the faults that let it show, and by the check made for it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.chaos import defective_broker
from tests.chaos.cluster_campaign import ClusterCampaign
from tests.support.server_fixtures import AGAINST_KAFKA

pytestmark = [
    pytest.mark.skipif(AGAINST_KAFKA, reason="the defects are planted into brokers of Barnabas"),
    pytest.mark.slow,
    # Clients notice what is lost, too, and some of their threads end with an error.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning"),
    pytest.mark.timeout(1800),
]


@pytest.mark.parametrize(
    ("defect", "faults", "found"),
    [
        ("early-high-watermark", {"kill_in_turn"}, "acknowledged records are lost"),
        ("truncation-to-high-watermark", {"kill_in_turn"}, "acknowledged records are lost"),
        ("lost-transaction", {"lose_session"}, "is lost|shows|has committed"),
        ("forgotten-commits", {"lose_session"}, "and .* is committed|has committed"),
    ],
)
def test_a_planted_defect_is_found(defect: str, faults: set[str], found: str, tmp_path: Path) -> None:
    python = (sys.executable, str(Path(defective_broker.__file__)), defect)
    campaign = ClusterCampaign(tmp_path, seed=1, splits=True, python=python, only=faults, settled_seconds=30)
    with pytest.raises(AssertionError, match=found):
        campaign.run(seconds=0, rounds=40)
