"""The options of the source and the sink: names, types, defaults, checks and meaning, which docs/spark.md shows too.

Read by the other modules of this package and the generator of docs/spark.md, on any thread; constants only, no lock.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Kind(Enum):
    """The type of an option's value. The text stands in docs/spark.md."""

    ASSIGNMENT = 'JSON such as `{"topic": [0, 1]}`'
    BOOLEAN = "boolean"
    CHOICE = "word"
    DURATION = "duration"
    INTEGER = "integer"
    OFFSETS = 'word, or JSON such as `{"topic": {"0": 23, "1": -2}}`'
    TEXT = "text"
    TIMESTAMP = "milliseconds since 1970"
    TIMESTAMPS = 'JSON such as `{"topic": {"0": 1700000000000}}`'


class Queries(Enum):
    """The queries in which an option has an effect."""

    BATCH = "batch"
    STREAM = "stream"
    BOTH = "both"


class Option(NamedTuple):
    """One option. `default` is the text that would have the same effect, or None where there is no such text."""

    name: str
    kind: Kind
    default: str | None
    meaning: str
    connector: str = "same"
    """The option in Spark's Kafka connector, in words."""
    queries: Queries = Queries.BOTH
    smallest: int = 1
    choices: tuple[str, ...] = ()


ASSIGN = Option("assign", Kind.ASSIGNMENT, None, "The partitions to read.")
SUBSCRIBE = Option("subscribe", Kind.TEXT, None, "The topics to read, separated by commas.")
SUBSCRIBE_PATTERN = Option(
    "subscribePattern",
    Kind.TEXT,
    None,
    "A regular expression that a part of a topic's name has to match; internal topics never do.",
    "Java's expressions; ours are Python's",
)
STRATEGIES = (SUBSCRIBE, SUBSCRIBE_PATTERN, ASSIGN)

STARTING_TIMESTAMP = Option(
    "startingTimestamp",
    Kind.TIMESTAMP,
    None,
    "Start each partition at its first record that is as young. Precedes the two options below.",
    smallest=0,
)
STARTING_OFFSETS_BY_TIMESTAMP = Option(
    "startingOffsetsByTimestamp",
    Kind.TIMESTAMPS,
    None,
    "The same, with a time for each partition. Precedes startingOffsets.",
)
STARTING_OFFSETS_BY_TIMESTAMP_STRATEGY = Option(
    "startingOffsetsByTimestampStrategy",
    Kind.CHOICE,
    "error",
    "What to do about a partition without a record that is as young: fail, or start at its end.",
    choices=("error", "latest"),
)
STARTING_OFFSETS = Option(
    "startingOffsets",
    Kind.OFFSETS,
    None,
    "Where to start: earliest, latest (streams only), or an offset for each partition, where -2 is the earliest and -1"
    " the latest. By default latest in a stream, earliest in a batch query. A stream with a checkpoint ignores it.",
)
ENDING_TIMESTAMP = Option(
    "endingTimestamp",
    Kind.TIMESTAMP,
    None,
    "End each partition before its first record that is as young, or at its end. Precedes the two options below.",
    "ignored in a stream; here an error",
    Queries.BATCH,
    smallest=0,
)
ENDING_OFFSETS_BY_TIMESTAMP = Option(
    "endingOffsetsByTimestamp",
    Kind.TIMESTAMPS,
    None,
    "The same, with a time for each partition. Precedes endingOffsets.",
    queries=Queries.BATCH,
)
ENDING_OFFSETS = Option(
    "endingOffsets",
    Kind.OFFSETS,
    "latest",
    "Where to end: latest, or an offset for each partition, where -1 is the latest.",
    "waits two minutes for an offset beyond the end; here an error at once",
    Queries.BATCH,
)
STARTING_OFFSETS_LOCATION = Option(
    "startingOffsetsLocation",
    Kind.TEXT,
    None,
    "A directory in which a new stream keeps its first offsets until its first micro-batch is planned; the checkpoint"
    " has them from then on. Remove it together with the checkpoint.",
    "keeps them in the checkpoint at once",
    Queries.STREAM,
)

