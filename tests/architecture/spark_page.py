"""docs/spark.md: the source's options, made from `barnabas_spark.option_table`."""

from __future__ import annotations

import re

from barnabas.clients.settings.notation import Setting
from barnabas_spark.connection_security import (
    NOT_OFFERED,
    SECURITY_OPTION_NAMES,
    SECURITY_SETTINGS,
    as_option_names,
)
from barnabas_spark.kafka_options import HONOURED_BY_SINK, WITHOUT_EFFECT_ON_SOURCE
from barnabas_spark.option_table import KAFKA_OPTIONS_OF_SOURCE, SOURCE_OPTIONS, Option, Queries

_QUERIES = {Queries.BATCH: "batch", Queries.STREAM: "stream", Queries.BOTH: "both"}

_INTRODUCTION = """\
# The Spark source

`spark.read` and `spark.readStream.format("barnabas")` read topics of Barnabas and of Apache Kafka, without any jar. The
columns, the options and the JSON of offsets are those of Spark's Kafka connector (`format("kafka")`). Made from the
table of options in `barnabas_spark.option_table` by `make docs`.

```python
flights = (
    spark.readStream.format("barnabas")
    .option("kafka.bootstrap.servers", "127.0.0.1:9092")
    .option("subscribe", "flights")
    .load()
)
```

- **Columns**: `key` and `value` (binary), `topic`, `partition`, `offset`, `timestamp`, `timestampType`, and `headers`
  with `includeHeaders`. A schema chooses among them, `.schema("value binary")`: the others are not even decoded, which
  is up to twice as fast. The connector decodes all of them always.
- **Options** are checked by `load()`. An unknown one is an error with the nearest right name. Names do not depend on
  case.
- **A stream** reads partitions that are added while it runs from their first record on. `Trigger.AvailableNow` reads
  what was there at its start.
- **Transactions**: with `kafka.isolation.level` = `read_committed`, records of aborted transactions are left out. Every
  partition ends at its last stable offset, before the first open transaction: "latest" is planned, and timestamps are
  looked up, only up to there. Markers and aborted records leave gaps in the offsets, which are no loss. A stream may
  change the level between two runs: if it has read into a transaction that is open, it waits for the end of it.
- **Filters**: with `pushFilters` = `true` and Spark's setting `spark.sql.python.filterPushdown.enabled`, filters of
  a batch query on `topic`, `partition` and `offset`, and lower bounds of `timestamp`, choose what is fetched. Spark
  applies all filters again. Call `load()` for each query then: Spark keeps the plan with the DataFrame, so that a
  second query of it may get the offsets of the first one's filters. `barnabas_spark.table(..., push_filters=True)`
  sets both.
- **Lost records**: offsets that are gone, topics that were deleted, and ends beyond the end fail the query with one
  message that names partition and offset; with `failOnDataLoss` set to false they are a warning.
- **Lag**: `barnabas_spark.query_lag(query.lastProgress)` gives each partition's. With `commitGroupId` the offsets of
  finished micro-batches are committed to a consumer group, where `barnabas groups` and other tools see them.
- **Any Python**: Spark runs the `python3` and the `java` that are first on the PATH. In an IDE, a notebook or a cron
  job call `barnabas_spark.prepare()` before the session is built: it finds Java 17 or 21 and names this Python. For a
  local session that runs already, `barnabas_spark.register(spark)` makes the format known.
- **SQL**: `CREATE TEMPORARY VIEW flights USING barnabas OPTIONS (subscribe "flights", ...)`. Spark does not pass the
  options of `CREATE TABLE ... USING` on to a Python source, so such a table is refused.
- **Writing** needs `.mode("append")`: without it, Spark refuses every sink in Python before it asks the sink. (The
  connector's sink, a class of Java, needs none.)
- **Exactly-once**: a stream with the option `exactlyOnce`, and a batch write with `txnAppId` and `txnVersion` (Delta
  Lake's names: the query, and a number that grows; for `foreachBatch`), write in transactions. Readers of committed
  records then see every row once, whatever crashes, and none of a micro-batch that failed. A row may be written twice
  without these options. `.repartition(1)` makes a micro-batch one transaction; with several tasks, their number must
  stay the same. `kafka.transaction.timeout.ms` (300000) is the longest time that a micro-batch may be written for.
- **Timeouts** are a Kafka producer's: `kafka.max.block.ms` (60000) for a topic's metadata and each call of a
  transaction, `kafka.delivery.timeout.ms` (120000, at least the request timeout), `kafka.request.timeout.ms` (30000).
- **TLS and SASL**: [below](#tls-and-sasl), for the source, the sink and on every executor.
- **Pipelines** from YAML files, with `barnabas pipeline`: [pipelines.md](pipelines.md).
- **Without the broker**: `format("barnabas-log")` reads topics from log files ([log-source.md](log-source.md)).

## Beside Spark's Kafka connector

More than 200 batch queries, 36 streams and 20 writes are put to the connector and to this source and sink, on the same
topics: every codec, gaps of compaction and retention, transactions, topics that are created again, a partition of
1 GiB, what Apache Kafka has written, all options for offsets and times, and 70 wrong queries. Rows, micro-batches,
tasks and the meaning of errors are equal (`tests/spark/connector`; the connector 4.2.0 on
Spark 4.3), with these differences on purpose:

| | the connector | this source |
|---|---|---|
| a record without headers | `headers` is NULL | an empty array: NULL arrays are ten times slower in Python |
| an unknown option or setting of Kafka | ignored | an error with the nearest right name |
| `assign` names a partition that does not exist, or none | no rows | an error |
| `endingOffsets` beyond the end | fails after `kafkaConsumer.pollTimeoutMs` | fails at once |
| `maxRecordsPerPartition` in a batch query | heeded only beside `minPartitions` | heeded |
| an empty partition | a task without rows, unless `minPartitions` is set | no task |

The connector itself works with this broker, as source and sink, in batches and streams (`tests/spark/connector`). After
each fetch it asks for the first and the last offset of the partition (ListOffsets). Apache Kafka answers only when the
connector's own next fetch is answered, which waits 500 ms at the end of the log; this broker ends that fetch's wait
([decision 0078](decisions/0078-the-next-request-ends-a-fetchs-wait.md)). An answer costs the broker half of what a
fetch costs it. `kafka.max.poll.records` = `10000` asks for fewer.

## What it costs

`python -m benchmarks.spark_source` compares the two. One short run of each part, on two cores that other programs used
as well, so that only CPU seconds (Spark and broker, the query's start included) can be compared:

| | ours | connector | `max.poll.records` 10000 | fully tuned |
|---|---|---|---|---|
| 200,000 rows of 100 bytes from our broker | 1.19 | 1.29 | 0.90 | 0.82 |
| 20,000 rows of 1 KB from our broker | 0.79 | 0.91 | 0.73 | 0.55 |
| 200,000 rows of 100 bytes to our broker | 1.39 | 1.31 | | |
| 200,000 rows of 100 bytes to Apache Kafka | 1.61 | 2.18 | | |
| 20,000 rows of 1 KB to our broker | 1.00 | 0.90 | | |
| 20,000 rows of 1 KB to Apache Kafka | 1.15 | 1.70 | | |

Two changes are younger than this table: workers spend 48 ms less on each task, and a fetch has 4 MiB by default instead
of 1, which takes the worker 0.25 us of CPU a row of 100 bytes instead of 0.37, and the broker half. With the first
change alone, the first line was 0.53, 0.88, 0.69 and 0.49, and the third 0.70 and 0.66 (means of two rounds, a busier
machine).

A micro-batch of four rows in four partitions took 424 ms, the connector's 256, on a busy machine (`addBatch` 235 and
78, Spark's two logs 178 and 166). A task costs its Python worker 4 ms of CPU, if another task ran in it before. (It was
50: Spark collects garbage after each task, among all that the worker has loaded. The worker's first tasks of this
source take that out of the collector's reach.) So few tasks make small micro-batches cheap: few partitions, or a longer
trigger interval.

## On a cluster, and through Spark Connect

The readers and writers run in the executors' Python workers: each executor needs this package with its dependencies
(`crc32c`, `cramjam`, `numpy`, `pandas`, `pyarrow`), under the driver's version of Python. Three ways:

- Install it where the executors' Python is: `pip install "barnabas[spark]"` in the image (Kubernetes) or on the nodes,
  and name that Python: `spark.pyspark.python`.
- Pack a whole environment (`venv-pack`, `conda-pack`) and ship it: `spark.archives=environment.tar.gz#environment` and
  `PYSPARK_PYTHON=./environment/bin/python` (YARN, Kubernetes).
- Only this package is missing there: ship it as an archive, `zip -r barnabas.zip barnabas barnabas_spark
  pyspark_barnabas*.py` in the directory of the packages, and `spark.submit.pyFiles=barnabas.zip` (or `--py-files`). It
  holds for the uncompiled build.

The driver needs the package too, on its Python's path: Spark looks there for `format("barnabas")`. With Spark Connect
the driver is the server.

Executors connect to the addresses that the brokers advertise (`advertised.listeners`), not only to the bootstrap
servers; the driver does too, to plan. `127.0.0.1` works only when all run on one machine.

## Spark Declarative Pipelines

`spark-pipelines` of pyspark 4.1 and newer runs tables, views and sinks that Python files declare. The format `barnabas`
serves as a source of its tables, and as the format of `create_sink`, with nothing to register.
[examples/declarative](../examples/declarative) has a streaming table of a topic's orders, their sums, and the large
ones in another topic:

```bash
pip install 'barnabas[spark]' 'pyspark[pipelines]'
cd examples/declarative
export BARNABAS_BROKERS=127.0.0.1:9092 PYSPARK_PYTHON=$(which python)
spark-pipelines run --conf spark.sql.catalogImplementation=hive
```

- It needs Java 17 or 21 on the PATH, or JAVA_HOME, and a catalog that outlives the run: with Spark's own, which is in
  memory, the second run fails with `LOCATION_ALREADY_EXISTS`. The setting above keeps one in `metastore_db`.
- Each run reads what is there and ends; the next one goes on by the checkpoints below `storage`. A sink of a topic is
  at-least-once there.
- [Pipeline files](pipelines.md) need no catalog, check more before they run, and write bad records aside.

## Options

Column "connector": the option in Spark's Kafka connector, where it differs.
"""
_KAFKA = """\

## Settings of Kafka's clients

| option | type | default | meaning | connector |
|---|---|---|---|---|
"""
_SECURITY = """\

## TLS and SASL

```python
secured = {
    "kafka.bootstrap.servers": "broker.example.com:9093",
    "kafka.security.protocol": "SASL_SSL",
    "kafka.ssl.truststore.location": "/etc/kafka/ca.pem",
    "kafka.sasl.mechanism": "SCRAM-SHA-512",
    "kafka.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required"
    f' username="alice" password="{password}";',
}
flights = spark.readStream.format("barnabas").options(**secured, subscribe="flights").load()
flights.write.format("barnabas").mode("append").options(**secured, topic="copies").save()
```

- The options are those of Spark's connector and [of our clients](clients.md#security). Options of TLS or SASL that
  `kafka.security.protocol` does not use are an error, not ignored.
- **Files** (`...location`) are read by the driver and by every executor, at their first connection: they must be at
  the same path on all machines, or be sent there with `--files`. PEM in the options themselves
  (`kafka.ssl.truststore.certificates`, `kafka.ssl.keystore.key`) needs no file.
- **Secrets** travel with the tasks, as the connector's do: encrypt Spark's own traffic (`spark.network.crypto.enabled`
  or `spark.ssl.*`). No error and no log line of ours has them. Spark hides the values of options in its plans whose
  names or values look like secrets (`spark.redaction.regex`).
- A token for OAUTHBEARER is given as it is; a stream that outlives the token fails when it connects again, and goes on
  from its checkpoint with a new one.

| option | type | default | meaning |
|---|---|---|---|
"""


