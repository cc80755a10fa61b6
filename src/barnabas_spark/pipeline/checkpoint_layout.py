"""Where a pipeline keeps what it needs to go on: a directory for each query, and the pipeline's own state beside them.

    <checkpoints>/<pipeline>/run.lock              held while the pipeline runs
    <checkpoints>/<pipeline>/status.json           what it does, or how it ended
    <checkpoints>/<pipeline>/spark/                Spark's log and scratch files
    <checkpoints>/<pipeline>/queries/<query>/      Spark's checkpoint of one query
    <checkpoints>/<pipeline>/queries/<query>/pipeline.json   what the query reads and writes
    <checkpoints>/<pipeline>/starts/<query>/<source>/        the offsets that a new query began at

Called by `run`, `plan` and `run_state` on the main thread; no lock.
"""

from __future__ import annotations

import json
import os
from typing import NamedTuple

_IDENTITY = "pipeline.json"


class QueryIdentity(NamedTuple):
    """What a query reads and writes, which its checkpoint belongs to."""

    reads: tuple[str, ...]
    writes: str


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
        return os.path.join(self.root, "starts", query, source)

    def claim(self, name: str, identity: QueryIdentity) -> str | None:
        """Note that a query's checkpoint is of this identity. Returns why it cannot be, or None. Raises OSError.

        A checkpoint has the offsets of its sources by their order, and its sink's last micro-batch. With another source
        or sink it would skip records, or write them in the wrong place.
        """
        problem = self.foreign(name, identity)
        if problem is None:
            os.makedirs(self.query(name), exist_ok=True)
            path = os.path.join(self.query(name), _IDENTITY)
            temporary = f"{path}.tmp"
            with open(temporary, "w", encoding="utf-8") as file:
                json.dump({"reads": identity.reads, "writes": identity.writes}, file)
            os.replace(temporary, path)
        return problem

    def foreign(self, name: str, identity: QueryIdentity) -> str | None:
        """Return why a query cannot go on from its checkpoint, or None. Raises OSError."""
        try:
            with open(os.path.join(self.query(name), _IDENTITY), encoding="utf-8") as file:
                found = json.load(file)
            earlier = QueryIdentity(tuple(found["reads"]), found["writes"])
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError):
            return f"the checkpoint {self.query(name)} is damaged: {_IDENTITY} in it cannot be read"
        if earlier == identity:
            return None
        return (
            f"the checkpoint {self.query(name)} belongs to a query from {', '.join(earlier.reads)} to {earlier.writes};"
            f" this one goes from {', '.join(identity.reads)} to {identity.writes}: rename the sink, or remove the"
            " directory to begin anew"
        )

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
            return PlannedBatch(number, " ".join(line.strip() for line in file.read().splitlines()[2:]))


def _numbers(directory: str) -> list[int]:
    return [int(name) for name in os.listdir(directory) if name.isdigit()]
