"""The sources of a pipeline: streams and tables, of topics or of Parquet files.

Made while the file is read, used by `plan` and `run` on the driver's main thread; no lock. Spark is imported for types
alone, because a file is read in a third of the time without.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

from barnabas.protocol.errors import ApiError
from barnabas_spark.pipeline.entry import BROKERS, OPTIONS, SCHEMA, TOPIC, Entry, Keys, Part, choice, text
from barnabas_spark.pipeline.formats.table import format_keys, format_of
from barnabas_spark.pipeline.sinks.topic_sink import CONNECTED, TopicSink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.readwriter import DataFrameReader
    from pyspark.sql.streaming.readwriter import DataStreamReader

    from barnabas.clients.admin import Admin

DEAD_LETTERS: Final = "-dead-letters"
"""The end of the name of a query that writes a source's bad records."""

_COLUMNS = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp"
_HEADERS = ", headers array<struct<key:string,value:binary>>"

SOURCE_KEYS: Keys = {
    "read": choice(
        ("stream", "table"),
        "stream (the default): every record, as they come. table: the last record of each key, as the topic stands when"
        " the run begins; for joins.",
    ),
    "watermark": {
        "type": "object",
        "description": "How late rows may be: state that is older is dropped, with its late rows.",
        "additionalProperties": False,
        "properties": {
            "column": text("A timestamp column, such as _timestamp."),
            "delay": text("A duration, such as '10 minutes'."),
        },
        "required": ["column", "delay"],
    },
    "options": OPTIONS,
}
"""The keys that both kinds have."""


class Watermark(NamedTuple):
    """How late rows may be."""

    column: str
    delay: str


class DeadLetters(NamedTuple):
    """The records of a source that cannot be decoded, and where they go. rows: columns of such a topic."""

    sink: TopicSink
    rows: DataFrame


class Source(Part):
    """One input."""

    has_operations = False
    """Whether rows say that others are deleted."""

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry)
        keys = entry.keys
        self.is_table = keys.get("read") == "table"
        watermark = keys.get("watermark")
        self.watermark = None if watermark is None else Watermark(watermark["column"], watermark["delay"])
        if self.is_table:
            entry.refuse("with read: table", ("watermark", "dead_letters", "tombstones"))

    @abstractmethod
    def stream(self, session: SparkSession, starts: str) -> DataFrame:
        """Return the rows of a query. starts: the directory for the offsets that it began at.

        Raises FormatError, OptionError, RegistryFailed, Spark's errors.
        """

    @abstractmethod
    def table(self, session: SparkSession) -> DataFrame:
        """Return the rows as they are at the first micro-batch. Raises as `stream` does."""

    def dead_letters(self, session: SparkSession, starts: Callable[[str], str]) -> DeadLetters | None:
        """Return the records that go to another topic, if any do. starts: the directory for the offsets, by query.

        Raises as `stream` does.
        """
        return None

    def topic_problem(self, admin: Admin, known: set[str]) -> str | None:
        """Return why the topics, as the brokers know them, cannot be read, or None. Raises the client's errors."""
        return None


