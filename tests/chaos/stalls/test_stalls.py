"""The campaign itself: the table has what it promises, targets are judged, and a run measures. No time is asserted."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from barnabas.protocol.headers import parse_request_header
from barnabas.protocol.message_index import request_class
from tests.chaos.stalls.brokers import OURS, REFERENCE
from tests.chaos.stalls.campaign import Bounds, Campaign, kinds_named
from tests.chaos.stalls.frames import all_arrays
from tests.chaos.stalls.kinds import KINDS, Kind, Stage
from tests.chaos.stalls.report import Measurement, Row, as_json, markdown

NO_REQUESTS = {"before login: no request", "tls: no handshake"}
LARGE_TO_MAKE = "100 MB of zeros"
SMALL_BYTES = 2000
FEW_TAGS_BYTES = 80


def _measurement(system: str, worst_ms: float, **fields: object) -> Measurement:
    made = Measurement("groups", 2, system, worst_ms, worst_ms, 1.0, True, 10.0, 1.0, {"ok": 6}, True)
    return made._replace(**fields)  # type: ignore[arg-type]


def _missed(ours: Measurement, kafka: Measurement | None = None, kind: Kind = KINDS[0]) -> list[str]:
    measured = {OURS: ours} | ({} if kafka is None else {REFERENCE: kafka})
    return Row(kind, 2, measured, 6).missed


def test_names_are_unique_and_every_array_has_a_kind() -> None:
    names = Counter(kind.name for kind in KINDS)
    assert max(names.values()) == 1
    assert {array.name for array in all_arrays()} <= names.keys()


def test_every_kind_is_a_request_that_our_decoders_read() -> None:
    for kind in KINDS:
        if kind.name in NO_REQUESTS or LARGE_TO_MAKE in kind.name:
            continue
        # More tagged fields are refused.
        frame = next(iter(kind.make(FEW_TAGS_BYTES if "tagged fields" in kind.name else SMALL_BYTES)))
        header, start = parse_request_header(frame[4:])
        assert len(frame) == 4 + int.from_bytes(frame[:4], "big"), kind.name
        _, end = request_class(header.api_key).decode(frame[4:], header.api_version, start)
        assert end == len(frame) - 4, kind.name


def test_the_size_of_a_kind_is_what_was_asked_for() -> None:
    for array in all_arrays():
        assert 40_000 < len(array.frame(50_000)) < 51_000, array.name


def test_a_row_is_judged_by_wait_life_memory_and_kafka() -> None:
    assert not _missed(_measurement(OURS, 40), _measurement(REFERENCE, 30))
    assert _missed(_measurement(OURS, 60)) == ["60 ms, target 50"]
    assert _missed(_measurement(OURS, 45), _measurement(REFERENCE, 5)) == ["Kafka's victim waited 5 ms"]
    assert not _missed(_measurement(OURS, 45), _measurement(REFERENCE, 5, is_alive=False))
    assert _missed(_measurement(OURS, 10, is_alive=False)) == ["the broker died"]
    assert _missed(_measurement(OURS, 10, is_victim_answered=False)) == ["the victim got no answer"]
    assert _missed(_measurement(OURS, 10, memory_mib=5000.0)) == ["5000 MiB, limit 432"]
    unanswered = _measurement(OURS, 10, answers={"no answer": 6})
    assert _missed(unanswered, _measurement(REFERENCE, 10)) == ["Kafka answered"]
    (early,) = (kind for kind in KINDS if kind.name == "before login: groups")
    assert early.stage is Stage.BEFORE_LOGIN
    assert _missed(_measurement(OURS, 30), kind=early) == ["30 ms, target 20"]


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="no kind's name matches 'nosuch'"):
        kinds_named("nosuch")


def test_large_requests_sent_at_once_are_all_answered(tmp_path: Path) -> None:
    """They have their turns one after the other, each with its frame."""
    kinds = kinds_named("^(groups of many names|equal access control lists|one large record|lz4: tiny records)$")
    with Campaign(tmp_path, [OURS], Bounds(connections=6, seconds=120)) as campaign:
        rows = list(campaign.rows(kinds, [0.3], seconds=1000))
    assert len(rows) == len(kinds) == 4
    for row in rows:
        ((answer, count),) = row.measured[OURS].answers.items()
        assert (count, answer in {"closed", "no answer"}) == (6, False), (row.kind.name, answer)


def test_a_run_measures_and_reports(tmp_path: Path) -> None:
    kinds = kinds_named("^(describe-groups.groups|gzip: pieces without content|before login: tagged fields, few)$")
    with Campaign(tmp_path, [OURS], Bounds(connections=2, seconds=20)) as campaign:
        rows = list(campaign.rows(kinds, [0.01], seconds=100))
    assert len(rows) == 3
    for row in rows:
        found = row.measured[OURS]
        assert found.is_alive
        assert found.worst_ms > 0
        assert sum(found.answers.values()) == 2
        assert row.kind.name in markdown(rows, [OURS], "a run")
        assert row.kind.name in as_json(rows)
