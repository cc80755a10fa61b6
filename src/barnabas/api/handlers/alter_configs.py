"""AlterConfigs: v0-2 (KIP-133). IncrementalAlterConfigs: v0-1 (KIP-339).

Not brief: they write to the store. AlterConfigs replaces all settings of a resource, IncrementalAlterConfigs sets,
deletes, appends to and subtracts from some. Both: the last version is flexible, validate-only changes nothing, each
resource is answered on its own.

Topics can be altered, this broker, and all brokers (the empty name), which apply their new settings while they run
(KIP-226); by IncrementalAlterConfigs also the levels of this broker's loggers, until it stops (KIP-412). Metrics
subscriptions exist in KRaft only.

Beside Kafka's: an operation that does not exist is INVALID_REQUEST for topics, too (Kafka 3.9 fails with
UNKNOWN_SERVER_ERROR there), and permissions are checked before settings.

Kafka: KafkaApis.handleAlterConfigsRequest, handleIncrementalAlterConfigsRequest, ConfigAdminManager.preprocess,
ZkAdminManager, RuntimeLoggerManager; the error texts are theirs, except one: about an unexpected node id Kafka names,
by mistake, the expected one as received.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeVar

from barnabas.api.authorize import CLUSTER_NAME, Authorizer, is_allowed
from barnabas.api.request import Handler, Request
from barnabas.metadata.config_admin import AlterConfigOp, ConfigAdmin
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.codes import ConfigOperation, ConfigResourceType
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.configs import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from barnabas.runtime.logger_levels import LEVEL_NAMES, ROOT_LOGGER, logger_exists, set_logger_level
from barnabas.security.acl.acl_codes import AclOperation, ResourceType

logger = logging.getLogger(__name__)

Replacement = AlterConfigsRequest.AlterConfigsResource
Change = IncrementalAlterConfigsRequest.AlterConfigsResource
LevelChange = IncrementalAlterConfigsRequest.AlterableConfig
R = TypeVar("R", Replacement, Change)

MOST_NAMES_LOGGED = 100
"""Of the settings of one resource whose change fails: a request may name any number."""
REPLACEABLE = frozenset({ConfigResourceType.TOPIC, ConfigResourceType.BROKER, ConfigResourceType.CLIENT_METRICS})
CHANGEABLE = REPLACEABLE | {ConfigResourceType.BROKER_LOGGER}


class AlterConfigsApi:
    """Changes the settings of topics and brokers, and the levels of loggers."""

    def __init__(self, broker_id: int, config_admin: ConfigAdmin, authorizer: Authorizer | None) -> None:
        self._broker_id = broker_id
        self._config_admin = config_admin
        self._authorizer = authorizer

    def handlers(self) -> Sequence[Handler]:
        """Return the lines of the table."""
        return (
            Handler(ApiKey.ALTER_CONFIGS, self.alter_configs),
            Handler(ApiKey.INCREMENTAL_ALTER_CONFIGS, self.incremental_alter_configs),
        )

    def alter_configs(self, request: Request[AlterConfigsRequest]) -> None:
        """Replace all settings of each resource; those that are not named get their defaults back."""
        body = request.body

        def replace(resource: Replacement) -> None:
            _check_settings(resource.configs, [config.name for config in resource.configs if config.value is None])
            settings = {config.name: config.value or "" for config in resource.configs}
            kind, broker = self._checked(request, resource, REPLACEABLE)
            if kind is ConfigResourceType.BROKER:
                self._config_admin.replace_broker_config(broker, settings, validate_only=body.validate_only)
            else:
                self._config_admin.replace_topic_config(
                    resource.resource_name, settings, validate_only=body.validate_only
                )

        errors = _alter_all(body.resources, replace)
        request.respond(_response(body, errors))

    def incremental_alter_configs(self, request: Request[IncrementalAlterConfigsRequest]) -> None:
        """Set, delete, append to and subtract from settings of each resource; all others stay."""
        body = request.body

        def change(resource: Change) -> None:
            # DELETE is the one operation that needs no value.
            given = [each for each in resource.configs if each.config_operation != ConfigOperation.DELETE]
            _check_settings(resource.configs, [each.name for each in given if each.value is None])
            kind, broker = self._checked(request, resource, CHANGEABLE)
            # Levels of loggers live in this process alone, and not in the store.
            if kind is ConfigResourceType.BROKER_LOGGER:
                alter_logger_levels(resource.configs, validate_only=body.validate_only)
                return
            changes = [AlterConfigOp(c.name, _operation(c.config_operation), c.value) for c in resource.configs]
            if kind is ConfigResourceType.BROKER:
                self._config_admin.change_broker_config(broker, changes, validate_only=body.validate_only)
            else:
                self._config_admin.change_topic_config(
                    resource.resource_name, changes, validate_only=body.validate_only
                )

        errors = _alter_all(body.resources, change)
        request.respond(_incremental_response(body, errors))

    def _checked(
        self, request: Request[Any], resource: Replacement | Change, types: Collection[ConfigResourceType]
    ) -> tuple[ConfigResourceType, int | None]:
        """Return the kind of resource to alter, and for settings of a broker its id (None: all brokers).

        types: the kinds that this request may alter. Raises ApiError: INVALID_REQUEST for another kind or broker,
        TOPIC_AUTHORIZATION_FAILED, CLUSTER_AUTHORIZATION_FAILED.
        """
        if resource.resource_type not in types:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {resource.resource_type}")
        kind, name = ConfigResourceType(resource.resource_type), resource.resource_name
        # All kinds but topics need the permission for the cluster.
        if kind is ConfigResourceType.TOPIC:
            self._check_permission(request, ResourceType.TOPIC, name)
            return kind, None
        self._check_permission(request, ResourceType.CLUSTER, CLUSTER_NAME)
        if kind is ConfigResourceType.BROKER:
            return kind, self._broker_named(name, f"Unexpected broker id, expected {self._broker_id}") if name else None
        if kind is ConfigResourceType.BROKER_LOGGER:
            return kind, self._broker_named(name, f"Unexpected node id. Expected {self._broker_id}")
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"AlterConfigs is only supported for topics and brokers, but resource type is {kind.name}",
        )

    def _broker_named(self, name: str, unexpected: str) -> int:
        """Return the id that `name` states. Raises ApiError INVALID_REQUEST unless it is this broker's."""
        try:
            broker_id = int(name)
        except ValueError:
            message = f"Node id must be an integer, but it is: {name}"
            raise ApiError(ErrorCode.INVALID_REQUEST, message) from None
        if broker_id != self._broker_id:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"{unexpected}, but received {name}")
        return broker_id

    def _check_permission(self, request: Request[Any], kind: ResourceType, name: str) -> None:
        """Check ALTER_CONFIGS on a resource. Raises ApiError: TOPIC_ or CLUSTER_AUTHORIZATION_FAILED."""
        if not is_allowed(self._authorizer, request, AclOperation.ALTER_CONFIGS, kind, name):
            is_topic = kind is ResourceType.TOPIC
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED if is_topic else ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


