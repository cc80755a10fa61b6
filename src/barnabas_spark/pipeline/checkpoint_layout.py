"""Where a pipeline keeps what it needs to go on: a directory for each query, and the pipeline's own state beside them.

    <checkpoints>/<pipeline>/run.lock              held while the pipeline runs
    <checkpoints>/<pipeline>/status.json           what it does, or how it ended
    <checkpoints>/<pipeline>/spark/                Spark's log and scratch files
    <checkpoints>/<pipeline>/queries/<query>/      Spark's checkpoint of one query
    <checkpoints>/<pipeline>/queries/<query>/pipeline.json   what the query reads and writes, and where it lies
    <checkpoints>/<pipeline>/queries/<query>/barnabas-starts/<source>/   the offsets that a new query began at
    <checkpoints>/<pipeline>/queries/<query>/barnabas-sink/              the micro-batch that a topic has
    <checkpoints>/<pipeline>/queries/<query>/barnabas-files/<sink>/      the files of the last micro-batches

All that a query remembers is in its directory: a query whose directory is removed begins anew. Outside of it, in the
topics and tables that it writes to, are notes that have the id of Spark's checkpoint, which then is another one.

Earlier versions kept the starts in <checkpoints>/<pipeline>/starts/<query>/<source>/.

Called by `run`, `plan` and the sinks on the driver, one query's directory on one thread; no lock in the process. The
lock of a run is the operating system's (flock): it ends with the process, however that ends. By it and by the status
file, which is replaced whole, `status` and `stop` know of a run in another process.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from barnabas_spark.pipeline.pipeline_error import RunFailed
from barnabas_spark.topic_offsets import START

_IDENTITY = "pipeline.json"
_STARTS = "barnabas-starts"
_FORM = 2
"""The form of what is noted in the checkpoint. Checkpoints that were begun by an earlier version have none."""


class QueryIdentity(NamedTuple):
    """What a query reads and writes, which its checkpoint belongs to."""

    reads: tuple[str, ...]
    writes: str
    sinks: tuple[str, ...] = ()
    """The names of the sinks, if there are several: their notes in topics and tables have them."""


class PlannedBatch(NamedTuple):
    """A micro-batch, and the offsets that it ends at, as Spark's JSON."""

    number: int
    ends: str


class CheckpointLayout:
    """The directories of one pipeline. `root` is absolute."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.lock = os.path.join(root, "run.lock")
        self.status = os.path.join(root, "status.json")
        self.spark = os.path.join(root, "spark")

    def query(self, name: str) -> str:
        """Return the checkpoint directory of a query."""
        return os.path.join(self.root, "queries", name)

    def start(self, query: str, source: str) -> str:
        """Return the directory for the offsets that a query began at in a source."""
        return os.path.join(self.query(query), _STARTS, source)

    def claim(self, name: str, identity: QueryIdentity) -> str | None:
        """Note that a query's checkpoint is of this identity. Returns why it cannot be, or None. Raises OSError.

        A checkpoint has the offsets of its sources by their order, and its sink's last micro-batch. With another source
        or sink it would skip records, or write them in the wrong place.
        """
        problem = self.foreign(name, identity)
        if problem is None:
            directory = self.query(name)
            os.makedirs(directory, exist_ok=True)
            is_new_form = self.planned(name) is None or not is_of_earlier_version(directory)
            note = {**identity._asdict(), "place": os.path.realpath(directory), "form": _FORM if is_new_form else None}
            _replace(os.path.join(directory, _IDENTITY), json.dumps(note))
            self._take_over_starts(name)
        return problem

    def foreign(self, name: str, identity: QueryIdentity) -> str | None:
        """Return why a query cannot go on from its checkpoint, or None. Raises OSError."""
        directory = self.query(name)
        try:
            found = _note(directory)
            earlier = None if found is None else QueryIdentity(tuple(found["reads"]), found["writes"])
            named = () if found is None else tuple(found.get("sinks", ()))
            place = None if found is None else found.get("place")
        except (ValueError, KeyError, TypeError):
            return f"the checkpoint {directory} is damaged: {_IDENTITY} in it cannot be read"
        if earlier is None:
            return None
        if earlier != identity._replace(sinks=()):
            return (
                f"the checkpoint {directory} belongs to a query from {', '.join(earlier.reads)} to {earlier.writes};"
                f" this one goes from {', '.join(identity.reads)} to {identity.writes}: rename the sink, or remove the"
                " directory to begin anew"
            )
        if named and named != identity.sinks:
            return (
                f"the checkpoint {directory} belongs to a query with the sinks {', '.join(named)}, in this order; these"
                f" are {', '.join(identity.sinks)}: give them these names, or remove the directory to begin anew"
            )
        if place is not None and _is_copy(directory, place):
            return (
                f"the checkpoint {directory} is a copy of {place}, which is there too: of two queries with one"
                " identity, each takes what the other has written for its own, and skips it; remove the directory to"
                " begin anew, or the other one if it has moved here"
            )
        return None

    def _take_over_starts(self, name: str) -> None:
        """Move the starts that an earlier version has kept elsewhere to the checkpoint. Raises OSError.

        They count as long as no micro-batch is finished, and for the checkpoint that they were kept for: not for one
        that begins anew, which Spark has not seen yet.
        """
        earlier, directory = os.path.join(self.root, "starts", name), self.query(name)
        if not os.path.isdir(earlier):
            return
        if os.path.exists(os.path.join(directory, "metadata")) and not self.next_batch(name):
            for source in os.listdir(earlier):
                if not os.path.exists(self.start(name, source)):
                    os.makedirs(os.path.join(directory, _STARTS), exist_ok=True)
                    os.replace(os.path.join(earlier, source), self.start(name, source))
        shutil.rmtree(earlier)
        with suppress(OSError):
            # Those of other queries may still be there.
            os.rmdir(os.path.dirname(earlier))

    def next_batch(self, name: str) -> int | None:
        """Return the number of the micro-batch with which a query goes on, or None for a new query. Raises OSError."""
        try:
            committed = _numbers(os.path.join(self.query(name), "commits"))
        except FileNotFoundError:
            return None
        return max(committed, default=-1) + 1

    def planned(self, name: str) -> PlannedBatch | None:
        """Return the number and the ends of the last micro-batch that was planned, or None. Raises OSError."""
        directory = os.path.join(self.query(name), "offsets")
        try:
            number = max(_numbers(directory), default=None)
        except FileNotFoundError:
            return None
        if number is None:
            return None
        with open(os.path.join(directory, str(number)), encoding="utf-8") as file:
            # The first two lines are the version of the form, and the time.
            return PlannedBatch(number, " ".join(_ends_in(line.strip()) for line in file.read().splitlines()[2:]))


def _ends_in(line: str) -> str:
    """Return the offsets of one source in a line of Spark's log, without the start that the first one has beside."""
    try:
        planned = json.loads(line)
    except ValueError:
        return line
    if not isinstance(planned, dict) or not any(topic.startswith(START) for topic in planned):
        return line
    return json.dumps({topic: planned[topic] for topic in planned if not topic.startswith(START)})


