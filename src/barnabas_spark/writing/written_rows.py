"""What the tasks of a write have written, and the end of their transactions.

The tasks make `WrittenRows`, and the driver ends their transactions, on one thread of its process; no lock.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

from pyspark.sql.datasource import WriterCommitMessage

from barnabas.clients.errors import ClientTimeout
from barnabas.clients.values import PreparedTransaction
from barnabas.protocol.errors import ApiError
from barnabas_spark.options.sink_options import SinkOptions

if TYPE_CHECKING:
    from barnabas.clients.admin import Admin

logger = logging.getLogger(__name__)


class WrittenRows(WriterCommitMessage):
    """The result of one task."""

    def __init__(self, rows: int, size_bytes: int, prepared: PreparedTransaction | None = None) -> None:
        self.rows = rows
        self.size_bytes = size_bytes
        self.prepared = prepared
        """The transaction in which the rows are. The driver ends it. None: they are in no transaction."""


def end_transactions(written: Iterable[WrittenRows], options: SinkOptions, *, commit: bool) -> None:
    """Commit or abort the transactions of tasks that have succeeded. Raises ApiError, ClientTimeout in a commit."""
    prepared = [each.prepared for each in written if each.prepared is not None]
    if not prepared:
        return
    with sink_admin(options) as admin:
        for each in prepared:
            try:
                admin.end_transaction(each, commit=commit)
            except (ApiError, ClientTimeout) as error:
                if commit:
                    raise
                # Readers of committed records wait for the next attempt, or for the transaction's timeout.
                logger.warning("%s: the transaction could not be aborted: %s", each.transactional_id, error)


def sink_admin(options: SinkOptions) -> Admin:
    """Return an admin client of these options."""
    # Imported when used: most writes have no transactions.
    from barnabas.clients.admin import Admin  # noqa: PLC0415
    from barnabas.clients.settings.client_config import ClientConfig  # noqa: PLC0415

    return Admin(
        options.bootstrap_servers,
        # The calls that a Kafka producer makes to end its transaction wait as long.
        timeout_ms=options.max_block_ms,
        config=ClientConfig(
            client_id=options.client_id,
            request_timeout_ms=options.request_timeout_ms,
            **options.security.security_settings(),
        ),
    )