def spark_page() -> str:
    """Return docs/spark.md."""
    lines = [_INTRODUCTION, "| option | type | default | queries | meaning | connector |", "|---|---|---|---|---|---|"]
    lines += [_row(option, with_queries=True) for option in SOURCE_OPTIONS]
    page = "\n".join(lines) + "\n" + _KAFKA
    page += "\n".join(_row(option, with_queries=False) for option in KAFKA_OPTIONS_OF_SOURCE)
    page += "\n" + _SECURITY
    page += "\n".join(map(_security_row, SECURITY_OPTION_NAMES, SECURITY_SETTINGS))
    not_offered = ", ".join(f"`{name}`" for name in NOT_OFFERED)
    page += f"\n\nRejected, because our clients have no such part: {not_offered}."
    without_effect = ", ".join(f"`{name}`" for name in WITHOUT_EFFECT_ON_SOURCE)
    page += f"\n\nAccepted by the source with one warning, because it does not act on them: {without_effect}."
    obeyed = ", ".join(f"`{name}`" for name in HONOURED_BY_SINK if name not in SECURITY_OPTION_NAMES)
    return (
        f"{page}\n\nThe sink acts on {obeyed} and the security settings, and accepts the others with the warning:"
        " `kafka.linger.ms` too, because Spark hands it all rows of a task at once, and no batch waits for more.\n"
    )


def _security_row(name: str, setting: Setting) -> str:
    kind = " or ".join(filter(None, setting.bound.choices)) or ("boolean" if setting.type == "bool" else "text")
    default = setting.default
    if isinstance(default, tuple):
        default = ",".join(default)
    elif isinstance(default, bool):
        default = str(default).lower()
    # Python's clients have None, and functions that return tokens; options are texts.
    meaning = setting.bound.documentation.replace("None:", "By default")
    meaning = as_option_names(re.sub(r", or a function[^.]*", "", meaning))
    return f"| `{name}` | {kind} | {f'`{default}`' if default else ''} | {meaning} |"


def _row(option: Option, *, with_queries: bool) -> str:
    kind = " or ".join(option.choices) or option.kind.value
    if option.kind.value == "integer":
        kind = f"integer from {option.smallest} on"
    default = "" if option.default is None else f"`{option.default}`"
    cells = [f"`{option.name}`", kind, default, *([_QUERIES[option.queries]] if with_queries else [])]
    connector = "" if option.connector == "same" else option.connector
    return f"| {' | '.join([*cells, option.meaning, connector])} |"
