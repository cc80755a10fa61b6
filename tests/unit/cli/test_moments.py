"""Times on the command line mean the same instant on every machine."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from barnabas.cli.option_types import parse_timestamp_ms, utc_time


@pytest.fixture(params=["America/New_York", "UTC", "Asia/Tokyo"])
def _zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", request.param)
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("_zone")
@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("2026-01-31T12:00:00", "2026-01-31T12:00:00.000+00:00"),
        ("2026-01-31T12:00:00.250", "2026-01-31T12:00:00.250+00:00"),
        ("2026-07-31", "2026-07-31T00:00:00.000+00:00"),
        ("2026-01-31T12:00:00Z", "2026-01-31T12:00:00.000+00:00"),
        ("2026-01-31T12:00:00+02:00", "2026-01-31T10:00:00.000+00:00"),
        ("2026-01-31T12:00:00.000-0500", "2026-01-31T17:00:00.000+00:00"),
    ],
)
def test_a_time_without_a_zone_is_in_utc(text: str, instant: str) -> None:
    timestamp_ms = parse_timestamp_ms(text)
    assert timestamp_ms is not None
    assert utc_time(timestamp_ms) == instant


def test_what_is_no_time() -> None:
    assert parse_timestamp_ms("soon") is None
    assert parse_timestamp_ms("1969-12-31T23:59:59") == 0


def test_a_time_that_no_calendar_has_is_shown_all_the_same() -> None:
    """A broker may send any time: of a token that lives for ever, for example."""
    assert utc_time(2**63 - 1) == "9223372036854775807 ms after 1970"
    assert utc_time(-(2**63)) == "-9223372036854775808 ms after 1970"
