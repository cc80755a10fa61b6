"""Says in one sentence why a query failed, and which records it was reading.

Called by `run` on the main thread; no state, no lock.
"""

from __future__ import annotations

import re

from barnabas_spark.pipeline.checkpoint_layout import CheckpointLayout

_BEFORE_CAUSE = re.compile(r"terminated with exception: ")
_AFTER_CAUSE = re.compile(r"\n=== Streaming Query ===|\nJVM stacktrace|\nDriver stacktrace")
_CODE = re.compile(r"^\[[A-Z0-9_.]+\] |\s*SQLSTATE: \w+")
_LONGEST = 600


def failure_of(query: str, text: str, layout: CheckpointLayout) -> str:
    """Return the sentence. `text`: the message of Spark's exception. Raises OSError."""
    next_batch, planned = layout.next_batch(query) or 0, layout.planned(query)
    where = f"micro-batch {next_batch}"
    if planned is not None and planned.number == next_batch:
        where += f", which reads up to {planned.ends}"
    return f"failed in {where}: {cause_in(text)}; the next run goes on with this micro-batch"


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
    return cause if len(cause) <= _LONGEST else f"{cause[:_LONGEST]} ..."
