"""Regular expressions of consumers' subscriptions: checked and matched by RE2, which takes linear time (KIP-848).

Imported when the first member subscribes by an expression, so that a start need not load RE2.
`check_regular_expression` is called by heartbeats, the rest by `topics.regex_resolver`; stateless. Apache Kafka uses
re2j; this is its syntax (without `\\C`, which only RE2 has), with its words for errors.
Kafka: Utils.throwIfRegularExpressionIsInvalid (org.apache.kafka.coordinator.group), TopicRegexResolver.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import re2

from barnabas.protocol.errors import ApiError, ErrorCode

MAX_PROGRAM_BYTES: Final = 2 * 1024 * 1024
"""The most memory of a compiled expression. It also bounds the time to compile: about 30 ms for the worst ones."""
_RE2J_WORDS: Final = {
    "bad repetition operator": "invalid nested repetition operator",
    "invalid named capture group": "invalid named capture",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid repetition size": "invalid repeat count",
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "no argument for repetition operator": "missing argument to repetition operator",
    "trailing \\": "trailing backslash at end of expression",
    "unexpected )": "regexp/syntax: internal error",
}


class TopicRegex:
    """A compiled expression, which must match the whole name of a topic.

    Raises ApiError: INVALID_REGULAR_EXPRESSION when the pattern is malformed.
    """

    def __init__(self, pattern: str) -> None:
        # `\C` matches one byte, perhaps half of a character. Kafka's re2j rejects it.
        if _matches_single_bytes(pattern):
            raise _invalid(pattern, "invalid escape sequence")
        options = re2.Options()
        options.max_mem = MAX_PROGRAM_BYTES
        options.log_errors = False
        try:
            self._regex = re2.compile(pattern.encode(), options)
        except re2.error as error:
            description = error.args[0].decode(errors="replace").partition(": ")[0]
            raise _invalid(pattern, _RE2J_WORDS.get(description, description)) from error
        finally:
            # The package caches the last 128 expressions. Those of clients may be large, and this object keeps its own.
            re2.purge()

    def matches(self, name: bytes) -> bool:
        """Return whether the expression matches the whole name (UTF-8)."""
        return self._regex.fullmatch(name) is not None


def check_regular_expression(pattern: str) -> None:
    """Check the syntax of a pattern. Raises ApiError: INVALID_REGULAR_EXPRESSION when it is malformed."""
    TopicRegex(pattern)


def matching_topics(patterns: Iterable[str], topics: Iterable[str]) -> dict[str, set[str]]:
    """Return the topics that each expression matches. A malformed one, from another release, matches no topic."""
    result: dict[str, set[str]] = {}
    names = [(name, name.encode()) for name in topics]
    for pattern in patterns:
        try:
            regex = TopicRegex(pattern)
        except ApiError:
            result[pattern] = set()
        else:
            result[pattern] = {name for name, encoded in names if regex.matches(encoded)}
    return result


def _invalid(pattern: str, description: str) -> ApiError:
    return ApiError(
        ErrorCode.INVALID_REGULAR_EXPRESSION,
        f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {description}.",
    )


def _matches_single_bytes(pattern: str) -> bool:
    r"""Return whether the pattern has `\C` outside of `\Q...\E`."""
    position = pattern.find("\\")
    while position >= 0:
        escaped = pattern[position + 1 : position + 2]
        if escaped == "C":
            return True
        end = pattern.find("\\E", position + 2) if escaped == "Q" else position
        position = -1 if end < 0 else pattern.find("\\", end + 2)
    return False
