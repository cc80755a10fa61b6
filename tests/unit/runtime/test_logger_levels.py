"""Python's loggers under Kafka's rules: log4j's names of levels, an own level or the nearest ancestor's."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Iterator
from importlib.util import find_spec

import pytest

from barnabas.runtime import logger_levels as logger_levels_module
from barnabas.runtime.logger_levels import (
    LEVEL_NAMES,
    TRACE,
    logger_exists,
    logger_levels,
    set_logger_level,
    when_levels_change,
)
from barnabas.zk.zookeeper.zookeeper_connection import LOGGER_NAME

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


@pytest.mark.parametrize(
    ("kafkas", "ours"),
    [
        ("kafka.controller", ["barnabas.controller.partition_state_machine", "barnabas.controller.controller"]),
        ("kafka.network.Processor", ["barnabas.network.processor", "barnabas.network.connections.answer_queue"]),
        ("kafka.server.ReplicaFetcherThread", ["barnabas.replica.fetcher.fetcher_thread"]),
        ("org.apache.zookeeper", ["barnabas.zk.kazoo"]),
    ],
)
def test_kafkas_names_stand_for_our_loggers(kafkas: str, ours: list[str]) -> None:
    logging.root.setLevel(logging.INFO)
    assert logger_exists(kafkas)
    set_logger_level(kafkas, "TRACE")
    try:
        assert all(logging.getLogger(name).isEnabledFor(TRACE) for name in ours)
        assert not logging.getLogger("barnabas.cli").isEnabledFor(logging.DEBUG)
        assert {logger_levels()[name] for name in (kafkas, *ours)} == {"TRACE"}
    finally:
        set_logger_level(kafkas, None)
    assert not any(logging.getLogger(name).isEnabledFor(logging.DEBUG) for name in ours)
    assert logger_levels()[kafkas] == "INFO"
    for unknown in ("kafka.nosuch", "kafka.controller.Nosuch", "kafka.controller.", "kafka.Network"):
        assert not logger_exists(unknown)


def test_every_logger_that_kafkas_names_stand_for_is_a_module_or_a_package() -> None:
    """Except kazoo's, whose name is ours."""
    named = {ours for each in logger_levels_module._KAFKA_LOGGERS.values() for ours in each} - {LOGGER_NAME}
    assert [name for name in sorted(named) if find_spec(name) is None] == []


def test_who_keeps_a_level_is_called_after_a_change_and_not_kept_alive() -> None:
    class Keeper:
        calls = 0

        def follow(self) -> None:
            Keeper.calls += 1

    keeper = Keeper()
    when_levels_change(keeper.follow)
    set_logger_level(NAME, "DEBUG")
    assert Keeper.calls == 1
    gone = weakref.ref(keeper)
    del keeper
    assert gone() is None
    set_logger_level(NAME, "INFO")
    assert Keeper.calls == 1


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