FAIL_ON_DATA_LOSS = Option(
    "failOnDataLoss", Kind.BOOLEAN, "true", "Whether records that are gone before they were read fail the query."
)
INCLUDE_HEADERS = Option(
    "includeHeaders",
    Kind.BOOLEAN,
    None,
    "Add the column `headers`. Not added by default, unless the schema given to the reader has the column.",
    "false",
)
MAX_OFFSETS_PER_TRIGGER = Option(
    "maxOffsetsPerTrigger",
    Kind.INTEGER,
    None,
    "The offsets that one micro-batch reads at most, divided among the partitions by what they have.",
    queries=Queries.STREAM,
)
MIN_OFFSETS_PER_TRIGGER = Option(
    "minOffsetsPerTrigger",
    Kind.INTEGER,
    None,
    "The offsets that have to wait before a micro-batch begins.",
    queries=Queries.STREAM,
)
MAX_TRIGGER_DELAY = Option(
    "maxTriggerDelay",
    Kind.DURATION,
    "15m",
    "The longest wait for minOffsetsPerTrigger: a number with us, ms, s, m, min, h or d; milliseconds without.",
    queries=Queries.STREAM,
)
MIN_PARTITIONS = Option(
    "minPartitions", Kind.INTEGER, None, "The tasks to have at least: large ranges of offsets are divided."
)
MAX_RECORDS_PER_PARTITION = Option(
    "maxRecordsPerPartition",
    Kind.INTEGER,
    None,
    "The offsets that one task reads at most.",
    "in a batch query heeded only beside minPartitions",
)
MIN_RECORDS_PER_PARTITION = Option(
    "minRecordsPerPartition",
    Kind.INTEGER,
    None,
    "The offsets that one task reads at least, if there are as many: short ranges of several partitions share a task,"
    " which reads one after the other. Makes small micro-batches of many partitions cheap. minPartitions and"
    " maxRecordsPerPartition still hold.",
    "has none",
)
PUSH_FILTERS = Option(
    "pushFilters",
    Kind.BOOLEAN,
    "false",
    "Whether filters on topic, partition, offset and timestamp choose what is read. Only the first query of the"
    " DataFrame is answered rightly then: see above.",
    "has none",
    Queries.BATCH,
)
COMMIT_GROUP_ID = Option(
    "commitGroupId",
    Kind.TEXT,
    None,
    "A consumer group to which the offsets of finished micro-batches are committed, for tools that show lag. It must"
    " have no members. The checkpoint alone decides where the query goes on.",
    "has none",
    Queries.STREAM,
)
GROUP_ID_PREFIX = Option(
    "groupIdPrefix",
    Kind.TEXT,
    "spark-kafka-source",
    "Accepted without effect: the source reads without a consumer group.",
    "the start of its groups' ids",
)
FETCH_OFFSET_NUM_RETRIES = Option(
    "fetchOffset.numRetries", Kind.INTEGER, "3", "How often the driver asks for offsets before it fails.", smallest=1
)
FETCH_OFFSET_RETRY_INTERVAL_MS = Option(
    "fetchOffset.retryIntervalMs",
    Kind.INTEGER,
    "1000",
    "The wait between two attempts, in milliseconds.",
    "same (Spark's guide says 10, its code has 1000)",
    smallest=0,
)
POLL_TIMEOUT_MS = Option(
    "kafkaConsumer.pollTimeoutMs",
    Kind.INTEGER,
    "120000",
    "How long a task waits for records that the broker has announced, in milliseconds.",
    "`spark.network.timeout`, 120000 too",
)

