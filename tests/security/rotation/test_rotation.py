"""Rounds of the campaign, on one broker and in a cluster of three; its rules alone are in every run of the tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.security.conftest import Certificates
from tests.security.rotation import brokers
from tests.security.rotation.campaign import CHANGES, SESSION_MS, RotationCampaign, Summary
from tests.security.rotation.place import Place

ENOUGH = 100


def _goes_through(place: Place, seed: int, *, rounds: int = 1, seconds: float = 0) -> Summary:
    summary = RotationCampaign(place, seed).run(rounds=rounds, seconds=seconds)
    assert summary.changes >= rounds * CHANGES
    assert summary.steady_records > ENOUGH
    assert summary.changing_records > ENOUGH
    return summary


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_round(certificates: Certificates, tmp_path: Path) -> None:
    with brokers.one_broker(certificates, tmp_path, SESSION_MS) as place:
        _goes_through(place, 1)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_rounds_of_queue_dispatch(certificates: Certificates, tmp_path: Path) -> None:
    with brokers.one_broker(certificates, tmp_path, SESSION_MS, "queue") as place:
        _goes_through(place, 2, rounds=2)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_rounds_in_a_cluster(certificates: Certificates, tmp_path: Path) -> None:
    with brokers.three_brokers(certificates, tmp_path, SESSION_MS) as place:
        _goes_through(place, 3, rounds=2)


@pytest.mark.slow
@pytest.mark.timeout(2400)
def test_five_minutes(certificates: Certificates, tmp_path: Path) -> None:
    with brokers.one_broker(certificates, tmp_path, SESSION_MS) as place:
        _goes_through(place, 4, seconds=300)
