"""Regular expressions of subscriptions: RE2's, in re2j's words; what they match is found off the path of requests."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from barnabas.coordinator.group.consumer.topics.group_topics import ResolvedRegularExpression
from barnabas.coordinator.group.consumer.topics.regex import TopicRegex, check_regular_expression, matching_topics
from barnabas.coordinator.group.consumer.topics.regex_resolver import TopicRegexResolver
from barnabas.metadata.metadata_image import MetadataImage, TopicMetadata
from barnabas.protocol.errors import ApiError, ErrorCode
from tests.support.mock_clock import MockClock
from tests.support.mock_scheduler import MockScheduler

TOPICS = ["orders.eu", "orders.us", "orders", "my-orders.eu", "Überweisungen", "x"]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("orders", ["orders"]),  # the whole name
        ("orders.*", ["orders", "orders.eu", "orders.us"]),
        (r"orders\.(?:eu|us)", ["orders.eu", "orders.us"]),
        ("(?i)ORDERS", ["orders"]),
        (r"\pL+", ["orders", "x", "Überweisungen"]),
        (".", ["x"]),
        (r"\Q\C\E|x", ["x"]),
        ("", []),
    ],
)
def test_what_matches(pattern: str, expected: list[str]) -> None:
    assert sorted(matching_topics([pattern], TOPICS)[pattern]) == expected


@pytest.mark.parametrize(
    ("pattern", "description"),
    [
        ("(", "missing closing )"),
        ("[a", "missing closing ]"),
        ("*", "missing argument to repetition operator"),
        ("a**", "invalid nested repetition operator"),
        ("(?=a)", "invalid or unsupported Perl syntax"),
        (r"(a)\1", "invalid escape sequence"),
        (r"a\C", "invalid escape sequence"),
        (r"\Qa\E\\\C", "invalid escape sequence"),
        ("x{1001}", "invalid repeat count"),
        (r"\pL{1000}", "pattern too large - compile failed"),
    ],
)
def test_what_is_no_expression(pattern: str, description: str) -> None:
    with pytest.raises(ApiError) as raised:
        check_regular_expression(pattern)
    assert raised.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert raised.value.message == f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {description}."
    assert matching_topics([pattern, "x"], TOPICS) == {pattern: set(), "x": {"x"}}, "one that came by the log"


def test_no_expression_runs_for_ever() -> None:
    assert not TopicRegex("(a*)*" * 100 + "b").matches(b"a" * 249)


def test_resolution() -> None:
    clock = MockClock()
    scheduler = MockScheduler(clock)
    topics = {name: TopicMetadata(name, bytes(16), ()) for name in TOPICS}
    resolver = TopicRegexResolver(clock, scheduler, lambda: MetadataImage(version=7, topics=topics))
    told: list[dict[str, ResolvedRegularExpression]] = []
    asked: list[set[str]] = []

    def all_but_europe(names: Collection[str]) -> set[str]:
        asked.append(set(names))
        return {name for name in names if not name.endswith("eu")}

    def listen(resolved: dict[str, ResolvedRegularExpression]) -> None:
        assert not resolver.is_resolving("g")
        told.append(resolved)

    assert resolver.resolve("g", ["orders.*", "x", "nothing"], all_but_europe, listen)
    assert resolver.is_resolving("g")
    assert not resolver.resolve("g", ["x"], all_but_europe, listen), "one at a time"
    assert not told
    scheduler.tick()
    assert asked == [{"orders", "orders.eu", "orders.us", "x"}], "once, and only what matches"
    expected = {"orders.*": {"orders", "orders.us"}, "x": {"x"}, "nothing": set()}
    now = clock.milliseconds()
    assert told == [{regex: ResolvedRegularExpression(frozenset(names), 7, now) for regex, names in expected.items()}]
    assert resolver.resolve("g", ["x"], all_but_europe, listen)
    scheduler.tick()
    assert len(told) == 2


def test_a_resolution_that_fails_is_over() -> None:
    clock = MockClock()
    scheduler = MockScheduler(clock)
    resolver = TopicRegexResolver(clock, scheduler, MetadataImage)

    def fails(names: Collection[str]) -> set[str]:
        raise RuntimeError("the authorizer is broken")

    assert resolver.resolve("g", ["x"], fails, lambda _: pytest.fail("nothing to tell"))
    with pytest.raises(RuntimeError):
        scheduler.tick()
    assert not resolver.is_resolving("g")
