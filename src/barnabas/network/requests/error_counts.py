"""The errors that an answer carries: one counting function per answer class and version, written on its first use.

Called by `request_metrics` on Processors' threads, and for large answers by the threads that made them.
No lock: `_counters` is filled by single assignments, and two threads that write the same function at once do no harm.
Kafka: AbstractResponse.errorCounts, which counts NONE too.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

from barnabas.api.request import Request, RequestNotes
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.message_struct import Struct
from barnabas.protocol.messages.message import Message

logger = logging.getLogger(__name__)

ErrorCounter = Callable[[Any, list[int]], None]
"""A function that adds an answer's errors to a list of counts by code. Code -1, the unknown server error, is the last
item."""

LARGEST_ERROR_CODE: Final = 255
"""Beyond any code of Kafka's, of which there are 133."""

COUNTED_ELSEWHERE_BYTES: Final = 64 * 1024
"""The errors of a longer answer are counted before a Processor gets it: 10,000 places for errors take 0.5 ms."""

FREED_IN_SLICES_BYTES: Final = 1024 * 1024
FREED_AT_ONCE: Final = 1_000

_COUNTED_AT_TOP_ONLY: Final = frozenset({"DeleteAclsResponse"})
"""Answers whose errors of filters count, but not those of the items that each filter matched, as in Kafka."""

_counters: dict[tuple[type[Message], int], ErrorCounter] = {}


def new_error_counts() -> list[int]:
    """Make the zeros that an ErrorCounter adds to."""
    return [0] * (LARGEST_ERROR_CODE + 2)


def count_nothing(answer: object, errors: list[int]) -> None:
    """Count nothing: the ErrorCounter of an answer that is no message."""


def error_counter(answer: type[Message], version: int) -> ErrorCounter:
    """Return the function for answers of a class in a version."""
    counter = _counters.get((answer, version))
    if counter is None:
        # Written as source, once: walking over a message's fields for every answer would cost more than the answer.
        lines = _lines(answer, version, "answer", 1, most_loops=1 if answer.__name__ in _COUNTED_AT_TOP_ONLY else 9)
        namespace: dict[str, Any] = {}
        exec("def count(answer, errors):\n" + "\n".join(lines or ["    pass"]), namespace)  # noqa: S102 our own fields
        counter = _counters[answer, version] = namespace["count"]
    return counter


def error_counter_of(request: Request[Any], answer: Message) -> ErrorCounter:
    """Return the function for a version's answers, or `count_nothing` if an answer cannot be read."""
    # Metrics must not fail a request: the answer has left already, and its connection would be closed.
    try:
        counter = error_counter(answer.__class__, request.header.api_version)
        counter(answer, new_error_counts())
    except Exception:
        logger.exception("the errors of answers to %s cannot be counted", request.handler.api_key.name)
        return count_nothing
    return counter


def note_errors(request: Request[Any]) -> None:
    """Count the errors of an answer here, and drop it and the body of its request, unless the log needs them.

    The thread that made the answer frees both: a body of 100,000 structs would take 20 ms of the Processor's thread.
    A Fetch keeps its body, because `RequestMetrics.record` reads there whether a follower sent it.
    """
    answer, notes = request.response, request.notes
    if answer is None or (notes is not None and notes.logged_body is not None):
        return
    errors = new_error_counts()
    error_counter_of(request, answer)(answer, errors)
    if notes is None:
        notes = request.notes = RequestNotes()
    notes.errors = {code: count for code, count in enumerate(errors) if count}
    request.response = None
    request.successes = 0
    if request.handler.api_key is ApiKey.FETCH:
        return
    request.body = request.body.__class__()
    if request.response_size > FREED_IN_SLICES_BYTES:
        _release(answer)


def _release(answer: Struct) -> None:
    """Free the parts of an answer that was encoded, in slices between which other threads get the GIL.

    Freed in one go, a million parts would keep it for 0.1 s. The parts of a Fetch may belong to its session.
    """
    for name in answer.declarations:
        parts = getattr(answer, name, None)
        if not isinstance(parts, list):
            continue
        if len(parts) <= FREED_AT_ONCE:
            for part in parts:
                if isinstance(part, Struct):
                    _release(part)
        while len(parts) > FREED_AT_ONCE:
            del parts[-FREED_AT_ONCE:]


def _lines(struct: type[Struct], version: int, variable: str, depth: int, most_loops: int) -> list[str]:
    """Write the statements that count the errors of a struct held by a variable, indented `depth` times."""
    indent = "    " * depth
    lines = []
    for field in struct.field_schemas():
        if not field.is_present(version):
            continue
        if field.name == "error_code":
            lines.append(f"{indent}errors[{variable}.error_code] += 1")
        elif field.struct is not None and field.is_array and depth <= most_loops:
            inner = _lines(field.struct, version, f"item{depth}", depth + 1, most_loops)
            if inner:
                otherwise = " or ()" if field.is_nullable(version) else ""
                lines += [f"{indent}for item{depth} in {variable}.{field.name}{otherwise}:", *inner]
    return lines
