"""InitProducerId: v0-5, without a transactional id.

Not brief: a block of producer ids may have to be written to the store.

v2: flexible.
v3: the producer's current id and epoch, to bump (KIP-360).
v4: PRODUCER_FENCED.
v5: KIP-890.

Kafka: KafkaApis.handleInitProducerIdRequest, TransactionCoordinator.handleInitProducerId.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from barnabas.api.authorize import (
    CLUSTER_NAME,
    AclOperation,
    Authorizer,
    ResourceType,
    is_allowed,
    is_allowed_somewhere,
)
from barnabas.api.refused_transactions import NO_TRANSACTIONS, log_refused_transaction
from barnabas.api.request import Handler, Request
from barnabas.metadata.producer_ids import ProducerIdManager
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.transactions import InitProducerIdRequest, InitProducerIdResponse

WITHOUT_TWO_PHASE_COMMIT: Final = (0, 5)
"""v6, of two-phase commit (KIP-939), is not stable in Kafka 4 either, and of use to transactions only."""


class InitProducerIdApi:
    """Hands out producer ids. Transactional ids are refused: they have no coordinator yet."""

    def __init__(self, producer_ids: ProducerIdManager, authorizer: Authorizer | None) -> None:
        self._producer_ids = producer_ids
        self._authorizer = authorizer

    def handlers(self) -> Sequence[Handler]:
        """Return the lines of the table."""
        return (Handler(ApiKey.INIT_PRODUCER_ID, self.init_producer_id, versions=WITHOUT_TWO_PHASE_COMMIT),)

    def init_producer_id(self, request: Request[InitProducerIdRequest]) -> None:
        """Hand out a new id with epoch 0, whatever the producer had: an idempotent producer keeps nothing (KIP-360).

        Raises ApiError: CLUSTER_AUTHORIZATION_FAILED, INVALID_REQUEST for an empty transactional id,
        TRANSACTIONAL_ID_AUTHORIZATION_FAILED for any other.
        """
        transactional_id = request.body.transactional_id
        self._check_permission(request, transactional_id)
        if transactional_id is not None:
            # An empty id is an error in Kafka, too: the id of a producer without transactions is null.
            if not transactional_id:
                raise ApiError(ErrorCode.INVALID_REQUEST)
            log_refused_transaction(request, transactional_id)
            raise ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, NO_TRANSACTIONS)
        request.respond(
            InitProducerIdResponse(
                error_code=ErrorCode.NONE, producer_id=self._producer_ids.generate(), producer_epoch=0
            )
        )

    def _check_permission(self, request: Request[InitProducerIdRequest], transactional_id: str | None) -> None:
        """Check that the client may write: idempotently to any topic (KIP-679), or with its transactional id.

        Raises ApiError: CLUSTER_AUTHORIZATION_FAILED, or TRANSACTIONAL_ID_AUTHORIZATION_FAILED for the id.
        """
        authorizer, write = self._authorizer, AclOperation.WRITE
        if transactional_id is not None:
            if not is_allowed(authorizer, request, write, ResourceType.TRANSACTIONAL_ID, transactional_id):
                raise ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
            return
        idempotent = (AclOperation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, CLUSTER_NAME)
        # Not logged: IDEMPOTENT_WRITE is deprecated (KIP-679), and WRITE on any topic does as well.
        if is_allowed(authorizer, request, *idempotent, log_if_denied=False):
            return
        if not is_allowed_somewhere(authorizer, request, write, ResourceType.TOPIC):
            raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
