"""One, three and ten kills of the pipeline campaign, with fixed seeds. All are slow: other files have runs that die."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.pipeline_campaign import BROKER, EXECUTOR, RUN, PipelineCampaign, seeded_victims

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(2_400),
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc to find Spark's processes"),
]


@pytest.mark.slow
def test_the_output_is_the_transform_of_the_input_after_a_kill_of_the_run(tmp_path: Path) -> None:
    PipelineCampaign(tmp_path, seed=1, workers=1).run([RUN])


@pytest.mark.slow
def test_a_kill_of_each_kind(tmp_path: Path) -> None:
    PipelineCampaign(tmp_path, seed=1, workers=1).run([EXECUTOR, BROKER, RUN])


@pytest.mark.slow
def test_ten_kills(tmp_path: Path) -> None:
    campaign = PipelineCampaign(tmp_path, seed=2)
    campaign.run(seeded_victims(seed=2, kills=10))
    assert set(campaign.kills.values()) == {2}
