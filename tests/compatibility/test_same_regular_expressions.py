"""What a regular expression of a subscription matches, and what is none, is what re2j says, which Apache Kafka uses."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from barnabas.coordinator.group.consumer.topics.regex import TopicRegex
from barnabas.protocol.errors import ApiError
from tests.support.maven import counterparts_needed, fetch_jars, find_java
from tests.tools.kafka_tools import POMS

TEXTS = ["a", "b", "ab", "abc", "foo", "foo-1", "foo_1", "A.b", "aaa", "orders.eu", "orders.us-1", "__x", "1", "ba"]
ATOMS = [
    *"abfo1A.^$-_]}",
    *("foo", "orders", "()", "(a|b)", "(?:ab)", "(", ")", "|", "||"),
    *(r"\.", r"\w", r"\d", r"\D", r"\s", r"\b", r"\B", r"\A", r"\z", r"\Z", r"\C", r"\8", r"\-", r"\_", r"\a", r"\1"),
    *(r"\pL", r"\PL", r"\pN", r"\p{Lu}", r"\p{Greek}", r"\p{^L}", r"\p{IsL}", r"\x41", r"\x{61}", r"\141", r"\01"),
    *(
        "[a-z]",
        "[^a]",
        "[[:alpha:]]",
        "[a-",
        "[]",
        "[b-a]",
        r"[\w.]",
        r"[^\W]",
        r"[\d-z]",
        r"[a-\d]",
        r"\Qa.b\E",
        r"\QC\C\E",
    ),
    *(
        "(?i)",
        "(?i:A)",
        "(?s)",
        "(?m)",
        "(?U)",
        "(?x)",
        "(?-i)",
        "(?P<n>a)",
        "(?<m>a)",
        "(?=a)",
        "(?!a)",
        "(?>a)",
        "(?#c)",
    ),
]
REPEATS = ["", "", "", "", "*", "+", "?", "*?", "+?", "{2}", "{1,3}", "{2,}", "{3,1}", "{1001}", "**", "*+", "{,3}"]
EXPRESSIONS = 4000
HARMLESS = "error duplicate capture group name"
"""RE2 lets it pass: nobody asks for groups."""


def expressions() -> list[str]:
    chance = random.Random(7)
    made = {
        "".join(chance.choice(ATOMS) + chance.choice(REPEATS) for _ in range(chance.randrange(1, 6)))
        for _ in range(EXPRESSIONS)
    }
    return sorted(made | set(ATOMS))


def ours(pattern: str) -> str:
    try:
        regex = TopicRegex(pattern)
    except ApiError as error:
        prefix = f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: "
        return f"error {error.message.removeprefix(prefix)}"
    return "".join(str(int(regex.matches(text.encode()))) for text in TEXTS)


@pytest.mark.java
def test_same_regular_expressions() -> None:
    with counterparts_needed():
        java, jars = find_java(), fetch_jars(POMS["4"])
    patterns = expressions()
    oracle = Path(__file__).with_name("RegexOracle.java")
    told = subprocess.run(
        [java, "-cp", f"{jars}/*", str(oracle), *TEXTS],
        input="".join(f"{pattern.encode().hex()}\n" for pattern in patterns),
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert told.returncode == 0, told.stderr
    wrong, other_words, matched = [], 0, 0
    for pattern, theirs in zip(patterns, told.stdout.splitlines(), strict=True):
        found = ours(pattern)
        if theirs.startswith("error"):
            # Of several things that are wrong, each tells of the first it notices.
            other_words += found != f"{theirs}."
            if not found.startswith("error") and theirs != HARMLESS:
                wrong.append((pattern, theirs, found))
        elif found != theirs:
            wrong.append((pattern, theirs, found))
        else:
            matched += "1" in found
    assert not wrong
    assert matched > 100
    assert other_words < len(patterns) / 10
