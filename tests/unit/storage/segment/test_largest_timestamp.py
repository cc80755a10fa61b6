"""The largest timestamp of a segment, which readers look up without the log's lock while batches are appended."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from barnabas.storage.segment.time_index import TimeIndex, TimestampOffset
from tests.unit.storage.log_harness import NOW, Broker, batch


@pytest.mark.interpreted
def test_a_reader_does_not_undo_an_append(monkeypatch: pytest.MonkeyPatch) -> None:
    """An append that happens while a reader looks the largest timestamp up stays the largest."""
    broker = Broker()
    broker.log().append_as_leader(batch(1, timestamp=NOW), 0)
    log = broker.restart()
    segment = log.local.segments.active
    look_up: Callable[[TimeIndex], TimestampOffset] = vars(TimeIndex)["last_entry"].fget

    def with_an_append_meanwhile(index: TimeIndex) -> object:
        found = look_up(index)
        monkeypatch.setattr(TimeIndex, "last_entry", property(look_up))
        log.append_as_leader(batch(1, timestamp=NOW + 1000), 0)
        return found

    monkeypatch.setattr(TimeIndex, "last_entry", property(with_an_append_meanwhile))
    assert segment.max_timestamp_and_offset().timestamp == NOW, "what was there when the reader came"
    assert segment.max_timestamp_and_offset().timestamp == NOW + 1000