def is_of_earlier_version(checkpoint: str) -> bool:
    """Return whether an earlier version has begun a query's checkpoint. Raises OSError, ValueError."""
    found = _note(checkpoint)
    return found is None or found.get("form") is None


def batch_time_ms(checkpoint: str, batch: int) -> int | None:
    """Return when Spark planned a micro-batch, in milliseconds since 1970, or None. Raises OSError."""
    try:
        with open(os.path.join(checkpoint, "offsets", str(batch)), encoding="utf-8") as file:
            return int(json.loads(file.read().splitlines()[1])["batchTimestampMs"])
    except (FileNotFoundError, IndexError, ValueError, KeyError, TypeError):
        return None


def _note(directory: str) -> Mapping[str, Any] | None:
    """Return what is noted in a query's checkpoint, or None. Raises OSError, ValueError."""
    return _object_in(os.path.join(directory, _IDENTITY))


def _is_copy(directory: str, place: str) -> bool:
    """Return whether a checkpoint has the id of the one at `place`, which is another directory. Raises OSError."""
    if not os.path.isdir(place) or os.path.samefile(directory, place):
        return False
    try:
        ids = [spark_id(each) for each in (directory, place)]
    except (ValueError, KeyError, TypeError):
        # One is damaged: Spark refuses it when its query starts.
        return False
    return ids[0] is not None and ids[0] == ids[1]


def spark_id(checkpoint: str) -> str | None:
    """Return the id that Spark has given a checkpoint, or None for one that it has not seen yet.

    A checkpoint that is begun anew has another. Raises OSError; ValueError, KeyError or TypeError for a damaged one.
    """
    found = _object_in(os.path.join(checkpoint, "metadata"))
    return None if found is None else str(found["id"])


def _object_in(path: str) -> dict[str, Any] | None:
    """Return what a file says in JSON, or None if there is none. Raises OSError, ValueError."""
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    except FileNotFoundError:
        return None
    if not isinstance(found, dict):
        raise ValueError("it is no object")  # noqa: TRY004 JSON of a file
    return found


def _replace(path: str, text: str) -> None:
    """Replace a file whole. Raises OSError."""
    temporary = f"{path}.tmp"
    with open(temporary, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(temporary, path)


def _numbers(directory: str) -> list[int]:
    return [int(name) for name in os.listdir(directory) if name.isdigit()]


# -- the run, as other processes see it


@contextmanager
def run_lock(layout: CheckpointLayout) -> Iterator[None]:
    """Hold the pipeline's lock. Raises RunFailed if another process does, OSError."""
    os.makedirs(layout.root, exist_ok=True)
    with open(layout.lock, "a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RunFailed(f"the pipeline runs already, as process {running_process(layout)}") from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def running_process(layout: CheckpointLayout) -> int | None:
    """Return the process that runs the pipeline, or None. Raises OSError."""
    try:
        with open(layout.lock, encoding="utf-8") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                text = file.read()
                # Empty for the moment between the lock and the number.
                return int(text) if text.isdigit() else 0
    except FileNotFoundError:
        pass
    return None


def write_status(layout: CheckpointLayout, status: dict[str, Any]) -> None:
    """Replace the status. Raises OSError."""
    _replace(layout.status, json.dumps(status, indent=1))


def read_status(layout: CheckpointLayout) -> dict[str, Any] | None:
    """Return the status of the last run, or None if there was none. Raises OSError, ValueError for a damaged file."""
    return _object_in(layout.status)
