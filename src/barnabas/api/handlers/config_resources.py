"""ListConfigResources: v0-1: which resources have settings, by type.

Not brief: there may be many topics.

v0: client metrics (KIP-714, ListClientMetricsResources), of which there are none without a receiver.
v1: the types that are asked for, or all (KIP-1142).

Kafka: KafkaApis.handleListConfigResources, ListConfigResourcesRequest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from barnabas.api.authorize import Authorizer, require_cluster_permission
from barnabas.api.request import Handler, Request
from barnabas.metadata.metadata_cache import MetadataCache
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.config_codes import ConfigResourceType
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.configs import ListConfigResourcesRequest, ListConfigResourcesResponse
from barnabas.security.acl.acl_codes import AclOperation

GROUP = 32
LISTED_TYPES = (*ConfigResourceType, GROUP)
"""In Kafka's order of codes. Groups and client metrics have no settings here."""


class ConfigResourcesApi:
    """Lists topics and brokers."""

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
