"""DescribeConfigs: v0-4 (KIP-133). ListConfigResources: v0-1: which resources have settings, by type.

Not brief: a topic's overrides are read from the store, and there may be many topics to list.

DescribeConfigs v1: synonyms and sources (KIP-226).
DescribeConfigs v3: types and documentation (KIP-569).
DescribeConfigs v4: flexible.
ListConfigResources v0: client metrics (KIP-714, ListClientMetricsResources); none exist without a receiver.
ListConfigResources v1: the types that are asked for, or all (KIP-1142).

Kafka: ConfigHelper.handleDescribeConfigsRequest and describeConfigs, whose error texts these are;
KafkaApis.handleListConfigResources, ListConfigResourcesRequest.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

from barnabas.api.authorize import CLUSTER_NAME, Authorizer, is_allowed, require_cluster_permission
from barnabas.api.brief import LOOKED_UP_AT_ONCE, MOST_ANSWERED_SETTINGS, each_once
from barnabas.api.config_entries import DescribedSetting, Wanted, broker_entries, default_broker_entries, topic_entries
from barnabas.api.request import Handler, Request
from barnabas.config.config_key import Address
from barnabas.config.dynamic_settings import BrokerSettings
from barnabas.config.kept_settings import documentation_of
from barnabas.metadata.metadata_cache import MetadataCache
from barnabas.metadata.topic_name import validate_topic_name
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.codes import ConfigResourceType, ConfigSource
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from barnabas.runtime.logger_levels import logger_levels
from barnabas.security.acl.acl_codes import AclOperation, ResourceType

Result = DescribeConfigsResponse.DescribeConfigsResult
ResultEntry = DescribeConfigsResponse.DescribeConfigsResourceResult

NO_MESSAGE = ""
_KNOWN_TYPES = frozenset(ConfigResourceType)
GROUP_RESOURCE = 32
LISTED_TYPES = (*ConfigResourceType, GROUP_RESOURCE)
"""In Kafka's order of codes. Groups and client metrics have no settings here."""


