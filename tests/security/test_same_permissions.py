"""What clients may do: the same requests, with the same access control lists, to ours and to Apache Kafka 3.9.

`make test` asks ours what was asked of Apache Kafka when its answers were recorded (`python -m
tests.security.record_permissions`): every API, once for each of PROFILES: no right at all, each right alone, rights
together, a denied right. `make test-all` asks both, every version of every API for each profile. Both must refuse the
same, show the same topics, groups and transactions, and tell the same authorized operations.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.security.permission_cases import PROFILES, Side, all_cases, common_versions, sample_of
from tests.security.record_permissions import RECORDED, both_sides, in_words, our_broker
from tests.support.apache_kafka import need_apache_kafka

FEWEST_LIVE, FEWEST_RECORDED = 7_000, 2_000


@pytest.fixture
def sides(tmp_path: Path) -> Iterator[tuple[Side, Side]]:
    """Ours and Apache Kafka."""
    need_apache_kafka()
    with both_sides(tmp_path) as both:
        yield both


@pytest.mark.slow
@pytest.mark.java
@pytest.mark.timeout(1800)
def test_both_refuse_the_same(sides: tuple[Side, Side]) -> None:
    ours, theirs = sides
    versions = common_versions(ours.admin.supported_versions(), theirs.admin.supported_versions())
    count, differences = 0, []
    for rights in PROFILES:
        for side in sides:
            side.grant(rights)
        for case in all_cases(versions):
            verdicts = ours.ask(case), theirs.ask(case)
            count += 1
            if verdicts[0] != verdicts[1]:
                differences.append((case.name, [str(right) for right in rights], *verdicts))
    print(f"{count} requests, {len(differences)} differences")  # noqa: T201
    assert not differences, f"{len(differences)} of {count}: {differences[:20]}"
    assert count >= FEWEST_LIVE


def test_recorded_answers(tmp_path: Path) -> None:
    recorded = json.loads(RECORDED.read_text())
    versions = {int(key): (lowest, highest) for key, (lowest, highest) in recorded["versions"].items()}
    assert [profile["rights"] for profile in recorded["profiles"]] == [
        [str(right) for right in each] for each in PROFILES
    ]
    count, differences = 0, []
    with our_broker(tmp_path) as ours:
        for number, profile in enumerate(recorded["profiles"]):
            ours.grant(PROFILES[number])
            for case in sample_of(versions, number):
                found, expected = in_words(ours.ask(case)), profile["verdicts"][case.name]
                count += 1
                if found != expected:
                    differences.append((case.name, profile["rights"], found, expected))
    assert not differences, f"{len(differences)} of {count}: {differences[:20]}"
    assert count >= FEWEST_RECORDED
