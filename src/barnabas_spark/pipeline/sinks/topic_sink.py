"""The sink of a topic: by Spark's stream if its query has no other sink, by micro-batches if it has.

Made of an entry, also by `sources` for records that cannot be decoded. Threads: see `sink`; no lock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from barnabas_spark.pipeline.entry import BROKERS, TOPIC, Entry, Keys, choice, text
from barnabas_spark.pipeline.formats.table import format_keys, format_of
from barnabas_spark.pipeline.formats.value_format import WrittenFormat
from barnabas_spark.pipeline.sinks.sink import PlannedSink, QueryPlace, Sink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from barnabas_spark.pipeline.rows import QueryRows

CONNECTED: Final = {"kafka.bootstrap.timeout.ms": "60000"}
"""The option of a pipeline's sources and sinks: a run has reached the brokers before, and waits for their restart."""


class TopicSink(Sink):
    """A topic."""

    CHOICES, NOUN = ("topic",), "topic"
    KEYS: ClassVar[Keys] = {
        "topic": text("The topic to write to.", pattern=TOPIC),
        **format_keys("sinks"),
        "key": text("An SQL expression for the records' keys."),
        "delivery": choice(
            ("exactly-once", "at-least-once"),
            "Topics: exactly-once (the default) writes each micro-batch in one transaction, by one task. at-least-once"
            " writes in parallel, and may repeat rows after a crash.",
        ),
        "brokers": BROKERS,
    }

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry)
        keys = entry.keys
        self.topic: str = keys["topic"]
        self.topics = (self.topic,)
        self.what = f"topic {self.topic}"
        self.key: str | None = keys.get("key")
        if self.key is not None:
            self.columns_line = entry.line("key")
        form = format_of(entry)
        assert isinstance(form, WrittenFormat)
        self.format, coding = form, form.coding
        if coding is not None and coding.is_framed and coding.registry is None and coding.schema_id is None:
            entry.note(f"{entry.where} needs 'registry' at the top, 'schema_id', or 'framing: none'")
        self.is_exactly_once = keys.get("delivery", "exactly-once") == "exactly-once"
        self.brokers = entry.brokers()
        self.options = entry.topic_options()

    def planned(self, rows: QueryRows) -> PlannedSink:
        """Return key and value. Raises FormatError, OptionError, RegistryFailed, Spark's errors."""
        from barnabas_spark.options.sink_options import SinkOptions  # noqa: PLC0415 - reading a file needs none of it
        from barnabas_spark.writing.sink_columns import check_sink_schema  # noqa: PLC0415 - needs Spark

        options = SinkOptions.parse(self._writer_options())
        no_key = "a row that deletes is a tombstone: give the sink a 'key', or rename the column to write it as data"
        deleted = rows.deleted(no_key if self.key is None else None)
        columns = rows.encoded(self.format, self.key, deleted)
        check_sink_schema(rows.select(columns).schema, options)
        written = ["value"] if self.format.is_one_column else None
        return PlannedSink(self, columns, self.write, rows.left_out(written))

    def stream(self, rows: DataFrame) -> DataStreamWriter:
        """Return Spark's writer, whose tasks are sinks in Python."""
        once = {"exactlyOnce": "true"} if self.is_exactly_once else {}
        return self._in_tasks(rows).writeStream.format("barnabas").options(**self._writer_options(), **once)

    def write(self, rows: DataFrame, batch: int, place: QueryPlace) -> None:
        """Write a micro-batch, in one transaction unless the sink is at-least-once. Raises OSError, Spark's errors."""
        once = {"txnAppId": place.writer_id(), "txnVersion": str(batch)} if self.is_exactly_once else {}
        writer = self._in_tasks(rows).write.format("barnabas").mode("append")
        writer.options(**self._writer_options(), **once).save()

    def _in_tasks(self, rows: DataFrame) -> DataFrame:
        """Return the rows in as many tasks as write them: one has the transaction, if there is one."""
        return rows.repartition(1) if self.is_exactly_once else rows

    def _writer_options(self) -> dict[str, str]:
        """Return the options of Spark's writer; those of the file come last, and so count."""
        return {**CONNECTED, "kafka.bootstrap.servers": self.brokers, "topic": self.topic, **self.options}

    def _check_deletes(self, entry: Entry) -> None:
        if "key" not in entry.keys:
            entry.note("a row that deletes is a tombstone, which needs a 'key'", "delete_when")
