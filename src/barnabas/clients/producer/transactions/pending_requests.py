"""The requests of a transactional producer that are to be sent, and the calls of its user that wait for them.

Owned by `TransactionManager`, whose lock guards it. Kafka: TransactionManager's queue of TxnRequestHandlers.
"""

from __future__ import annotations

from concurrent.futures import Future
from typing import NamedTuple

from barnabas.clients.producer.transactions.transactional_request import (
    AddOffsets,
    AddPartitions,
    FindCoordinator,
    TransactionalRequest,
)


class Operation(NamedTuple):
    """A call of a user that waits for the coordinator, by the method's name, and its result."""

    name: str
    done: Future[None]


class PendingRequests:
    """The requests, in the order of their priorities."""

    def __init__(self) -> None:
        self._requests: list[TransactionalRequest] = []

    def __bool__(self) -> bool:
        """Return whether a request is to be sent."""
        return bool(self._requests)

    def add(self, request: TransactionalRequest) -> Future[None]:
        """Add a request. Returns its result."""
        self._requests.append(request)
        return request.done

    def first(self) -> TransactionalRequest | None:
        """Return the first of those with the lowest priority, which stays pending."""
        return min(self._requests, key=lambda request: request.priority, default=None)

    def remove(self, request: TransactionalRequest) -> None:
        """Remove a request that is being sent, or need not be sent."""
        self._requests.remove(request)

    def take_all(self) -> list[TransactionalRequest]:
        """Remove and return all requests: the producer has failed."""
        taken, self._requests = self._requests, []
        return taken

    def take_of_failed_transaction(self) -> list[TransactionalRequest]:
        """Return all requests, whose calls fail with the transaction, and remove those that need not be sent any more.

        A request whose answer was lost may have begun the transaction at the coordinator. It is sent again, so that
        the producer knows whether there is a transaction to abort.
        """
        taken = self.take_all()
        self._requests = [
            request
            for request in taken
            if isinstance(request, FindCoordinator)
            or (isinstance(request, (AddPartitions, AddOffsets)) and request.attempts > 0)
        ]
        return taken


def succeed(done: Future[None]) -> None:
    """Set the result, unless it has failed before, with its transaction."""
    if not done.done():
        done.set_result(None)