class ConfigsApi:
    """Shows the settings of topics, this broker, all brokers (the empty name) and this broker's loggers (KIP-412).

    settings: the broker's own, as in force now. topic_overrides: a topic's, from the store. An empty list of names
    means all settings, as null does. Metrics subscriptions exist in KRaft only. Beside Kafka's: `advertised.listeners`
    that follow from `listeners` are shown, as Metadata has them.
    """

    def __init__(
        self,
        broker_id: int,
        settings: Callable[[], BrokerSettings],
        topic_overrides: Callable[[str], Mapping[str, str]],
        metadata: MetadataCache,
        authorizer: Authorizer | None,
    ) -> None:
        self._broker_id = broker_id
        self._settings = settings
        self._topic_overrides = topic_overrides
        self._metadata = metadata
        self._authorizer = authorizer

    def handlers(self) -> Sequence[Handler]:
        """Return the lines of the table."""
        return (Handler(ApiKey.DESCRIBE_CONFIGS, self.describe_configs),)

    def describe_configs(self, request: Request[DescribeConfigsRequest]) -> None:
        """Answer every resource on its own, one that is asked for twice once.

        Raises ApiError INVALID_REQUEST for the whole request when a resource has a type that does not exist, or when
        the answer would have MOST_ANSWERED_SETTINGS settings.
        """
        # An unknown type fails the whole request, so all types are looked at before the first answer is made.
        for resource in request.body.resources:
            if resource.resource_type not in _KNOWN_TYPES:
                message = f"Unexpected resource type UNKNOWN for resource {resource.resource_name}"
                raise ApiError(ErrorCode.INVALID_REQUEST, message)
        # Equal questions once: six bytes could ask for all settings of the broker, again and again.
        asked = {(each.resource_type, each.resource_name, _names_of_few(each)): each for each in request.body.resources}
        results: list[Result] = []
        settings = 0
        for resource in asked.values():
            results.append(self._result(request, resource))
            settings += len(results[-1].configs)
            if settings > MOST_ANSWERED_SETTINGS:
                message = f"The answer would have more than {MOST_ANSWERED_SETTINGS} settings; ask for fewer resources."
                raise ApiError(ErrorCode.INVALID_REQUEST, message)
        request.respond(DescribeConfigsResponse(results=results))

    def _result(
        self, request: Request[DescribeConfigsRequest], resource: DescribeConfigsRequest.DescribeConfigsResource
    ) -> Result:
        result = Result(
            error_code=ErrorCode.NONE,
            error_message=NO_MESSAGE,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
        try:
            self._check_permission(request, resource)
            keys = each_once(resource.configuration_keys or ())  # there may be as many as fit into a request
            is_wanted: Wanted = lambda name: not keys or name in keys  # noqa: E731 - a predicate, passed on
            if resource.resource_type == ConfigResourceType.BROKER_LOGGER:
                result.configs = self._loggers(resource.resource_name, is_wanted)
            else:
                entries = self._entries(resource, is_wanted)
                result.configs = [_result_entry(entry, request) for entry in entries]
        except ApiError as error:
            result.error_code, result.error_message = error.code, error.message
        return result

    def _entries(
        self, resource: DescribeConfigsRequest.DescribeConfigsResource, wanted: Wanted
    ) -> Sequence[DescribedSetting]:
        """Return the settings of a topic or broker. Raises ApiError for a resource that cannot be described."""
        name = resource.resource_name
        match ConfigResourceType(resource.resource_type):
            case ConfigResourceType.TOPIC:
                # Before the store is asked: the name becomes a part of a path there.
                validate_topic_name(name)
                if not self._metadata.contains(name):
                    raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, NO_MESSAGE)
                return topic_entries(self._settings(), self._topic_overrides(name), wanted)
            case ConfigResourceType.BROKER:
                if not name:
                    return default_broker_entries(self._settings(), wanted)
                if _broker_id(name) != self._broker_id:
                    raise ApiError(
                        ErrorCode.INVALID_REQUEST,
                        f"Unexpected broker id, expected {self._broker_id} or empty string, but received {name}",
                    )
                return broker_entries(self._settings(), self._advertised_listeners(), wanted)
            case ConfigResourceType.CLIENT_METRICS:
                if not name:
                    raise ApiError(ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty")
                message = "Config type client-metrics is only supported on KRaft clusters"
                raise ApiError(ErrorCode.INVALID_REQUEST, message)
            case unsupported:
                raise ApiError(ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {unsupported.name}")

    def _advertised_listeners(self) -> str | None:
        """Return this broker's listeners as Metadata tells them to clients; None before the controller has sent them.

        These have the ports that were bound and a host that clients can use, where the settings may have port 0 and
        every interface.
        """
        broker = self._metadata.image.brokers.get(self._broker_id)
        if broker is None:
            return None
        return ",".join(
            f"{listener_name}://{Address(host, port).text}" for listener_name, (host, port) in broker.endpoints.items()
        )

    def _loggers(self, name: str, wanted: Wanted) -> list[ResultEntry]:
        """Return the loggers of this process. A level can be set, and is lost when the process ends.

        Raises ApiError INVALID_REQUEST unless `name` is this broker's id.
        """
        if not name:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
        if _broker_id(name) != self._broker_id:
            raise ApiError(
                ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {self._broker_id} but received {name}"
            )
        return [
            ResultEntry(name=logger, value=level, config_source=ConfigSource.DYNAMIC_BROKER_LOGGER)
            for logger, level in logger_levels().items()
            if wanted(logger)
        ]

    def _check_permission(
        self, request: Request[DescribeConfigsRequest], resource: DescribeConfigsRequest.DescribeConfigsResource
    ) -> None:
        """Check DESCRIBE_CONFIGS on a resource. Raises ApiError: TOPIC_ or CLUSTER_AUTHORIZATION_FAILED."""
        is_topic = resource.resource_type == ConfigResourceType.TOPIC
        kind = ResourceType.TOPIC if is_topic else ResourceType.CLUSTER
        name = resource.resource_name if is_topic else CLUSTER_NAME
        if not is_allowed(self._authorizer, request, AclOperation.DESCRIBE_CONFIGS, kind, name):
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED if is_topic else ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


def _names_of_few(resource: DescribeConfigsRequest.DescribeConfigsResource) -> Hashable:
    """Return the names of the settings asked for, by which questions are compared; of very many, the question."""
    names = resource.configuration_keys or ()
    return frozenset(names) if len(names) <= LOOKED_UP_AT_ONCE else id(resource)


def _broker_id(name: str) -> int:
    """Return the id that a resource's name states. Raises ApiError: INVALID_REQUEST for any other text."""
    try:
        return int(name)
    except ValueError:
        message = f"Broker id must be an integer, but it is: {name}"
        raise ApiError(ErrorCode.INVALID_REQUEST, message) from None


def _result_entry(entry: DescribedSetting, request: Request[DescribeConfigsRequest]) -> ResultEntry:
    body = request.body
    return ResultEntry(
        name=entry.key.name,
        value=entry.value,
        read_only=entry.is_read_only,
        # v0 only: later versions tell the source instead.
        is_default=request.api_version == 0 and entry.source is ConfigSource.DEFAULT,
        config_source=entry.source,
        is_sensitive=entry.key.is_sensitive,
        synonyms=[
            DescribeConfigsResponse.DescribeConfigsSynonym(
                name=synonym.name, value=synonym.value, source=synonym.source
            )
            for synonym in entry.synonyms
        ]
        if body.include_synonyms
        else [],
        config_type=entry.key.type,
        documentation=documentation_of(entry.key) if body.include_documentation else None,
    )


class ConfigResourcesApi:
    """Lists the resources that can have settings: topics and brokers."""

    def __init__(self, metadata: MetadataCache, authorizer: Authorizer | None) -> None:
        self._metadata = metadata
        self._authorizer = authorizer

    def handlers(self) -> Sequence[Handler]:
        """Return the lines of the table."""
        return (Handler(ApiKey.LIST_CONFIG_RESOURCES, self.list_config_resources),)

    def list_config_resources(self, request: Request[ListConfigResourcesRequest]) -> None:
        """List every resource of the wanted types, once.

        Raises ApiError: CLUSTER_AUTHORIZATION_FAILED, UNSUPPORTED_VERSION for an unknown type.
        """
        require_cluster_permission(self._authorizer, request, AclOperation.DESCRIBE_CONFIGS)
        # v0 asked for metrics subscriptions only, of which there are none.
        wanted = list(dict.fromkeys(request.body.resource_types or LISTED_TYPES)) if request.api_version >= 1 else []
        for resource_type in wanted:
            if resource_type not in LISTED_TYPES:
                raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported resource type {resource_type}")
        resources = [
            ListConfigResourcesResponse.ConfigResource(resource_name=name, resource_type=resource_type)
            for resource_type in wanted
            for name in self._names(resource_type)
        ]
        request.respond(ListConfigResourcesResponse(error_code=ErrorCode.NONE, config_resources=resources))

    def _names(self, resource_type: int) -> Iterable[str]:
        image = self._metadata.image
        if resource_type == ConfigResourceType.TOPIC:
            return image.topics
        # Loggers are listed by broker: their names are the settings, not the resources.
        if resource_type in (ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER):
            return map(str, image.brokers)
        return ()