SOURCE_OPTIONS = (
    *STRATEGIES,
    STARTING_TIMESTAMP,
    STARTING_OFFSETS_BY_TIMESTAMP,
    STARTING_OFFSETS_BY_TIMESTAMP_STRATEGY,
    STARTING_OFFSETS,
    STARTING_OFFSETS_LOCATION,
    ENDING_TIMESTAMP,
    ENDING_OFFSETS_BY_TIMESTAMP,
    ENDING_OFFSETS,
    FAIL_ON_DATA_LOSS,
    INCLUDE_HEADERS,
    MAX_OFFSETS_PER_TRIGGER,
    MIN_OFFSETS_PER_TRIGGER,
    MAX_TRIGGER_DELAY,
    MIN_PARTITIONS,
    MAX_RECORDS_PER_PARTITION,
    MIN_RECORDS_PER_PARTITION,
    PUSH_FILTERS,
    COMMIT_GROUP_ID,
    GROUP_ID_PREFIX,
    FETCH_OFFSET_NUM_RETRIES,
    FETCH_OFFSET_RETRY_INTERVAL_MS,
    POLL_TIMEOUT_MS,
)

BOOTSTRAP_SERVERS = Option(
    "kafka.bootstrap.servers", Kind.TEXT, None, "Addresses of brokers, host:port, separated by commas. Required."
)
BOOTSTRAP_TIMEOUT_MS = Option(
    "kafka.bootstrap.timeout.ms",
    Kind.INTEGER,
    "5000",
    "How long no broker may be reachable before a query fails that has reached none yet. Not a setting of Kafka's."
    " Pipelines set 60000, since they look for the brokers before their queries start.",
    "tries for `default.api.timeout.ms`, or `max.block.ms`",
)
CHECK_CRCS = Option(
    "kafka.check.crcs", Kind.BOOLEAN, "true", "Whether the checksum of every batch of records is checked."
)
CLIENT_ID = Option(
    "kafka.client.id",
    Kind.TEXT,
    "barnabas-spark",
    "The clients' name in the broker's logs, metrics and quotas.",
    "an id for each consumer",
)
DEFAULT_API_TIMEOUT_MS = Option(
    "kafka.default.api.timeout.ms",
    Kind.INTEGER,
    "60000",
    "How long a question to the brokers may take, retries included.",
)
FETCH_MAX_WAIT_MS = Option(
    "kafka.fetch.max.wait.ms",
    Kind.INTEGER,
    "500",
    "How long a broker may wait for records before it answers.",
    smallest=0,
)
ISOLATION_LEVEL = Option(
    "kafka.isolation.level",
    Kind.CHOICE,
    "read_uncommitted",
    "Whether records of transactions that were aborted or are open are read too. With read_committed, latest is the"
    " last stable offset: a query ends before the first open transaction.",
    choices=("read_uncommitted", "read_committed"),
)
MAX_PARTITION_FETCH_BYTES = Option(
    "kafka.max.partition.fetch.bytes",
    Kind.INTEGER,
    # A fetch becomes an Arrow batch. At a quarter of this size a record costs a third to a half more CPU.
    "4194304",
    "The size of one fetch; a larger batch comes whole.",
    connector="1048576",
)
REQUEST_TIMEOUT_MS = Option(
    "kafka.request.timeout.ms",
    Kind.INTEGER,
    "30000",
    "How long a broker may take for one answer.",
)

KAFKA_OPTIONS_OF_SOURCE = (
    BOOTSTRAP_SERVERS,
    BOOTSTRAP_TIMEOUT_MS,
    CHECK_CRCS,
    CLIENT_ID,
    DEFAULT_API_TIMEOUT_MS,
    FETCH_MAX_WAIT_MS,
    ISOLATION_LEVEL,
    MAX_PARTITION_FETCH_BYTES,
    REQUEST_TIMEOUT_MS,
)


TOPIC = Option(
    "topic", Kind.TEXT, None, "The topic of all rows. Without it, each row's column `topic` names its topic."
)
SINK_INCLUDE_HEADERS = Option(
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

SINK_OPTIONS = (TOPIC, SINK_INCLUDE_HEADERS, CHECKPOINT_LOCATION, QUERY_NAME, EXACTLY_ONCE, TXN_APP_ID, TXN_VERSION)

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
