"""Python's loggers under Kafka's rules: log4j's names of levels, an own level or the nearest ancestor's."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from barnabas.runtime.logger_levels import LEVEL_NAMES, TRACE, logger_exists, logger_levels, set_logger_level

NAME = "levels.of.a.test"


@pytest.fixture(autouse=True)
def levels_as_before() -> Iterator[None]:
    root = logging.root.level
    logging.getLogger(NAME)
    yield
    logging.root.setLevel(root)
    for name in (NAME, "levels.of"):
        logging.getLogger(name).setLevel(logging.NOTSET)


def test_a_logger_without_a_level_has_its_ancestors() -> None:
    logging.root.setLevel(logging.INFO)
    assert logger_levels()[NAME] == logger_levels()["root"] == "INFO"
    logging.getLogger("levels.of").setLevel(logging.ERROR)
    assert logger_levels()[NAME] == "ERROR"
    set_logger_level(NAME, "DEBUG")
    assert logger_levels()[NAME] == "DEBUG"
    set_logger_level(NAME, None)
    assert logger_levels()[NAME] == "ERROR"


def test_places_without_a_logger_are_no_loggers() -> None:
    assert logger_exists(NAME)
    assert not logger_exists("levels")
    assert "levels" not in logger_levels()
    assert not logger_exists("levels.of.nothing")
    assert logger_exists("root")


@pytest.mark.parametrize("level", LEVEL_NAMES)
def test_every_level_is_shown_as_it_was_set(level: str) -> None:
    set_logger_level("root", level)
    assert logger_levels()["root"] == level


def test_levels_of_pythons_own_are_shown_as_the_next_one() -> None:
    logging.getLogger(NAME).setLevel(TRACE - 1)
    assert logger_levels()[NAME] == "TRACE"
    logging.getLogger(NAME).setLevel(logging.INFO + 5)
    assert logger_levels()[NAME] == "WARN"
    logging.getLogger(NAME).setLevel(logging.CRITICAL + 5)
    assert logger_levels()[NAME] == "FATAL"
