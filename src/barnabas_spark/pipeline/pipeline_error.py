"""The errors of pipelines: of a file, each with the line that has to change, of formats and values, of a run.

Raised by every module of this package, those of values also in the executors' Python workers; shown by
`barnabas pipeline`. No state, no lock.
"""

from __future__ import annotations

from typing import NamedTuple


class Problem(NamedTuple):
    """One thing that is wrong with a pipeline file."""

    line: int
    """Counted from 1."""
    message: str


class PipelineError(Exception):
    """A pipeline file that cannot be run, with everything that is wrong with it."""

    def __init__(self, path: str, problems: list[Problem]) -> None:
        self.path = path
        self.problems = sorted(set(problems))
        super().__init__("\n".join(f"{path}:{problem.line}: {problem.message}" for problem in self.problems))


class RunFailed(Exception):
    """A pipeline that did not start, or whose query failed. The message has the cause and the line of the sink."""


class IcebergError(Exception):
    """An Iceberg table that cannot be written as the pipeline asks. The message says why, and what would do."""


class FormatError(Exception):
    """A schema, or rows, that the format cannot have. The message says why."""


class BadValue(Exception):
    """A record's value that cannot be decoded. The message says why, and becomes the error of a dead letter."""


class RegistryFailed(Exception):
    """A schema registry that did not answer, or rejected a request. The message has the URL."""
