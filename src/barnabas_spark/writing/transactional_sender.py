"""Writes the rows of each task in a transaction, which also notes that they are written; the driver commits it.

`send_rows_once` is called by the writers in the executors' Python workers, on the task's thread; the driver calls
`written_rows.end_transactions`. No lock.

A task cannot commit by itself: when the query fails in the JVM, in the middle of the task's rows, the rows simply end
for the Python worker. Only the driver knows that a task has succeeded. So a task leaves its transaction open, and hands
it to the driver, which commits those of all tasks.

The note is an offset that the transaction commits for a consumer group: rows and note appear together, or not at all.
When a micro-batch is written again - after a crash of the driver, of a worker or of the broker, or because Spark runs a
task twice - the task first takes over its transactional id. That fences the other attempt and ends its transaction, so
the note that is read then is final: it says whether the task's rows are in the topic.

Transactional id and group are `barnabas-spark-<application>-<task>`. The noted offset is the version (the number of the
micro-batch) plus one, committed for partition 0 of one of the topics that were written to. Every task has its own: when
the driver dies between two commits, a task that is committed is skipped the next time, and the others are written
again. So each task must get the same rows again. That is so for one task (`repartition(1)`), and for tasks that read
ranges of offsets or keep state, as long as their number stays the same.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark import TaskContext

from barnabas.clients.producer import Producer
from barnabas.clients.values import ConsumerGroupMetadata
from barnabas.protocol.topic_partition import TopicPartition
from barnabas_spark.options.sink_options import SinkOptions, WriteIdentity
from barnabas_spark.writing.row_sender import deliver
from barnabas_spark.writing.written_rows import WrittenRows, sink_admin

if TYPE_CHECKING:
    import pyarrow as pa

logger = logging.getLogger(__name__)

_PREFIX = "barnabas-spark"


def send_rows_once(batches: Iterator[pa.RecordBatch], options: SinkOptions, identity: WriteIdentity) -> WrittenRows:
    """Write one task's rows, unless an earlier attempt has. Raises ApiError, ClientTimeout, OptionError."""
    context = TaskContext.get()
    name = f"{_PREFIX}-{identity.application_id}-{context.partitionId() if context else 0}"
    # Not kept for the next micro-batch: another worker may run this task then, and fences this one's producer.
    producer = Producer(
        options.bootstrap_servers,
        client_id=options.client_id,
        transactional_id=name,
        transaction_timeout_ms=options.transaction_timeout_ms,
        request_timeout_ms=options.request_timeout_ms,
        delivery_timeout_ms=options.delivery_timeout_ms,
        max_block_ms=options.max_block_ms,
        bootstrap_timeout_ms=options.bootstrap_timeout_ms,
        max_request_size=options.max_request_bytes,
        buffer_memory=options.buffer_bytes,
        **options.security.security_settings(),
    )
    try:
        producer.init_transactions()
        if _last_version(options, name) >= identity.version:
            logger.warning("%s: write %d is in the topic already; its rows are skipped", name, identity.version)
            # The rows are read all the same, because Spark's side sends them in any case.
            for _ in batches:
                pass
            return WrittenRows(0, 0)
        return _send(batches, options, identity, producer)
    finally:
        # `close` would abort the transaction. After an error the next attempt does, or the transaction's timeout.
        producer.abort()


def _send(
    batches: Iterator[pa.RecordBatch], options: SinkOptions, identity: WriteIdentity, producer: Producer
) -> WrittenRows:
    """Write the rows and the note in a transaction, and leave it open. Raises ApiError, ClientTimeout, OptionError."""
    topics: set[str] = set()
    producer.begin_transaction()
    written = deliver(batches, options, producer, topics)
    if not topics:
        # A task without rows notes nothing: written again, it writes nothing again.
        return written
    noted_at = TopicPartition(min(topics), 0)
    group = ConsumerGroupMetadata(producer.config.transactional_id or "")
    producer.send_offsets_to_transaction({noted_at: identity.version + 1}, group)
    return WrittenRows(written.rows, written.size_bytes, producer.prepare_transaction())


def _last_version(options: SinkOptions, name: str) -> int:
    """Return the version of the last write that was committed, or -1. Raises ApiError, ClientTimeout."""
    with sink_admin(options) as admin:
        # Stable: the last transaction is committed or aborted, but its marker may be on the way to the group's
        # coordinator, and the note is not to be seen until it has arrived.
        offsets = admin.list_group_offsets(name, require_stable=True)
    return max((committed.offset for committed in offsets.values()), default=0) - 1
