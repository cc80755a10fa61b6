"""The levels of the process's loggers, in the words of log4j, as Kafka's admin clients see and set them.

Used by DescribeConfigs and IncrementalAlterConfigs for broker loggers, on any thread; the logging module has its own
lock. A level that is set lasts until the process ends. Kafka: Log4jController, LogLevelConfig.
"""

from __future__ import annotations

import logging
from typing import Final

ROOT_LOGGER: Final = "root"
TRACE: Final = 5
"""Kafka's level below DEBUG, for which Python has no name of its own."""
logging.addLevelName(TRACE, "TRACE")

_LEVELS: Final = {
    "DEBUG": logging.DEBUG,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
    "INFO": logging.INFO,
    "TRACE": TRACE,
    "WARN": logging.WARNING,
}
LEVEL_NAMES: Final = tuple(_LEVELS)
"""All levels, sorted by name."""


def logger_levels() -> dict[str, str]:
    """Return every logger with the level it logs at: its own, or the nearest ancestor's."""
    loggers = logging.root.manager.loggerDict.copy()
    levels = {ROOT_LOGGER: _level_name(logging.root.level)}
    for name, logger in loggers.items():
        if isinstance(logger, logging.Logger):  # a PlaceHolder stands for a name that has only descendants
            levels[name] = _level_name(logger.getEffectiveLevel())
    return levels


def logger_exists(name: str) -> bool:
    """Return whether a module logs, or has logged, under this name."""
    return name == ROOT_LOGGER or isinstance(logging.root.manager.loggerDict.get(name), logging.Logger)


def set_logger_level(name: str, level: str | None) -> None:
    """Let a logger log from `level` (one of LEVEL_NAMES) on; None: as its ancestors do."""
    logger = logging.root if name == ROOT_LOGGER else logging.getLogger(name)
    logger.setLevel(logging.NOTSET if level is None else _LEVELS[level])


def _level_name(level: int) -> str:
    """Return the name of the lowest level that is at least this one."""
    return next(
        (name for name, number in sorted(_LEVELS.items(), key=lambda item: item[1]) if number >= level), "FATAL"
    )
