"""The errors that an answer carries: one counting function per answer class and version, written on its first use.

Called by `request_metrics` on Processors' threads. No lock: `_counters` is filled by single assignments, and two
threads that write the same function at once do no harm. Kafka: AbstractResponse.errorCounts, which counts NONE too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from barnabas.protocol.message_struct import Struct
from barnabas.protocol.messages.message import Message

ErrorCounter = Callable[[Any, list[int]], None]
"""A function that adds an answer's errors to a list of counts by code. Code -1, the unknown server error, is the last
item."""

LARGEST_ERROR_CODE: Final = 255
"""Beyond any code of Kafka's, of which there are 133."""

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
