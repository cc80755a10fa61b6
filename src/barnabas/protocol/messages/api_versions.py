"""ApiVersions: v0-4 (KIP-35, KIP-511, KIP-584).

Messages only, in the notation of `protocol.schema`; a message belongs to the code that holds it.

Kafka: ApiVersionsRequest and their responses, in common/message/*.json.
"""

from __future__ import annotations

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.message_spec import MessageSpec, StructSpec
from barnabas.protocol.schema import Int16, Int32, Int64, field


# v0: KIP-35; v1: throttle time; v3: flexible; name and version of the client's software (KIP-511), features (KIP-584).
# v4: a feature may begin at level 0, which clients of v3 cannot read (KAFKA-17011).
class ApiVersionsRequest(MessageSpec, api=ApiKey.API_VERSIONS, versions="0-4", flexible="3+"):
    client_software_name: str = field("3+", ignorable=True)
    client_software_version: str = field("3+", ignorable=True)


# Only the body is flexible: the header stays without tags in every version, because a client reads it before it knows
# what the broker speaks.
class ApiVersionsResponse(MessageSpec, api=ApiKey.API_VERSIONS, versions="0-4", flexible="3+"):
    error_code: Int16 = field("0+")
    api_keys: list[ApiVersionsResponse.ApiVersion] = field("0+")
    throttle_time_ms: Int32 = field("1+", ignorable=True)
    # Tagged fields: clients that know nothing of features skip them.
    supported_features: list[ApiVersionsResponse.SupportedFeatureKey] = field("3+", tag=0, tagged="3+", ignorable=True)
    finalized_features_epoch: Int64 = field("3+", tag=1, tagged="3+", ignorable=True, default=-1)
    finalized_features: list[ApiVersionsResponse.FinalizedFeatureKey] = field("3+", tag=2, tagged="3+", ignorable=True)
    zk_migration_ready: bool = field("3+", tag=3, tagged="3+", ignorable=True)

    class ApiVersion(StructSpec):
        api_key: Int16 = field("0+")
        min_version: Int16 = field("0+")
        max_version: Int16 = field("0+")

    class SupportedFeatureKey(StructSpec):
        name: str = field("3+")
        min_version: Int16 = field("3+")
        max_version: Int16 = field("3+")

    class FinalizedFeatureKey(StructSpec):
        name: str = field("3+")
        max_version_level: Int16 = field("3+")
        min_version_level: Int16 = field("3+")
