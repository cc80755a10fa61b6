"""Regular expressions of consumers' subscriptions: checked and matched by RE2, which takes linear time (KIP-848).

Imported when the first member subscribes by one: a start does without. `check_regular_expression` is called by
heartbeats, the rest by `topics.regex_resolver`; stateless. Apache Kafka uses re2j, whose syntax this is (but for
`\\C`, which only the original has), and whose words for errors these are. Kafka: throwIfRegularExpressionIsInvalid of
org.apache.kafka.coordinator.group.Utils, TopicRegexResolver.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import re2

from barnabas.protocol.errors import ApiError, ErrorCode

MAX_PROGRAM_BYTES: Final = 2 * 1024 * 1024
"""What a compiled expression may take. It also bounds the time: about 30 ms, whatever a client thinks up."""
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
    """A compiled expression, which must match the whole name of a topic. ApiError: it is none."""

    def __init__(self, pattern: str) -> None:
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
            # The package keeps the last 128 expressions; those of clients may be large, and are ours to keep.
            re2.purge()

    def matches(self, name: bytes) -> bool:
        """Whether it matches the whole name (UTF-8)."""
        return self._regex.fullmatch(name) is not None


def check_regular_expression(pattern: str) -> None:
    """ApiError INVALID_REGULAR_EXPRESSION: it is none."""
    TopicRegex(pattern)


def matching_topics(patterns: Iterable[str], topics: Iterable[str]) -> dict[str, set[str]]:
    """The topics that each expression matches. What is no expression (another release let it in) matches nothing."""
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
    r"""Whether it uses `\C`, outside of `\Q...\E`."""
    position = pattern.find("\\")
    while position >= 0:
        escaped = pattern[position + 1 : position + 2]
        if escaped == "C":
            return True
        end = pattern.find("\\E", position + 2) if escaped == "Q" else position
        position = -1 if end < 0 else pattern.find("\\", end + 2)
    return False
