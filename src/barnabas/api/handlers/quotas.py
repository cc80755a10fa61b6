"""DescribeClientQuotas: v0-1 (KIP-546). AlterClientQuotas: v0-1.

Not brief: they read, and write, the store. Quotas are of users, client ids, clients of users (KIP-546), and IP
addresses (KIP-612); each entity of a change is answered on its own. A change is in force a moment after its answer.

v1: flexible.

Kafka: KafkaApis.handleDescribeClientQuotasRequest and handleAlterClientQuotasRequest.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from barnabas.api.authorize import Authorizer, require_cluster_permission
from barnabas.api.request import Handler, Request
from barnabas.metadata.client_quota_admin import ClientQuotaAdmin, ClientQuotaDescriptions, QuotaChange, QuotaFilter
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from barnabas.security.acl.acl_codes import AclOperation

logger = logging.getLogger(__name__)

Alteration = AlterClientQuotasRequest.EntryData
Altered = AlterClientQuotasResponse.EntryData
Described = DescribeClientQuotasResponse.EntryData

NOTHING_WRONG = ApiError(ErrorCode.NONE)


class QuotasApi:
    """Shows and changes quotas of clients."""

    def __init__(
        self, admin: ClientQuotaAdmin, descriptions: ClientQuotaDescriptions, authorizer: Authorizer | None
    ) -> None:
        self._admin = admin
        self._descriptions = descriptions
        self._authorizer = authorizer

    def handlers(self) -> Sequence[Handler]:
        """Return the lines of the table."""
        return (
            Handler(ApiKey.DESCRIBE_CLIENT_QUOTAS, self.describe_client_quotas),
            Handler(ApiKey.ALTER_CLIENT_QUOTAS, self.alter_client_quotas),
        )

    def describe_client_quotas(self, request: Request[DescribeClientQuotasRequest]) -> None:
        """Describe the quotas of the entities asked for.

        Raises ApiError: CLUSTER_AUTHORIZATION_FAILED, and INVALID_REQUEST or UNSUPPORTED_VERSION for a filter that is
        not valid.
        """
        require_cluster_permission(self._authorizer, request, AclOperation.DESCRIBE_CONFIGS)
        body = request.body
        filters = [QuotaFilter(each.entity_type, each.match_type, each.match) for each in body.components]
        entries = [
            Described(
                entity=[
                    DescribeClientQuotasResponse.EntityData(entity_type=kind, entity_name=name)
                    for kind, name in found.entity.items()
                ],
                values=[
                    DescribeClientQuotasResponse.ValueData(key=key, value=value) for key, value in found.quotas.items()
                ],
            )
            for found in self._descriptions.describe(filters, strict=body.strict)
        ]
        request.respond(DescribeClientQuotasResponse(error_code=ErrorCode.NONE, error_message=None, entries=entries))

    def alter_client_quotas(self, request: Request[AlterClientQuotasRequest]) -> None:
        """Change quotas; an entity named twice is answered once, for its last change (Kafka keeps a map).

        Raises ApiError: CLUSTER_AUTHORIZATION_FAILED.
        """
        require_cluster_permission(self._authorizer, request, AclOperation.ALTER_CONFIGS)
        body = request.body
        answers: dict[frozenset[tuple[str, str | None]], Altered] = {}
        for entry in body.entries:
            entity = {each.entity_type: each.entity_name for each in entry.entity}
            error = self._alter(entity, entry, validate_only=body.validate_only)
            # By the set of its parts: user and client id may come in either order.
            answers[frozenset(entity.items())] = _answer(entry, error)
        request.respond(AlterClientQuotasResponse(entries=list(answers.values())))

    def _alter(self, entity: dict[str, str | None], entry: Alteration, *, validate_only: bool) -> ApiError:
        # The value of a removal is 0 on the wire, which would be a limit of nothing.
        changes = [QuotaChange(op.key, None if op.remove else op.value) for op in entry.ops]
        try:
            self._admin.alter(entity, changes, validate_only=validate_only)
        except ApiError as error:
            logger.info("Error encountered while updating client quotas of %s: %s", entity, error)
            return error.as_value()
        except Exception:
            # A defect ends the change of one entity; the quotas of others can still be changed.
            logger.exception("Error encountered while updating client quotas of %s", entity)
            return ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.UNKNOWN_SERVER_ERROR.message)
        return NOTHING_WRONG


def _answer(entry: Alteration, error: ApiError) -> Altered:
    return Altered(
        error_code=error.code,
        error_message=None if error is NOTHING_WRONG else error.message,
        entity=[
            AlterClientQuotasResponse.EntityData(entity_type=each.entity_type, entity_name=each.entity_name)
            for each in entry.entity
        ],
    )
