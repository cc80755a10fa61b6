"""The lines that the test kit and its broker exchange about faults: commands one way, reports the other.

Each is a line of JSON; both sides use this module. Immutable and pure. A broker reports after each command, and
whenever counts have changed; a report has the counts that have changed since the one before:

    -> {"id": 1, "install": [{"fault": 7, "plan": {...}, "calls": 0, "hits": 0}], "remove": []}
    <- {"answers": 1, "error": null, "counts": {}}
    <- {"answers": null, "error": null, "counts": {"7": [10, 1]}}
"""

from __future__ import annotations

import json
from typing import NamedTuple

from barnabas.faults.fault_plan import plan_from_json
from barnabas.faults.fault_table import Counts, InstalledFault


class Command(NamedTuple):
    """A command of the test kit, which a report with its number answers. Without parts it asks for the changes."""

    number: int
    install: tuple[InstalledFault, ...] = ()
    remove: tuple[int, ...] = ()


class Report(NamedTuple):
    """The counts that have changed. answers: number of the command it answers. error: why the broker rejects that."""

    counts: dict[int, Counts]
    answers: int | None = None
    error: str | None = None


def encode_command(command: Command) -> bytes:
    """Return the line of a command."""
    install = [
        {"fault": fault.fault_id, "plan": fault.plan.to_json(), "calls": fault.calls, "hits": fault.hits}
        for fault in command.install
    ]
    return _line({"id": command.number, "install": install, "remove": command.remove})


def decode_command(line: bytes) -> Command:
    """Read the line of a command. Raises ValueError, TypeError or KeyError when it is none."""
    value = json.loads(line)
    install = tuple(
        InstalledFault(int(each["fault"]), plan_from_json(each["plan"]), Counts(int(each["calls"]), int(each["hits"])))
        for each in value["install"]
    )
    return Command(int(value["id"]), install, tuple(int(each) for each in value["remove"]))


def encode_report(report: Report) -> bytes:
    """Return the line of a report."""
    counts = {str(fault_id): list(counts) for fault_id, counts in report.counts.items()}
    return _line({"answers": report.answers, "error": report.error, "counts": counts})


def decode_report(line: bytes) -> Report:
    """Read the line of a report. Raises ValueError, TypeError or KeyError when it is none."""
    value = json.loads(line)
    counts = {int(fault_id): Counts(calls, hits) for fault_id, (calls, hits) in value["counts"].items()}
    return Report(counts, value["answers"], value["error"])


def _line(value: object) -> bytes:
    return json.dumps(value).encode() + b"\n"
