"""The demo's parts: its data, its directory, its sums, its picture."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from barnabas_spark.demo.delay_table import DelayCell, Totals, by_carrier, totals
from barnabas_spark.demo.flights import airline_names, flight_records
from barnabas_spark.demo.picture import draw_delays
from barnabas_spark.demo.workspace import NotOurs, Workspace

CELLS = [
    DelayCell("UA", 6, 100, 10, 2.0, 30.0),
    DelayCell("UA", 7, 40, 0, 11.0, 90.0),
    DelayCell("9E", 6, 30, 30, None, None),
    DelayCell("9E", 22, 50, 5, 21.5, 199.0),
]


def test_flights_are_json_keyed_by_carrier() -> None:
    first = next(flight_records())
    assert first.key == b"UA"
    assert json.loads(first.value)["dep_delay"] == 2
    cancelled = next(record for record in flight_records() if b'"dep_time":null' in record.value)
    flight = json.loads(cancelled.value)
    assert (flight["dep_time"], flight["dep_delay"], flight["hour"]) == (None, None, 16)
    carriers = {record.key.decode() for record in itertools.islice(flight_records(), 5_000)}
    assert carriers <= airline_names().keys()
    assert airline_names()["US"] == "US Airways"


def test_sums_leave_cancelled_flights_out_of_the_delays() -> None:
    assert totals(CELLS) == Totals(220, 45)
    late, less_late = by_carrier(CELLS)
    assert (late.carrier, late.cancelled, late.mean_delay) == ("9E", 35, 21.5)
    assert less_late.mean_delay == pytest.approx((90 * 2.0 + 40 * 11.0) / 130)
    assert less_late.cancelled_share == pytest.approx(10 / 140)


def test_the_picture_is_drawn(tmp_path: Path) -> None:
    path = tmp_path / "delays.png"
    draw_delays(CELLS, {"UA": "United"}, str(path), "a footnote")
    assert path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert path.stat().st_size > 20_000


def test_a_directory_is_cleared_only_if_a_demo_made_it(tmp_path: Path) -> None:
    output = tmp_path / "output"
    workspace = Workspace(str(output))
    workspace.prepare()
    (output / "broker").mkdir()
    (output / "broker" / "file").touch()
    (output / "elsewhere").symlink_to(tmp_path)
    workspace.prepare()
    assert [entry.name for entry in output.iterdir()] == [".barnabas-demo"]
    (tmp_path / "precious").touch()
    with pytest.raises(NotOurs, match="no demo made it"):
        Workspace(str(tmp_path)).prepare()
    assert (tmp_path / "precious").exists()
