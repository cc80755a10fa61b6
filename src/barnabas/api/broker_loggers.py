"""Changes of the levels of this broker's loggers (KIP-412), with Kafka's checks, all of them before the first change.

Used by IncrementalAlterConfigs; stateless. The error texts are Kafka's own, except one: about an unexpected node id
Kafka names, by mistake, the expected one as received.

Kafka: kafka.server.logger.RuntimeLoggerManager.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from barnabas.protocol.codes import ConfigOperation
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.configs import IncrementalAlterConfigsRequest
from barnabas.runtime.logger_levels import LEVEL_NAMES, ROOT_LOGGER, logger_exists, set_logger_level

logger = logging.getLogger(__name__)

Change = IncrementalAlterConfigsRequest.AlterableConfig


def alter_logger_levels(changes: Sequence[Change], *, validate_only: bool) -> None:
    """Set or unset levels.

    Raises ApiError: INVALID_CONFIG or INVALID_REQUEST for the first change that cannot be made; then none is made.
    """
    # All checks come before the first change, so that a request is done as a whole or not at all.
    for change in changes:
        _check(change)
    if validate_only:
        return
    for change in changes:
        level = change.value if change.config_operation == ConfigOperation.SET else None
        set_logger_level(change.name, level)
        logger.warning("Changed the level of logger %s to %s", change.name, level or "that of its parent")


def _check(change: Change) -> None:
    """Check one change. Raises ApiError: INVALID_CONFIG, INVALID_REQUEST."""
    match change.config_operation:
        case ConfigOperation.SET:
            _check_exists(change.name)
            if change.value not in LEVEL_NAMES:
                raise ApiError(
                    ErrorCode.INVALID_CONFIG,
                    f"Cannot set the log level of {change.name} to {change.value} as it is not a supported log level. "
                    f"Valid log levels are {', '.join(LEVEL_NAMES)}",
                )
        case ConfigOperation.DELETE:
            _check_exists(change.name)
            if change.name == ROOT_LOGGER:
                message = f"Removing the log level of the {ROOT_LOGGER} logger is not allowed"
                raise ApiError(ErrorCode.INVALID_REQUEST, message)
        case ConfigOperation.APPEND | ConfigOperation.SUBTRACT:
            operation = ConfigOperation(change.config_operation).name
            message = f"{operation} operation is not allowed for the BROKER_LOGGER resource"
            raise ApiError(ErrorCode.INVALID_REQUEST, message)
        case unknown:
            message = f"Unknown operation type {unknown} is not allowed for the BROKER_LOGGER resource"
            raise ApiError(ErrorCode.INVALID_REQUEST, message)


def _check_exists(name: str) -> None:
    """Check that there is such a logger. Raises ApiError: INVALID_CONFIG."""
    if not logger_exists(name):
        raise ApiError(ErrorCode.INVALID_CONFIG, f"Logger {name} does not exist!")
