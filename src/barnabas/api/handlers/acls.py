"""DescribeAcls: v0-3 (KIP-140). CreateAcls: v0-3. DeleteAcls: v0-3: refused, since no authorizer keeps ACLs yet.

Brief. v1: pattern types (KIP-290). v2: flexible. v3: user resources (KIP-373).

Kafka: AclApis; the texts are its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.api.authorize import Authorizer, require_cluster_permission
from barnabas.api.brief import BRIEF
from barnabas.api.request import Handler, Request
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.acls import CreateAclsRequest, DeleteAclsRequest, DescribeAclsRequest
from barnabas.security.acl.acl_codes import AclOperation


class AclsApi:
    """Refuses to describe and change access control lists."""

    def __init__(self, authorizer: Authorizer | None) -> None:
        self._authorizer = authorizer

    def handlers(self) -> Sequence[Handler]:
        """Return the lines of the table."""
        return (
            Handler(ApiKey.DESCRIBE_ACLS, self.describe_acls, brief=BRIEF),
            Handler(ApiKey.CREATE_ACLS, self.create_acls, brief=BRIEF),
            Handler(ApiKey.DELETE_ACLS, self.delete_acls, brief=BRIEF),
        )

    def describe_acls(self, request: Request[DescribeAclsRequest]) -> None:
        """Refuse. Raises ApiError: CLUSTER_AUTHORIZATION_FAILED, else SECURITY_DISABLED."""
        require_cluster_permission(self._authorizer, request, AclOperation.DESCRIBE)
        raise ApiError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured on the broker")

    def create_acls(self, request: Request[CreateAclsRequest]) -> None:
        """Refuse each creation. Raises ApiError: CLUSTER_AUTHORIZATION_FAILED, else SECURITY_DISABLED."""
        require_cluster_permission(self._authorizer, request, AclOperation.ALTER)
        raise ApiError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")

    def delete_acls(self, request: Request[DeleteAclsRequest]) -> None:
        """Refuse each filter. Raises ApiError: CLUSTER_AUTHORIZATION_FAILED, else SECURITY_DISABLED."""
        require_cluster_permission(self._authorizer, request, AclOperation.ALTER)
        raise ApiError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