def _alter_all(resources: Sequence[R], alter: Callable[[R], None]) -> list[ApiError | None]:
    """Alter every resource and return the error of each, None for success. A resource named twice is refused both
    times."""
    named = Counter((resource.resource_type, resource.resource_name) for resource in resources)
    errors: list[ApiError | None] = []
    for resource in resources:
        try:
            if named[resource.resource_type, resource.resource_name] > 1:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            alter(resource)
        except ApiError as error:
            # The names and never the values, one of which may be a secret.
            logger.info("Error altering the settings of %s: %s", _log_text(resource), error)
            errors.append(error.as_value())
        except Exception:
            # A defect ends the change of one resource; the others can still be altered.
            logger.exception("Error altering the settings of %s", _log_text(resource))
            errors.append(ApiError(ErrorCode.UNKNOWN_SERVER_ERROR))
        else:
            errors.append(None)
    return errors


def _log_text(resource: Replacement | Change) -> str:
    names = sorted(config.name for config in resource.configs[:MOST_NAMES_LOGGED])
    return f"type {resource.resource_type}, name {resource.resource_name!r}: {names}"


def _check_settings(
    configs: Sequence[AlterConfigsRequest.AlterableConfig | IncrementalAlterConfigsRequest.AlterableConfig],
    without_value: Sequence[str],
) -> None:
    """Check the settings of one resource.

    Raises ApiError: INVALID_REQUEST when one is named twice, or lacks the value it needs.
    """
    if len({config.name for config in configs}) < len(configs):
        raise ApiError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    if without_value:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(without_value)}")


def _operation(code: int) -> ConfigOperation:
    """Return the operation of a code. Raises ApiError: INVALID_REQUEST for an unknown one."""
    try:
        return ConfigOperation(code)
    except ValueError:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown operations type {code}") from None


def _response(body: AlterConfigsRequest, errors: Sequence[ApiError | None]) -> AlterConfigsResponse:
    return AlterConfigsResponse(
        responses=[
            AlterConfigsResponse.AlterConfigsResourceResponse(
                ErrorCode.NONE if error is None else error.code,
                None if error is None else error.message,
                resource.resource_type,
                resource.resource_name,
            )
            for resource, error in zip(body.resources, errors, strict=True)
        ]
    )


def _incremental_response(
    body: IncrementalAlterConfigsRequest, errors: Sequence[ApiError | None]
) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(
        responses=[
            IncrementalAlterConfigsResponse.AlterConfigsResourceResponse(
                ErrorCode.NONE if error is None else error.code,
                None if error is None else error.message,
                resource.resource_type,
                resource.resource_name,
            )
            for resource, error in zip(body.resources, errors, strict=True)
        ]
    )


# -- the levels of this broker's loggers (KIP-412)


def alter_logger_levels(changes: Sequence[LevelChange], *, validate_only: bool) -> None:
    """Set or unset levels.

    Raises ApiError: INVALID_CONFIG or INVALID_REQUEST for the first change that cannot be made; then none is made.
    """
    # All checks come before the first change, so that a request is done as a whole or not at all.
    for change in changes:
        _check_level(change)
    if validate_only:
        return
    for change in changes:
        level = change.value if change.config_operation == ConfigOperation.SET else None
        set_logger_level(change.name, level)
        logger.warning("Changed the level of logger %s to %s", change.name, level or "that of its parent")


def _check_level(change: LevelChange) -> None:
    """Check one change. Raises ApiError: INVALID_CONFIG, INVALID_REQUEST."""
    match change.config_operation:
        case ConfigOperation.SET:
            _check_logger_exists(change.name)
            if change.value not in LEVEL_NAMES:
                raise ApiError(
                    ErrorCode.INVALID_CONFIG,
                    f"Cannot set the log level of {change.name} to {change.value} as it is not a supported log level. "
                    f"Valid log levels are {', '.join(LEVEL_NAMES)}",
                )
        case ConfigOperation.DELETE:
            _check_logger_exists(change.name)
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


def _check_logger_exists(name: str) -> None:
    """Check that there is such a logger. Raises ApiError: INVALID_CONFIG."""
    if not logger_exists(name):
        raise ApiError(ErrorCode.INVALID_CONFIG, f"Logger {name} does not exist!")