class TopicSource(Source):
    """Topics."""

    CHOICES, NOUN = ("topic", "pattern"), "topics"
    KEYS: ClassVar[Keys] = {
        "topic": text("A topic, or several, separated by commas."),
        "pattern": text("A regular expression that a part of a topic's name has to match."),
        **format_keys("sources"),
        "key": choice(("binary", "string"), "The type of the column _key. The default is string."),
        "headers": {"type": "boolean", "description": "Whether there is a column _headers."},
        "dead_letters": text(
            "A topic for records that cannot be decoded. Without it, such a record fails the run.", pattern=TOPIC
        ),
        "brokers": BROKERS,
    }

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry)
        keys = entry.keys
        self._entry = entry
        self._dead_letters: str | None = keys.get("dead_letters")
        self.topic: str | None = keys.get("topic")
        self.pattern: str = keys.get("pattern", "")
        self.what = f"topics matching {self.pattern}" if self.topic is None else f"topic {self.topic}"
        self._read = [] if self.topic is None else [topic.strip() for topic in self.topic.split(",")]
        self.topics = self._read if self._dead_letters is None else [*self._read, self._dead_letters]
        self.format = format_of(entry)
        self.has_operations = self.format.has_operations
        key = keys.get("key")
        self.key_is_text = self.format.keys_are_text if key is None else key == "string"
        self.has_headers: bool = keys.get("headers", False)
        self.sets_aside = self._dead_letters is not None
        """Whether bad records are left out. Otherwise they fail the query."""
        self.brokers = entry.brokers()
        self.options = entry.topic_options()

    def stream(self, session: SparkSession, starts: str) -> DataFrame:
        """Return the rows, without bad records if they go to another topic."""
        from barnabas_spark.pipeline.rows import decoded_rows  # noqa: PLC0415 - needs Spark

        return decoded_rows(self._records(session.readStream, starts), self)

    def table(self, session: SparkSession) -> DataFrame:
        """Return the last record of each key."""
        from barnabas_spark.pipeline.rows import decoded_rows, last_of_each_key  # noqa: PLC0415 - needs Spark

        return decoded_rows(last_of_each_key(self._records(session.read)), self).persist()

    def dead_letters(self, session: SparkSession, starts: Callable[[str], str]) -> DeadLetters | None:
        """Return the records that cannot be decoded, if they go to another topic."""
        if self._dead_letters is None:
            return None
        from barnabas_spark.options.connection_security import security_options  # noqa: PLC0415 - reading a file needs none of it
        from barnabas_spark.pipeline.rows import bad_records  # noqa: PLC0415 - needs Spark

        name = f"{self.name}{DEAD_LETTERS}"
        keys = {
            "from": self.name,
            "topic": self._dead_letters,
            "format": "raw",
            "brokers": self.brokers,
            "options": security_options(self.options),
        }
        rows = bad_records(self._records(session.readStream, starts(name)), self)
        return DeadLetters(TopicSink(self._entry.beside(name, keys)), rows)

    def topic_problem(self, admin: Admin, known: set[str]) -> str | None:
        """Return why tombstones of change events cannot be dropped, or None. Raises the client's errors."""
        if not self.has_operations or self.format.tombstones is not None or self.is_table:
            return None
        if self.topic is not None:
            topics = known & {*self._read}
        else:
            topics = {topic for topic in known if re.search(self.pattern, topic)}
        for topic in sorted(topics):
            try:
                policy = admin.describe_topic_configs(topic)["cleanup.policy"].value or ""
            except ApiError as error:
                return f"whether topic {topic!r} is compacted cannot be told ({error}): set 'tombstones'"
            if "compact" in policy:
                return (
                    f"topic {topic!r} is compacted, so a delete event may be gone where its tombstone is still there:"
                    " set 'tombstones: delete', or 'drop' to ignore tombstones all the same"
                )
        return None

    def _records(self, reader: DataFrameReader | DataStreamReader, starts: str | None = None) -> DataFrame:
        """Return the topics' records. starts: of a stream. Raises OptionError, Spark's errors."""
        from barnabas_spark.options.source_options import SourceOptions  # noqa: PLC0415 - reading a file needs none of it

        # Committed records, because pipelines write in transactions: a chain of them stays exactly-once.
        options = {
            **CONNECTED,
            "kafka.bootstrap.servers": self.brokers,
            "kafka.isolation.level": "read_committed",
            **({"subscribePattern": self.pattern} if self.topic is None else {"subscribe": self.topic}),
            **self.options,
            **({} if starts is None else {"startingOffsetsLocation": starts}),
        }
        # Spark itself asks the source when the query starts, because the schema is given here.
        SourceOptions.parse(options, streaming=starts is not None)
        columns = _COLUMNS + (_HEADERS if self.has_headers else "")
        return reader.format("barnabas").options(**options).schema(columns).load()


class FileSource(Source):
    """A directory of Parquet files."""

    CHOICES, NOUN = ("parquet",), "files"
    KEYS: ClassVar[Keys] = {"parquet": text("A directory of Parquet files."), "schema": SCHEMA}

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry)
        self.directory = entry.resolved(entry.keys["parquet"])
        self.what = f"files of {self.directory}"
        self.schema: str | None = entry.keys.get("schema")
        if not self.is_table and self.schema is None:
            entry.note(f"{entry.where} needs 'schema': a stream of files has no other")

    def stream(self, session: SparkSession, starts: str) -> DataFrame:
        """Return the rows of files, old and new. Raises Spark's errors."""
        assert self.schema is not None
        return session.readStream.schema(self.schema).options(**self.options).parquet(self.directory)

    def table(self, session: SparkSession) -> DataFrame:
        """Return the rows of the files. Raises Spark's errors."""
        reader = session.read.options(**self.options)
        return (reader if self.schema is None else reader.schema(self.schema)).parquet(self.directory)
