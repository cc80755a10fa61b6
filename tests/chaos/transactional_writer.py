"""A thread that writes transactions through one library, and replaces producers that fail.

A producer that failed leaves a transaction whose end its successor brings about: `init` of the same transactional id
waits until it is committed or aborted. So a writer that rests has no open transaction.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable

from tests.chaos.transaction_ledger import Outcome, TransactionEntry, TransactionLedger, Written
from tests.chaos.transactional_clients import TransactionalClient

logger = logging.getLogger(__name__)

PAUSE_SECONDS = 0.03
"""Between two transactions."""
MAX_RECORDS = 8
ABORTED_SHARE = 0.25
OFFSETS_SHARE = 0.6


class TransactionalWriter:
    """The writer of one ledger."""

    def __init__(self, ledger: TransactionLedger, make_client: Callable[[], TransactionalClient], seed: int) -> None:
        self.ledger = ledger
        self._make_client = make_client
        self._chance = random.Random(seed)
        self._writing = threading.Event()
        self._resting = threading.Event()
        self._is_ended = False
        self._thread = threading.Thread(target=self._run, name=f"writer-{ledger.topic}", daemon=True)
        self.failure: BaseException | None = None

    def start(self) -> None:
        """Begin, at rest."""
        self._thread.start()

    def resume(self) -> None:
        """Write from now on."""
        self._resting.clear()
        self._writing.set()

    def rest(self, timeout_seconds: float) -> None:
        """Stop writing, and wait until every transaction has ended."""
        self._writing.clear()
        is_resting = self._resting.wait(timeout_seconds)
        assert self.failure is None, self.failure
        assert is_resting, f"{self.ledger.topic}: its last transaction has not ended after {timeout_seconds} s"

    def close(self, timeout_seconds: float = 60) -> None:
        """End the thread."""
        self._is_ended = True
        self._writing.set()
        if self._thread.is_alive():
            self._thread.join(timeout_seconds)

    def _run(self) -> None:
        client: TransactionalClient | None = None
        try:
            while not self._is_ended:
                if client is None:
                    client = self._new_client()
                elif not self._writing.is_set():
                    self._resting.set()
                    self._writing.wait()
                elif not self._write_transaction(client):
                    client.close()
                    client = None
                else:
                    threading.Event().wait(self._chance.uniform(0, 2 * PAUSE_SECONDS))
        except BaseException as error:
            self.failure = error
            self._resting.set()
            raise
        finally:
            if client is not None:
                client.close()

    def _new_client(self) -> TransactionalClient | None:
        """Return a producer that has ended what its predecessor left, or None: try again."""
        client = self._make_client()
        self.ledger.producers += 1
        try:
            client.init()
        except Exception as error:  # noqa: BLE001 - whatever it is, another producer comes
            logger.warning("%s: no producer: %r", self.ledger.topic, error)
            client.close()
            return None
        return client

    def _write_transaction(self, client: TransactionalClient) -> bool:
        """Write one transaction, and note it. Return whether the producer can go on."""
        number = len(self.ledger.entries)
        entry = TransactionEntry(number, has_offset=self._chance.random() < OFFSETS_SHARE)
        self.ledger.entries.append(entry)
        try:
            client.begin()
            for index in range(self._chance.randint(1, MAX_RECORDS)):
                partition = self._chance.randrange(self.ledger.partitions)
                value = b"%s/%d/%d.%d " % (self.ledger.topic.encode(), partition, number, index)
                value += self._chance.randbytes(self._chance.choice((1, 20, 300)))
                entry.sent.append(Written(partition, value))
                client.send(partition, value)
            if entry.has_offset:
                client.send_offset(self.ledger.group, number + 1)
            if self._chance.random() < ABORTED_SHARE:
                client.abort()
            else:
                entry.outcome = Outcome.UNKNOWN
                client.commit()
                entry.outcome = Outcome.COMMITTED
        except Exception as error:  # noqa: BLE001 - whatever it is, another producer takes over
            logger.warning("%s: transaction %d is %s: %r", self.ledger.topic, number, entry.outcome.value, error)
            return False
        return True
