"""What a query's directory says of it: whose it is, where it began, and what an earlier version left. Without Spark."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from barnabas_spark.pipeline.checkpoint_layout import CheckpointLayout, QueryIdentity, is_of_earlier_version
from barnabas_spark.reading.starting_offsets import first_offsets
from tests.spark.scripted_offsets import FakeBroker, options

ORDERS = QueryIdentity(("topic orders",), "topic large")
BOTH = QueryIdentity(("topic orders",), "topic large and topic large", ("to_first", "to_second"))


class Project:
    """A pipeline's directory, in which Spark has begun query `out`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.layout = CheckpointLayout(os.fspath(directory / "checkpoints" / "shop"))
        self.query = Path(self.layout.query("out"))

    def begin(self, spark_id: str = "one", batches: int = 0, finished: int = 0) -> None:
        """Do what Spark does."""
        for name in ("offsets", "commits"):
            (self.query / name).mkdir(parents=True, exist_ok=True)
        (self.query / "metadata").write_text(json.dumps({"id": spark_id}))
        for batch in range(batches):
            (self.query / "offsets" / str(batch)).write_text('v1\n{"batchTimestampMs":5}\n{}')
        for batch in range(finished):
            (self.query / "commits" / str(batch)).write_text("v1\n{}")

    def claimed_by_earlier_version(self) -> None:
        self.query.mkdir(parents=True, exist_ok=True)
        note = {"reads": ORDERS.reads, "writes": ORDERS.writes}
        (self.query / "pipeline.json").write_text(json.dumps(note))


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "project")


def test_nothing_of_a_query_outlives_its_directory(project: Project) -> None:
    """A start that lay elsewhere made a changed `startingOffsets` without effect, after the query had begun anew."""
    start = project.layout.start("out", "orders")
    assert project.layout.claim("out", ORDERS) is None
    at_latest = options(startingOffsetsLocation=start)
    assert first_offsets(at_latest, FakeBroker()) == first_offsets(at_latest, FakeBroker())
    shutil.rmtree(project.query)
    assert [each for each in Path(project.layout.root).rglob("*") if each.is_file()] == []


@pytest.mark.parametrize("finished", [0, 1])
def test_a_start_of_an_earlier_version_counts_until_a_micro_batch_is_finished(project: Project, finished: int) -> None:
    project.claimed_by_earlier_version()
    project.begin(batches=1, finished=finished)
    earlier = Path(project.layout.root) / "starts" / "out" / "orders"
    earlier.mkdir(parents=True)
    (earlier / "starting-offsets.json").write_text('{"t": {"0": 9, "1": 8}}')
    assert project.layout.claim("out", ORDERS) is None
    found = Path(project.layout.start("out", "orders")) / "starting-offsets.json"
    assert found.exists() is (finished == 0)
    assert not (Path(project.layout.root) / "starts").exists()
    # Again, as at the next run.
    assert project.layout.claim("out", ORDERS) is None
    assert found.exists() is (finished == 0)


def test_a_start_of_an_earlier_version_is_not_that_of_a_query_begun_anew(project: Project) -> None:
    for query in ("out", "other"):
        earlier = Path(project.layout.root) / "starts" / query / "orders"
        earlier.mkdir(parents=True)
        (earlier / "starting-offsets.json").write_text('{"t": {"0": 9, "1": 8}}')
    assert project.layout.claim("out", ORDERS) is None
    assert not Path(project.layout.start("out", "orders")).exists()
    assert sorted(each.name for each in (Path(project.layout.root) / "starts").iterdir()) == ["other"]


def test_a_copy_is_refused_and_a_move_is_not(project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert project.layout.claim("out", ORDERS) is None
    project.begin(batches=1)
    assert project.layout.foreign("out", ORDERS) is None
    (tmp_path / "linked").symlink_to(project.directory)
    assert Project(tmp_path / "linked").layout.foreign("out", ORDERS) is None
    copy = Project(tmp_path / "copy")
    shutil.copytree(project.directory, copy.directory)
    said = str(copy.layout.claim("out", ORDERS))
    assert f"{copy.query} is a copy of {project.query}, which is there too" in said
    # The original has begun anew; then it is gone.
    project.begin(spark_id="two")
    assert copy.layout.foreign("out", ORDERS) is None
    project.begin(spark_id="one")
    shutil.rmtree(project.directory)
    assert copy.layout.claim("out", ORDERS) is None
    assert copy.layout.foreign("out", ORDERS) is None


def test_notes_of_sinks_have_their_names(project: Project) -> None:
    """Exchanged, each sink would take what the other has written for its own."""
    assert project.layout.claim("out", BOTH) is None
    assert project.layout.claim("out", BOTH) is None
    exchanged = BOTH._replace(sinks=("to_second", "to_first"))
    said = str(project.layout.foreign("out", exchanged))
    assert "a query with the sinks to_first, to_second, in this order; these are to_second, to_first" in said


@pytest.mark.parametrize("note", ["{", "[]", "{}", '{"reads": 5, "writes": "x"}'])
def test_a_damaged_note_is_named(project: Project, note: str) -> None:
    project.query.mkdir(parents=True)
    (project.query / "pipeline.json").write_text(note)
    assert "is damaged: pipeline.json in it cannot be read" in str(project.layout.foreign("out", ORDERS))


def _new(project: Project) -> None:
    project.layout.claim("out", ORDERS)
    project.begin(batches=1)


def _earlier(project: Project) -> None:
    project.claimed_by_earlier_version()
    project.begin(batches=1)


def _earlier_without_micro_batch(project: Project) -> None:
    project.claimed_by_earlier_version()
    project.begin()


@pytest.mark.parametrize(
    ("begin", "expected"), [(_new, False), (_earlier, True), (_earlier_without_micro_batch, False)]
)
def test_a_checkpoint_of_an_earlier_version_stays_one(
    project: Project, begin: Callable[[Project], None], expected: bool
) -> None:
    begin(project)
    for _ in range(2):
        assert project.layout.claim("out", ORDERS) is None
        assert is_of_earlier_version(os.fspath(project.query)) is expected
