"""Says in one sentence why a query failed, and which records it was reading.

Called by `run` on the main thread; no state, no lock.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from barnabas_spark.pipeline.checkpoint_layout import CheckpointLayout

_BEFORE_CAUSE = re.compile(r"terminated with exception: ")
_AFTER_CAUSE = re.compile(r"\n=== Streaming Query ===|\nJVM stacktrace|\nDriver stacktrace")
_CODE = re.compile(r"^\[[A-Z0-9_.]+\] |\s*SQLSTATE: \w+")
_FRAME = re.compile(r'File "([^"]+)", line (\d+)')
_DISK_SIGNS = ("No space left on device", "Disk quota exceeded", "Read-only file system")
"""What the JVM says of a disk without its name."""
_ENDED_PROCESS = ("(no cause message)", "Broken pipe", "Connection reset")
"""All that Spark says when a Python process of its driver has ended: the text of the JVM's error of the connection."""
_LONGEST = 600


def failure_of(query: str, text: str, layout: CheckpointLayout, modules: Sequence[str] = ()) -> str:
    """Return the sentence. Raises OSError.

    text: the message of Spark's exception. modules: the paths of the pipeline's Python transforms, whose line is told.
    """
    next_batch, planned = layout.next_batch(query) or 0, layout.planned(query)
    where = f"micro-batch {next_batch}"
    if planned is not None and planned.number == next_batch:
        where += f", which reads up to {planned.ends}"
    # A sentence of Spark's goes on here.
    cause = cause_in(text).removesuffix(".")
    if any(sign in cause for sign in _DISK_SIGNS):
        cause += f" (the checkpoint {layout.query(query)}, or Spark's scratch files)"
    return f"failed in {where}: {_line_in(text, modules)}{cause}; the next run goes on with this micro-batch"


def _line_in(text: str, modules: Sequence[str]) -> str:
    """Return `PATH:LINE: ` for the innermost place in one of the modules that a traceback names, or nothing."""
    places = [f"{path}:{line}: " for path, line in _FRAME.findall(text) if path in modules]
    return places[-1] if places else ""


def cause_in(text: str) -> str:
    """Return the cause from the message of a streaming query's exception."""
    cause = _AFTER_CAUSE.split(_BEFORE_CAUSE.split(text, 1)[-1], 1)[0]
    lines = [line for line in cause.splitlines() if line.strip()]
    if any("Traceback (most recent call last)" in line for line in lines):
        # A worker's error: the last line that is not indented has the exception.
        last = max(index for index, line in enumerate(lines) if "Traceback (most recent call last)" in line)
        told = [line for line in lines[last + 1 :] if not line.startswith((" ", "\t", "SQLSTATE"))]
        cause = told[0] if told else lines[last]
    else:
        cause = " ".join(lines)
    cause = " ".join(_CODE.sub("", cause).split())
    if cause in _ENDED_PROCESS:
        return (
            f"Spark says only {cause!r}, as it does when a Python process of its driver, which plans or commits"
            " micro-batches, was killed (the machine may lack memory)"
        )
    return cause if len(cause) <= _LONGEST else f"{cause[:_LONGEST]} ..."
