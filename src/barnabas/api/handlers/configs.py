"""DescribeConfigs: v0-4 (KIP-133).

Not brief: a topic's overrides are read from the store. v1: synonyms and sources (KIP-226). v3: types and documentation
(KIP-569). v4: flexible.

Kafka: ConfigHelper.describeConfigs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from barnabas.api.config_entries import ConfigEntry, ConfigSource, broker_entries, topic_entries
from barnabas.api.request import Request
from barnabas.config.kafka_config import KafkaConfig
from barnabas.metadata.metadata_cache import MetadataCache
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.configs import DescribeConfigsRequest, DescribeConfigsResponse

Result = DescribeConfigsResponse.DescribeConfigsResult
ResultEntry = DescribeConfigsResponse.DescribeConfigsResourceResult

TOPIC = 2
BROKER = 4


class ConfigsApi:
    """Shows settings.

    config: the broker's own, as in force now. topic_overrides: a topic's, from the store.
    """

    def __init__(
        self,
        broker_id: int,
        config: Callable[[], KafkaConfig],
        topic_overrides: Callable[[str], Mapping[str, str]],
        metadata: MetadataCache,
    ) -> None:
        self._broker_id = broker_id
        self._config = config
        self._topic_overrides = topic_overrides
        self._metadata = metadata

    def describe_configs(self, request: Request[DescribeConfigsRequest]) -> None:
        """Answer every resource on its own."""
        request.respond(
            DescribeConfigsResponse(results=[self._result(request, resource) for resource in request.body.resources])
        )

    @staticmethod
    def error(
        request: Request[DescribeConfigsRequest], code: ErrorCode, message: str | None
    ) -> DescribeConfigsResponse:
        """The same error for every resource."""
        return DescribeConfigsResponse(
            results=[
                Result(
                    error_code=code,
                    error_message=message,
                    resource_type=resource.resource_type,
                    resource_name=resource.resource_name,
                )
                for resource in request.body.resources
            ]
        )

    def _result(
        self, request: Request[DescribeConfigsRequest], resource: DescribeConfigsRequest.DescribeConfigsResource
    ) -> Result:
        result = Result(
            error_code=ErrorCode.NONE,
            error_message=None,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
        try:
            entries = self._entries(resource)
        except ApiError as error:
            result.error_code, result.error_message = error.code, error.message
        else:
            result.configs = [_result_entry(entry, request) for entry in entries]
        return result

    def _entries(self, resource: DescribeConfigsRequest.DescribeConfigsResource) -> Sequence[ConfigEntry]:
        keys = resource.configuration_keys

        def wanted(name: str) -> bool:
            return keys is None or name in keys

        if resource.resource_type == TOPIC:
            if resource.resource_name not in self._metadata.image.topics:
                raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            return topic_entries(self._config(), self._topic_overrides(resource.resource_name), wanted)
        if resource.resource_type == BROKER:
            if resource.resource_name == "":
                return []  # the cluster-wide default: nothing is set dynamically yet
            if resource.resource_name != str(self._broker_id):
                raise ApiError(
                    ErrorCode.INVALID_REQUEST,
                    f"Unexpected broker id, expected {self._broker_id} or empty string, "
                    f"but received {resource.resource_name}",
                )
            return broker_entries(self._config(), wanted)
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {resource.resource_type}")


def _result_entry(entry: ConfigEntry, request: Request[DescribeConfigsRequest]) -> ResultEntry:
    body = request.body
    return ResultEntry(
        name=entry.key.name,
        value=entry.value,
        read_only=entry.is_read_only,
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
        documentation=entry.key.documentation if body.include_documentation else None,
    )
