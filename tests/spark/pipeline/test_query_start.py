"""How a run starts: with its brokers only, one query after the other, again while Spark is slow. Without Spark."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from barnabas_spark.pipeline import run, streaming_query
from barnabas_spark.pipeline.pipeline_error import RunFailed
from barnabas_spark.pipeline.pipeline_file import read_pipeline
from barnabas_spark.pipeline.run import RunningQuery
from barnabas_spark.pipeline.run_display import RunDisplay
from barnabas_spark.pipeline.streaming_query import MOST_STARTS, QueryProgress, Restarts, started_query

TOO_LATE = "[STREAM_FAILED] Query [id = 1] terminated with exception: Python worker failed to connect back. SQLSTATE: X"


class Handle:
    """A query of which Spark says these messages, one at each question, until it fails or goes on."""

    def __init__(self, *messages: str, error: str | None = None) -> None:
        self._messages = list(messages)
        self._error = error
        self.is_stopped = False

    @property
    def isActive(self) -> bool:
        return bool(self._messages) or self._error is None

    @property
    def status(self) -> dict[str, Any]:
        return {"message": self._messages.pop(0) if self._messages else "Processing new data"}

    def exception(self) -> Exception | None:
        return None if self._error is None else RuntimeError(self._error)

    def stop(self) -> None:
        self.is_stopped = True


class Starts:
    """Starts these queries one after the other, and counts the pauses."""

    def __init__(self, *handles: Handle) -> None:
        self._handles = list(handles)
        self.started = self.pauses = 0

    def __call__(self) -> Any:
        self.started += 1
        return self._handles.pop(0)

    def pause(self, _seconds: float) -> None:
        self.pauses += 1


def test_a_query_is_waited_for_until_its_sources_are_there() -> None:
    handle = Handle("Initializing StreamExecution", "Initializing sources", "Getting offsets from t")
    starts = Starts(handle)
    assert started_query(starts, lambda: False, starts.pause) is handle
    assert (starts.started, starts.pauses) == (1, 2)


def test_one_that_was_too_late_is_started_again() -> None:
    late = [Handle("Initializing sources", error=TOO_LATE) for _ in range(MOST_STARTS)]
    begun = Handle("Initializing sources", "Processing new data")
    starts = Starts(*late[:3], begun)
    assert started_query(starts, lambda: False, starts.pause) is begun
    assert starts.started == 4
    # Spark gives a name to one query at a time.
    assert [each.is_stopped for each in late[:3]] == [True, True, True]
    assert not begun.is_stopped
    # Not for ever: the run then fails with Spark's words.
    starts = Starts(*late)
    assert streaming_query.was_too_late(started_query(starts, lambda: False, starts.pause))
    assert starts.started == MOST_STARTS


def test_a_running_query_is_started_again_as_long_as_it_gets_on() -> None:
    """A driver's process of micro-batch 0 that was too late ended the whole run."""
    restarts, late = Restarts(), Handle(error=TOO_LATE)
    assert not restarts.may_start_again(Handle("Processing new data"), -1)
    assert not restarts.may_start_again(Handle(error="no such topic"), -1)
    assert [restarts.may_start_again(late, -1) for _ in range(MOST_STARTS + 1)] == [True] * MOST_STARTS + [False]
    assert late.is_stopped
    assert restarts.may_start_again(late, 0), "it has finished a micro-batch since"


@pytest.mark.parametrize("stops", [False, True])
def test_the_run_goes_on_with_the_query_that_was_started_again(stops: bool) -> None:
    begun = Handle("Processing new data")
    starts = Starts(begun)
    unharmed = Handle("Processing new data")
    running = [
        RunningQuery(None, handle, QueryProgress("q", "w"), starts, Restarts())  # type: ignore[arg-type]
        for handle in (unharmed, Handle(error=TOO_LATE))
    ]
    assert run._start_again(running, lambda: stops) is not stops
    assert starts.started == (not stops)
    assert running[0].handle is unharmed
    assert (running[1].handle is begun) is not stops


def test_any_other_failure_is_one() -> None:
    failed = Handle("Initializing sources", error="[STREAM_FAILED] terminated with exception: no such topic")
    starts = Starts(failed)
    assert started_query(starts, lambda: False, starts.pause) is failed
    assert starts.started == 1


def test_a_query_does_not_outlive_an_interrupted_start() -> None:
    def interrupt(_seconds: float) -> None:
        raise KeyboardInterrupt

    handle = Handle("Initializing sources", "Initializing sources")
    with pytest.raises(KeyboardInterrupt):
        started_query(Starts(handle), lambda: False, interrupt)
    assert handle.is_stopped


@pytest.mark.parametrize("error", [None, TOO_LATE])
def test_a_run_that_is_to_stop_waits_for_no_query(error: str | None) -> None:
    starts = Starts(Handle("Initializing sources", "Initializing sources", error=error))
    started_query(starts, lambda: True, starts.pause)
    assert (starts.started, starts.pauses) == (1, 0)


PIPELINE = """\
name: lonely
brokers: 127.0.0.1:9
sources:
  orders: {topic: orders, schema: id BIGINT}
sinks:
  out: {from: orders, topic: out}
"""


def test_without_a_broker_a_run_ends_before_spark_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "_BOOTSTRAP_TIMEOUT_MS", 50)
    path = tmp_path / "lonely.yaml"
    path.write_text(PIPELINE)
    pipeline = read_pipeline(str(path), {}, {})
    said = r"the brokers 127\.0\.0\.1:9 do not answer: No broker can be reached \(127\.0\.0\.1:9: connection refused\)"

    def no_session(*_: object) -> Any:
        raise AssertionError("Spark was started")

    with pytest.raises(RunFailed, match=said):
        run.run_pipeline(pipeline, RunDisplay(Console(file=io.StringIO())), lambda: False, no_session)
    monkeypatch.setattr(run, "pipeline_session", no_session)
    with pytest.raises(RunFailed, match=said):
        run.plan_in_words(pipeline)
