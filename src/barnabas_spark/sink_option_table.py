"""The options of the sink: names, types, defaults, checks and meaning, from which docs/spark.md is made too.

Read by `sink_options`, `kafka_options` and the generator of docs/spark.md, on any thread; constants only, no lock.
"""

from __future__ import annotations

from barnabas_spark.option_table import BOOTSTRAP_SERVERS, BOOTSTRAP_TIMEOUT_MS, CLIENT_ID, Kind, Option, Queries

TOPIC = Option(
    "topic", Kind.TEXT, None, "The topic of all rows. Without it, each row's column `topic` names its topic."
)
INCLUDE_HEADERS = Option(
    "includeHeaders", Kind.BOOLEAN, "true", "Whether a column `headers` is written, if the rows have one."
)
CHECKPOINT_LOCATION = Option(
    "checkpointLocation",
    Kind.TEXT,
    None,
    "Spark's directory for the query's progress, in which the sink also notes the number of its last micro-batch. Spark"
    " requires it.",
    queries=Queries.STREAM,
)
QUERY_NAME = Option("queryName", Kind.TEXT, None, "Spark's name of the query.", queries=Queries.STREAM)
EXACTLY_ONCE = Option(
    "exactlyOnce",
    Kind.BOOLEAN,
    "false",
    "Whether each micro-batch is written in transactions, so that readers of committed records see every row once.",
    "has none: at least once",
    Queries.STREAM,
)
TXN_APP_ID = Option(
    "txnAppId",
    Kind.TEXT,
    None,
    "With `txnVersion`: the application whose writes are numbered. A number is written once. For `foreachBatch`: the"
    " query's id. The names are Delta Lake's.",
    "has none: at least once",
    Queries.BATCH,
)
TXN_VERSION = Option(
    "txnVersion",
    Kind.INTEGER,
    None,
    "The number of this write, which grows with the writes of its `txnAppId`. For `foreachBatch`: the micro-batch's.",
    "has none",
    Queries.BATCH,
    smallest=0,
)

SINK_OPTIONS = (TOPIC, INCLUDE_HEADERS, CHECKPOINT_LOCATION, QUERY_NAME, EXACTLY_ONCE, TXN_APP_ID, TXN_VERSION)

ACKS = Option(
    "kafka.acks",
    Kind.CHOICE,
    "all",
    "Only all: the sink reports rows as written when they are safe.",
    "0 and 1 too",
    choices=("all", "-1"),
)
BATCH_SIZE = Option(
    "kafka.batch.size",
    Kind.INTEGER,
    # Larger than a Kafka producer's 16 KB: rows come by the ten thousand, and none waits for its batch to fill.
    "262144",
    "The bytes of a batch at most, unless one record is larger. 0: a batch for each record.",
    "16384",
    smallest=0,
)
BUFFER_MEMORY = Option(
    "kafka.buffer.memory",
    Kind.INTEGER,
    "33554432",
    "The memory of a task for records that wait for the brokers. No record may be larger.",
)
COMPRESSION_TYPE = Option(
    "kafka.compression.type",
    Kind.CHOICE,
    "none",
    "The codec of batches.",
    choices=("none", "gzip", "snappy", "lz4", "zstd"),
)
DELIVERY_TIMEOUT_MS = Option(
    "kafka.delivery.timeout.ms",
    Kind.INTEGER,
    "120000",
    "How long a record may wait for its acknowledgement, retries included. At least the request timeout, with which the"
    " default grows.",
)
ENABLE_IDEMPOTENCE = Option(
    "kafka.enable.idempotence",
    Kind.BOOLEAN,
    "true",
    "Whether brokers drop batches that are sent twice after a lost answer.",
)
MAX_BLOCK_MS = Option(
    "kafka.max.block.ms",
    Kind.INTEGER,
    "60000",
    "How long a write waits for a topic's metadata, for memory, and for each call of a transaction.",
    smallest=0,
)
MAX_REQUEST_SIZE = Option(
    "kafka.max.request.size",
    Kind.INTEGER,
    "1048576",
    "How large a record may be. The topic's `max.message.bytes` has to allow it too.",
)
SINK_REQUEST_TIMEOUT_MS = Option(
    "kafka.request.timeout.ms", Kind.INTEGER, "30000", "How long a broker may take for one answer."
)
TRANSACTION_TIMEOUT_MS = Option(
    "kafka.transaction.timeout.ms",
    Kind.INTEGER,
    # Until then, a transaction whose driver has died for good keeps readers of committed records waiting.
    "300000",
    "How long one task of a micro-batch may write in a transaction. After a crash, readers of committed records wait as"
    " long at most.",
    "has no transactions",
)

KAFKA_OPTIONS_OF_SINK = (
    BOOTSTRAP_SERVERS,
    BOOTSTRAP_TIMEOUT_MS,
    ACKS,
    BATCH_SIZE,
    BUFFER_MEMORY,
    CLIENT_ID,
    COMPRESSION_TYPE,
    DELIVERY_TIMEOUT_MS,
    ENABLE_IDEMPOTENCE,
    MAX_BLOCK_MS,
    MAX_REQUEST_SIZE,
    SINK_REQUEST_TIMEOUT_MS,
    TRANSACTION_TIMEOUT_MS,
)
