"""Configuration: describe, alter, alter incrementally (KIP-133, KIP-339), and ListConfigResources (KIP-1142).

Messages only, in the notation of `protocol.schema`; a message belongs to the code that holds it.

Kafka: DescribeConfigsRequest, AlterConfigsRequest, IncrementalAlterConfigsRequest, ListConfigResourcesRequest and their
responses, in common/message/*.json.
"""

from __future__ import annotations

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.message_spec import MessageSpec, StructSpec
from barnabas.protocol.schema import Int8, Int16, Int32, field


# v1: synonyms, and the source of a value instead of `is_default` (KIP-226).
# v3: type and documentation of a setting (KIP-569); v4: flexible.
class DescribeConfigsRequest(MessageSpec, api=ApiKey.DESCRIBE_CONFIGS, versions="0-4", flexible="4+"):
    resources: list[DescribeConfigsRequest.DescribeConfigsResource] = field("0+")
    include_synonyms: bool = field("1+")
    include_documentation: bool = field("3+")

    class DescribeConfigsResource(StructSpec):
        resource_type: Int8 = field("0+")
        resource_name: str = field("0+")
        configuration_keys: list[str] | None = field("0+", nullable="0+")


class DescribeConfigsResponse(MessageSpec, api=ApiKey.DESCRIBE_CONFIGS, versions="0-4", flexible="4+"):
    throttle_time_ms: Int32 = field("0+")
    results: list[DescribeConfigsResponse.DescribeConfigsResult] = field("0+").repeats("resources")

    class DescribeConfigsResult(StructSpec):
        error_code: Int16 = field("0+")
        error_message: str | None = field("0+", nullable="0+")
        resource_type: Int8 = field("0+").repeats("resource_type")
        resource_name: str = field("0+").repeats("resource_name")
        configs: list[DescribeConfigsResponse.DescribeConfigsResourceResult] = field("0+")

    class DescribeConfigsResourceResult(StructSpec):
        name: str = field("0+")
        value: str | None = field("0+", nullable="0+")
        read_only: bool = field("0+")
        is_default: bool = field("0")
        config_source: Int8 = field("1+", ignorable=True, default=-1)
        is_sensitive: bool = field("0+")
        synonyms: list[DescribeConfigsResponse.DescribeConfigsSynonym] = field("1+", ignorable=True)
        config_type: Int8 = field("3+", ignorable=True)
        documentation: str | None = field("3+", nullable="3+", ignorable=True)

    class DescribeConfigsSynonym(StructSpec):
        name: str = field("1+")
        value: str | None = field("1+", nullable="1+")
        source: Int8 = field("1+")


# v2: flexible. A setting that is not named falls back to its default, for which reason KIP-339 deprecated the API.
class AlterConfigsRequest(MessageSpec, api=ApiKey.ALTER_CONFIGS, versions="0-2", flexible="2+"):
    resources: list[AlterConfigsRequest.AlterConfigsResource] = field("0+")
    validate_only: bool = field("0+")

    class AlterConfigsResource(StructSpec):
        resource_type: Int8 = field("0+")
        resource_name: str = field("0+")
        configs: list[AlterConfigsRequest.AlterableConfig] = field("0+")

    class AlterableConfig(StructSpec):
        name: str = field("0+")
        value: str | None = field("0+", nullable="0+")


class AlterConfigsResponse(MessageSpec, api=ApiKey.ALTER_CONFIGS, versions="0-2", flexible="2+"):
    throttle_time_ms: Int32 = field("0+")
    responses: list[AlterConfigsResponse.AlterConfigsResourceResponse] = field("0+").repeats("resources")

    class AlterConfigsResourceResponse(StructSpec):
        error_code: Int16 = field("0+")
        error_message: str | None = field("0+", nullable="0+")
        resource_type: Int8 = field("0+").repeats("resource_type")
        resource_name: str = field("0+").repeats("resource_name")


# v0: set, delete, append or subtract one setting, and leave the others alone (KIP-339); v1: flexible.
class IncrementalAlterConfigsRequest(MessageSpec, api=ApiKey.INCREMENTAL_ALTER_CONFIGS, versions="0-1", flexible="1+"):
    resources: list[IncrementalAlterConfigsRequest.AlterConfigsResource] = field("0+")
    validate_only: bool = field("0+")

    class AlterConfigsResource(StructSpec):
        resource_type: Int8 = field("0+")
        resource_name: str = field("0+")
        configs: list[IncrementalAlterConfigsRequest.AlterableConfig] = field("0+")

    class AlterableConfig(StructSpec):
        name: str = field("0+")
        config_operation: Int8 = field("0+")
        value: str | None = field("0+", nullable="0+")


class IncrementalAlterConfigsResponse(MessageSpec, api=ApiKey.INCREMENTAL_ALTER_CONFIGS, versions="0-1", flexible="1+"):
    throttle_time_ms: Int32 = field("0+")
    responses: list[IncrementalAlterConfigsResponse.AlterConfigsResourceResponse] = field("0+").repeats("resources")

    class AlterConfigsResourceResponse(StructSpec):
        error_code: Int16 = field("0+")
        error_message: str | None = field("0+", nullable="0+")
        resource_type: Int8 = field("0+").repeats("resource_type")
        resource_name: str = field("0+").repeats("resource_name")


# v0 was ListClientMetricsResources (KIP-714); v1: resources of every type (KIP-1142).
class ListConfigResourcesRequest(MessageSpec, api=ApiKey.LIST_CONFIG_RESOURCES, versions="0-1", flexible="0+"):
    resource_types: list[Int8] = field("1+")


class ListConfigResourcesResponse(MessageSpec, api=ApiKey.LIST_CONFIG_RESOURCES, versions="0-1", flexible="0+"):
    throttle_time_ms: Int32 = field("0+")
    error_code: Int16 = field("0+")
    config_resources: list[ListConfigResourcesResponse.ConfigResource] = field("0+")

    class ConfigResource(StructSpec):
        resource_name: str = field("0+")
        # 16 is CLIENT_METRICS, the one type of v0.
        resource_type: Int8 = field("1+", ignorable=True, default=16)
