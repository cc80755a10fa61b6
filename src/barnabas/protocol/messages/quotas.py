"""Client quotas (KIP-546) and SCRAM credentials (KIP-554).

Messages only, in the notation of `protocol.schema`; a message belongs to the code that holds it.

Kafka: DescribeClientQuotasRequest, AlterClientQuotasRequest, DescribeUserScramCredentialsRequest,
AlterUserScramCredentialsRequest and their responses, in common/message/*.json.
"""

from __future__ import annotations

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.message_spec import MessageSpec, StructSpec
from barnabas.protocol.schema import Float64, Int8, Int16, Int32, field


# v0: KIP-546; v1: flexible.
class DescribeClientQuotasRequest(MessageSpec, api=ApiKey.DESCRIBE_CLIENT_QUOTAS, versions="0-1", flexible="1+"):
    components: list[DescribeClientQuotasRequest.ComponentData] = field("0+")
    strict: bool = field("0+")

    class ComponentData(StructSpec):
        entity_type: str = field("0+")
        # 0: this name; 1: the default entity; 2: any name that has a quota.
        match_type: Int8 = field("0+")
        match: str | None = field("0+", nullable="0+")


class DescribeClientQuotasResponse(MessageSpec, api=ApiKey.DESCRIBE_CLIENT_QUOTAS, versions="0-1", flexible="1+"):
    throttle_time_ms: Int32 = field("0+")
    error_code: Int16 = field("0+")
    error_message: str | None = field("0+", nullable="0+")
    entries: list[DescribeClientQuotasResponse.EntryData] | None = field("0+", nullable="0+").on_error(None)

    class EntryData(StructSpec):
        entity: list[DescribeClientQuotasResponse.EntityData] = field("0+")
        values: list[DescribeClientQuotasResponse.ValueData] = field("0+")

    class EntityData(StructSpec):
        entity_type: str = field("0+")
        entity_name: str | None = field("0+", nullable="0+")

    class ValueData(StructSpec):
        key: str = field("0+")
        value: Float64 = field("0+")


# v0: KIP-546; v1: flexible.
class AlterClientQuotasRequest(MessageSpec, api=ApiKey.ALTER_CLIENT_QUOTAS, versions="0-1", flexible="1+"):
    entries: list[AlterClientQuotasRequest.EntryData] = field("0+")
    validate_only: bool = field("0+")

    class EntryData(StructSpec):
        entity: list[AlterClientQuotasRequest.EntityData] = field("0+")
        ops: list[AlterClientQuotasRequest.OpData] = field("0+")

    class EntityData(StructSpec):
        entity_type: str = field("0+")
        entity_name: str | None = field("0+", nullable="0+")

    class OpData(StructSpec):
        key: str = field("0+")
        value: Float64 = field("0+")
        remove: bool = field("0+")


class AlterClientQuotasResponse(MessageSpec, api=ApiKey.ALTER_CLIENT_QUOTAS, versions="0-1", flexible="1+"):
    throttle_time_ms: Int32 = field("0+")
    entries: list[AlterClientQuotasResponse.EntryData] = field("0+").repeats("entries")

    class EntryData(StructSpec):
        error_code: Int16 = field("0+")
        error_message: str | None = field("0+", nullable="0+")
        entity: list[AlterClientQuotasResponse.EntityData] = field("0+").repeats("entity")

    class EntityData(StructSpec):
        entity_type: str = field("0+").repeats("entity_type")
        entity_name: str | None = field("0+", nullable="0+").repeats("entity_name")


# v0: KIP-554. Null or an empty list asks for all users.
class DescribeUserScramCredentialsRequest(
    MessageSpec, api=ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, versions="0", flexible="0+"
):
    users: list[DescribeUserScramCredentialsRequest.UserName] | None = field("0+", nullable="0+")

    class UserName(StructSpec):
        name: str = field("0+")


class DescribeUserScramCredentialsResponse(
    MessageSpec, api=ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, versions="0", flexible="0+"
):
    throttle_time_ms: Int32 = field("0+")
    error_code: Int16 = field("0+")
    error_message: str | None = field("0+", nullable="0+")
    results: list[DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult] = field("0+").repeats(
        "users"
    )

    class DescribeUserScramCredentialsResult(StructSpec):
        user: str = field("0+").repeats("name")
        error_code: Int16 = field("0+")
        error_message: str | None = field("0+", nullable="0+")
        credential_infos: list[DescribeUserScramCredentialsResponse.CredentialInfo] = field("0+")

    class CredentialInfo(StructSpec):
        mechanism: Int8 = field("0+")
        iterations: Int32 = field("0+")


# v0: KIP-554. The client sends salt and salted password: the password itself never travels.
class AlterUserScramCredentialsRequest(
    MessageSpec, api=ApiKey.ALTER_USER_SCRAM_CREDENTIALS, versions="0", flexible="0+"
):
    deletions: list[AlterUserScramCredentialsRequest.ScramCredentialDeletion] = field("0+")
    upsertions: list[AlterUserScramCredentialsRequest.ScramCredentialUpsertion] = field("0+")

    class ScramCredentialDeletion(StructSpec):
        name: str = field("0+")
        mechanism: Int8 = field("0+")

    class ScramCredentialUpsertion(StructSpec):
        name: str = field("0+")
        mechanism: Int8 = field("0+")
        iterations: Int32 = field("0+")
        salt: bytes = field("0+")
        salted_password: bytes = field("0+")


class AlterUserScramCredentialsResponse(
    MessageSpec, api=ApiKey.ALTER_USER_SCRAM_CREDENTIALS, versions="0", flexible="0+"
):
    throttle_time_ms: Int32 = field("0+")
    results: list[AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult] = field("0+")

    class AlterUserScramCredentialsResult(StructSpec):
        user: str = field("0+")
        error_code: Int16 = field("0+")
        error_message: str | None = field("0+", nullable="0+")
