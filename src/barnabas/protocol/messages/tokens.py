"""Delegation tokens (KIP-48, KIP-373).

Messages only, in the notation of `protocol.schema`; a message belongs to the code that holds it.

Kafka: CreateDelegationTokenRequest, RenewDelegationTokenRequest, ExpireDelegationTokenRequest,
DescribeDelegationTokenRequest and their responses, in common/message/*.json.
"""

from __future__ import annotations

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.message_spec import MessageSpec, StructSpec
from barnabas.protocol.schema import Int16, Int32, Int64, field


# v2: flexible; v3: an owner other than the requester, and the requester in the responses (KIP-373).
class CreateDelegationTokenRequest(MessageSpec, api=ApiKey.CREATE_DELEGATION_TOKEN, versions="0-3", flexible="2+"):
    owner_principal_type: str | None = field("3+", nullable="3+")
    owner_principal_name: str | None = field("3+", nullable="3+")
    renewers: list[CreateDelegationTokenRequest.CreatableRenewers] = field("0+")
    max_lifetime_ms: Int64 = field("0+")

    class CreatableRenewers(StructSpec):
        principal_type: str = field("0+")
        principal_name: str = field("0+")


class CreateDelegationTokenResponse(MessageSpec, api=ApiKey.CREATE_DELEGATION_TOKEN, versions="0-3", flexible="2+"):
    error_code: Int16 = field("0+")
    principal_type: str = field("0+")
    principal_name: str = field("0+")
    token_requester_principal_type: str = field("3+")
    token_requester_principal_name: str = field("3+")
    issue_timestamp_ms: Int64 = field("0+")
    expiry_timestamp_ms: Int64 = field("0+")
    max_timestamp_ms: Int64 = field("0+")
    token_id: str = field("0+")
    hmac: bytes = field("0+")
    throttle_time_ms: Int32 = field("0+")


class RenewDelegationTokenRequest(MessageSpec, api=ApiKey.RENEW_DELEGATION_TOKEN, versions="0-2", flexible="2+"):
    hmac: bytes = field("0+")
    renew_period_ms: Int64 = field("0+")


class RenewDelegationTokenResponse(MessageSpec, api=ApiKey.RENEW_DELEGATION_TOKEN, versions="0-2", flexible="2+"):
    error_code: Int16 = field("0+")
    expiry_timestamp_ms: Int64 = field("0+")
    throttle_time_ms: Int32 = field("0+")


class ExpireDelegationTokenRequest(MessageSpec, api=ApiKey.EXPIRE_DELEGATION_TOKEN, versions="0-2", flexible="2+"):
    hmac: bytes = field("0+")
    expiry_time_period_ms: Int64 = field("0+")


class ExpireDelegationTokenResponse(MessageSpec, api=ApiKey.EXPIRE_DELEGATION_TOKEN, versions="0-2", flexible="2+"):
    error_code: Int16 = field("0+")
    expiry_timestamp_ms: Int64 = field("0+")
    throttle_time_ms: Int32 = field("0+")


class DescribeDelegationTokenRequest(MessageSpec, api=ApiKey.DESCRIBE_DELEGATION_TOKEN, versions="0-3", flexible="2+"):
    owners: list[DescribeDelegationTokenRequest.DescribeDelegationTokenOwner] | None = field("0+", nullable="0+")

    class DescribeDelegationTokenOwner(StructSpec):
        principal_type: str = field("0+")
        principal_name: str = field("0+")


class DescribeDelegationTokenResponse(MessageSpec, api=ApiKey.DESCRIBE_DELEGATION_TOKEN, versions="0-3", flexible="2+"):
    error_code: Int16 = field("0+")
    tokens: list[DescribeDelegationTokenResponse.DescribedDelegationToken] = field("0+")
    throttle_time_ms: Int32 = field("0+")

    class DescribedDelegationToken(StructSpec):
        principal_type: str = field("0+")
        principal_name: str = field("0+")
        token_requester_principal_type: str = field("3+")
        token_requester_principal_name: str = field("3+")
        issue_timestamp: Int64 = field("0+")
        expiry_timestamp: Int64 = field("0+")
        max_timestamp: Int64 = field("0+")
        token_id: str = field("0+")
        hmac: bytes = field("0+")
        renewers: list[DescribeDelegationTokenResponse.DescribedDelegationTokenRenewer] = field("0+")

    class DescribedDelegationTokenRenewer(StructSpec):
        principal_type: str = field("0+")
        principal_name: str = field("0+")
