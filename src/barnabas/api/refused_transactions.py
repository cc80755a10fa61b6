"""The answer to transactional clients while this broker has no transactions.

Called by FindCoordinator and InitProducerId, on the thread of the request; stateless. The error is the one that every
client shows at once: confluent-kafka 2, kafka-python and aiokafka were tried, and Java's TransactionManager
treats it as fatal. With another error librdkafka retries until its caller's time is over.
"""

from __future__ import annotations

import logging
from typing import Any, Final

from barnabas.api.request import Request

logger = logging.getLogger(__name__)

NO_TRANSACTIONS: Final = (
    "This broker does not support transactions yet. Use a producer without transactional.id, which may be idempotent."
)


def log_refused_transaction(request: Request[Any], transactional_id: str) -> None:
    """Log why a client with a transactional id is refused."""
    logger.warning(
        "Refused %s of client %r on connection %s for the transactional id %r: this broker does not support "
        "transactions yet",
        request.handler.api_key.name,
        request.header.client_id,
        request.connection.connection_id,
        transactional_id,
    )
