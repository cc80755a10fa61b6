"""What Spark's Kafka connector answered, recorded: our source is compared with it where there is no Java.

Read by `test_recorded_answers` and `test_same_answers`. To record again (needs Java and Maven):

    python -m tests.spark.connector.record_answers
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from tests.spark.connector.batch_cases import ROW_QUERIES, Query

PATH = Path(__file__).with_name("connector-answers.json")


class ComparedRow(NamedTuple):
    """A row as it is compared: the topic by its short name, the time in milliseconds, or None for the broker's own."""

    topic: str
    partition: int
    offset: int
    at: int | None
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class RecordedAnswer(NamedTuple):
    """The places of all rows, such as `plain-0: 0-4 7`, and a digest of what is in them."""

    places: list[str]
    digest: str


def is_recorded(query: Query) -> bool:
    """Return whether the rows are the same in every run, and the source alone decides them."""
    return query.topic != "compacted" and not query.columns and query.condition is None and query.fails is None


RECORDED_QUERIES = tuple(query for query in ROW_QUERIES if is_recorded(query))


def recorded_form(rows: Iterable[ComparedRow]) -> RecordedAnswer:
    """Return the form in which an answer is recorded."""
    ordered = sorted(rows, key=lambda row: row[:3])
    digest = hashlib.sha256(repr([tuple(row) for row in ordered]).encode()).hexdigest()[:16]
    places = []
    for (topic, partition), group in itertools.groupby(ordered, key=lambda row: row[:2]):
        places.append(f"{topic}-{partition}: {' '.join(_ranges([row.offset for row in group]))}")
    return RecordedAnswer(places, digest)


def _ranges(offsets: list[int]) -> list[str]:
    # Neighbouring offsets have the same distance to their index.
    groups = itertools.groupby(enumerate(offsets), key=lambda pair: pair[1] - pair[0])
    found = [[offset for _, offset in group] for _, group in groups]
    return [f"{each[0]}" if len(each) == 1 else f"{each[0]}-{each[-1]}" for each in found]


def read_answers() -> dict[str, RecordedAnswer]:
    """Return the recorded answers by the names of their queries."""
    return {name: RecordedAnswer(*answer) for name, answer in json.loads(PATH.read_text()).items()}


def write_answers(answers: dict[str, RecordedAnswer]) -> None:
    """Replace the recording."""
    PATH.write_text(json.dumps({name: list(answer) for name, answer in answers.items()}, indent=1) + "\n")
