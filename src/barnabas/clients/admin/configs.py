"""Lists the resources that have settings; describes and changes the settings of topics and brokers.

Part of `Admin`: any thread; no state. Kafka: KafkaAdminClient, ConfigResource.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple, Self, TypeVar

from barnabas.clients.admin.admin_calls import AdminCalls, AdminPart
from barnabas.clients.admin.topics import ConfigEntry
from barnabas.clients.errors import raise_error
from barnabas.protocol.codes import ConfigOperation, ConfigResourceType
from barnabas.protocol.messages.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from barnabas.protocol.messages.message import Message

_VERSIONS_WITH_TYPES = (1, 1)

_A = TypeVar("_A", bound=Message)


class ConfigResource(NamedTuple):
    """A topic by its name, or a broker by its number. "" stands for the common defaults of all brokers."""

    type: ConfigResourceType
    name: str

    @classmethod
    def topic(cls, name: str) -> Self:
        """Return the resource of a topic."""
        return cls(ConfigResourceType.TOPIC, name)

    @classmethod
    def broker(cls, broker_id: int) -> Self:
        """Return the resource of a broker."""
        return cls(ConfigResourceType.BROKER, str(broker_id))

    @classmethod
    def all_brokers(cls) -> Self:
        """Return the resource of the brokers' common defaults."""
        return cls(ConfigResourceType.BROKER, "")

    @classmethod
    def broker_loggers(cls, broker_id: int) -> Self:
        """Return the resource of a broker's log levels."""
        return cls(ConfigResourceType.BROKER_LOGGER, str(broker_id))


class ConfigChange(NamedTuple):
    """A change of one setting: SET, DELETE (back to the default), APPEND to a list, SUBTRACT from one."""

    name: str
    operation: ConfigOperation
    value: str | None = None


class AdminConfigs(AdminPart):
    """The methods of `Admin` about settings."""

    def describe_topic_configs(self, name: str) -> dict[str, ConfigEntry]:
        """Return all settings of a topic by name. Raises ApiError."""
        return self.describe_configs(ConfigResource.topic(name))

    def describe_broker_configs(self, broker_id: int) -> dict[str, ConfigEntry]:
        """Return all settings of a broker by name, from that broker. Raises ApiError."""
        return self.describe_configs(ConfigResource.broker(broker_id))

    def describe_configs(self, resource: ConfigResource, names: Iterable[str] | None = None) -> dict[str, ConfigEntry]:
        """Return settings of a topic or broker by name: these, or all. Raises ApiError."""
        asked = DescribeConfigsRequest.DescribeConfigsResource(
            resource_type=resource.type,
            resource_name=resource.name,
            configuration_keys=None if names is None else list(names),
        )
        request = DescribeConfigsRequest(resources=[asked])
        response = _ask(self._calls, resource, request, DescribeConfigsResponse)
        entries = {}
        for result in response.results:
            raise_error(result.error_code, result.error_message, resource.name)
            for entry in result.configs:
                entries[entry.name] = ConfigEntry(
                    entry.name, entry.value, entry.config_source, entry.read_only, entry.is_sensitive
                )
        return entries

    def incremental_alter_configs(
        self, resource: ConfigResource, changes: Iterable[ConfigChange], *, validate_only: bool = False
    ) -> None:
        """Change settings of a topic or broker. All other settings stay as they are.

        With `validate_only`, only check whether they could be changed. Raises ApiError when no setting was changed.
        """
        configs = [
            IncrementalAlterConfigsRequest.AlterableConfig(change.name, change.operation, change.value)
            for change in changes
        ]
        altered = IncrementalAlterConfigsRequest.AlterConfigsResource(resource.type, resource.name, configs)
        request = IncrementalAlterConfigsRequest(resources=[altered], validate_only=validate_only)
        # Brokers change all settings of a resource or none, so one error stands for the whole request.
        response = _ask(self._calls, resource, request, IncrementalAlterConfigsResponse)
        for result in response.responses:
            raise_error(result.error_code, result.error_message, resource.name)

    def list_config_resources(self, types: Collection[ConfigResourceType] = ()) -> list[ConfigResource]:
        """Return the resources of these types that have settings, or all, sorted. Raises ApiError, UnsupportedVersion.

        Brokers before Kafka 4.1 list client metrics only (KIP-1142).
        """
        wanted = sorted(set(types) or ConfigResourceType)
        # v0 takes no types: it lists the subscriptions to client metrics (KIP-714).
        versions = None if wanted == [ConfigResourceType.CLIENT_METRICS] else _VERSIONS_WITH_TYPES
        response = self._calls.ask(
            ListConfigResourcesRequest(list(wanted)), ListConfigResourcesResponse, versions=versions
        )
        raise_error(response.error_code, None, "Resources are not known")
        return sorted(
            ConfigResource(ConfigResourceType(each.resource_type), each.resource_name)
            for each in response.config_resources
        )


def _ask(calls: AdminCalls, resource: ConfigResource, request: Message, answer_class: type[_A]) -> _A:
    """Return the answer of the broker that knows the resource. Raises ApiError for a broker that does not exist."""
    # Every broker knows the settings of topics and the defaults of all brokers. Only the broker itself knows its file's
    # settings and its log levels.
    if resource.type not in (ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER) or not resource.name:
        return calls.ask(request, answer_class)
    return calls.ask_broker(int(resource.name), request, answer_class)
