"""Makes the DataFrames of a pipeline, which Spark's analyser checks while they are made.

Made by `run` and by `barnabas pipeline check`, on the driver's main thread; no lock. Nothing is read: no broker has to
be there. Each query gets sources of its own, because each keeps its own first offsets.
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from pyspark import cloudpickle
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from barnabas_spark.options.option_values import OptionError
from barnabas_spark.pipeline.checkpoint_layout import CheckpointLayout, QueryIdentity
from barnabas_spark.pipeline.formats.value_format import OPERATION
from barnabas_spark.pipeline.pipeline_error import FormatError, IcebergError, PipelineError, Problem, RegistryFailed
from barnabas_spark.pipeline.pipeline_file import Pipeline, Transform
from barnabas_spark.pipeline.rows import QueryRows
from barnabas_spark.pipeline.sinks.sink import PlannedSink, Sink
from barnabas_spark.pipeline.sources import Source


class PlannedQuery(NamedTuple):
    """One streaming query. `rows` are those of the transform or source that its sinks name."""

    name: str
    mode: str
    rows: DataFrame
    sinks: tuple[PlannedSink, ...]
    """At least one."""
    identity: QueryIdentity

    @property
    def line(self) -> int:
        """The line of the first sink."""
        return self.sinks[0].sink.line


class PipelinePlan:
    """All queries of a pipeline in one session. Raises PipelineError with the line of the first thing that is wrong."""

    def __init__(self, session: SparkSession, pipeline: Pipeline, layout: CheckpointLayout) -> None:
        self._session = session
        self._pipeline = pipeline
        self._layout = layout
        self._tables: dict[str, DataFrame] = {}
        """The sources that are read as tables, which all queries share."""
        sinks_of: dict[str, list[Sink]] = {}
        for sink in pipeline.sinks:
            sinks_of.setdefault(sink.query, []).append(sink)
        self.queries = [self._query(name, sinks) for name, sinks in sinks_of.items()]
        self.queries += [query for source in pipeline.sources if (query := self._dead_letters(source)) is not None]

    def left_out_in_words(self) -> list[str]:
        """Return a line for each sink that does not write all columns of its rows."""
        return [
            f"sinks.{planned.sink.name} leaves out {', '.join(planned.left_out)} of {planned.sink.reads}:"
            " rename a column to write it"
            for query in self.queries
            for planned in query.sinks
            if planned.left_out
        ]

    def _query(self, name: str, sinks: Sequence[Sink]) -> PlannedQuery:
        """Return the query of these sinks, which read the same and have one mode. Raises PipelineError."""
        frames: dict[str, DataFrame] = {}
        first = sinks[0]
        wanted = self._wanted(first.reads)
        for source in self._pipeline.sources:
            if source.name in wanted:
                frames[source.name] = self._source(source, name)
                frames[source.name].createOrReplaceTempView(source.name)
        for transform in self._pipeline.transforms:
            if transform.name in wanted:
                frames[transform.name] = self._transform(transform, frames)
                frames[transform.name].createOrReplaceTempView(transform.name)
        rows = frames[first.reads]
        if not rows.isStreaming:
            raise self._error(
                first.line, f"sinks.{first.name}: {first.reads} is a table, not a stream: nothing would be new"
            )
        self._check_operations(rows, sinks, wanted)
        planned = tuple(self._sink(sink, rows) for sink in sinks)
        self._check_mode(rows, first)
        reads = tuple(source.what for source in self._pipeline.sources if source.name in wanted and not source.is_table)
        writes = " and ".join(sink.what for sink in sinks)
        names = tuple(sink.name for sink in sinks) if len(sinks) > 1 else ()
        return PlannedQuery(name, first.mode, rows, planned, QueryIdentity(reads, writes, names))

    def _sink(self, sink: Sink, rows: DataFrame) -> PlannedSink:
        """Return what one sink writes of the rows. Raises PipelineError."""
        with self._checked(sink.columns_line, f"sinks.{sink.name}"):
            return sink.planned(QueryRows(rows, sink.reads, sink.delete_when))

    def _dead_letters(self, source: Source) -> PlannedQuery | None:
        """Return the query of a source's bad records, if they go to a topic. Raises PipelineError."""
        with self._checked(source.line, f"sources.{source.name}"):
            found = source.dead_letters(self._session, lambda query: self._layout.start(query, source.name))
        if found is None:
            return None
        sink = found.sink
        planned = PlannedSink(sink, QueryRows(found.rows, sink.reads, None).columns(), sink.write)
        return PlannedQuery(sink.name, sink.mode, found.rows, (planned,), QueryIdentity((source.what,), sink.what))

    def _wanted(self, name: str) -> set[str]:
        """Return the names that a query may need: that one, and all that the texts above it contain as words."""
        wanted = {name}
        for transform in reversed(self._pipeline.transforms):
            if transform.name in wanted:
                wanted |= {*transform.inputs, *re.findall(r"\w+", transform.sql or "")}
                # SQL does not distinguish case.
                lowered = {word.lower() for word in wanted}
                known = [each.name for each in self._pipeline.sources]
                known += [each.name for each in self._pipeline.transforms]
                wanted |= {each for each in known if each.lower() in lowered}
        return wanted

    # -- sources

    def _source(self, source: Source, query: str) -> DataFrame:
        if source.is_table and source.name in self._tables:
            return self._tables[source.name]
        with self._checked(source.line, f"sources.{source.name}"):
            if source.is_table:
                rows = self._tables[source.name] = source.table(self._session)
                return rows
            rows = source.stream(self._session, self._layout.start(query, source.name))
            if source.watermark is not None:
                rows = rows.withWatermark(source.watermark.column, source.watermark.delay)
            return rows

    # -- transforms

    def _transform(self, transform: Transform, frames: dict[str, DataFrame]) -> DataFrame:
        if transform.sql is not None:
            with self._checked_sql(transform):
                return self._session.sql(transform.sql)
        assert transform.function is not None
        assert transform.module_path is not None
        try:
            function = _load_function(transform.module_path, transform.function)
            rows = function(*(frames[name] for name in transform.inputs))
        except _TransformFailed as error:
            raise self._error(transform.line, f"transforms.{transform.name}: {error}") from error
        except Exception as error:
            where = f"{transform.module_path}{_line_of(error, transform.module_path)}"
            told = _told(error) if isinstance(error, PySparkException) else str(error)
            raise self._error(
                transform.line, f"transforms.{transform.name}: {where}: {type(error).__name__}: {told}"
            ) from error
        if not isinstance(rows, DataFrame):
            raise self._error(
                transform.line,
                f"transforms.{transform.name}: {transform.function} returned {type(rows).__name__}, not a DataFrame",
            )
        return rows

    # -- checks

    def _check_operations(self, rows: DataFrame, sinks: Sequence[Sink], wanted: set[str]) -> None:
        """Check that no transform forgets that rows are deleted: they would be written like others.

        Raises PipelineError.
        """
        known = [source for source in self._pipeline.sources if source.name in wanted]
        streams = [source.name for source in known if source.has_operations and not source.is_table]
        if not streams or any(name.lower() == OPERATION for name in rows.columns):
            return
        texts = [_text_of(step) for step in self._pipeline.transforms if step.name in wanted]
        if any(re.search(rf"\b{OPERATION}\b", text, re.IGNORECASE) for text in texts):
            return
        for sink in sinks:
            if sink.keeps_rows and sink.delete_when is None:
                raise self._error(
                    sink.line,
                    f"sinks.{sink.name}: {sink.reads} has no column {OPERATION}, so rows that sources.{streams[0]} says"
                    " are deleted would be written like others: select the column too, or leave such rows out, as by"
                    f" WHERE {OPERATION} <> 'delete'",
                )

    def _check_mode(self, rows: DataFrame, sink: Sink) -> None:
        """Ask Spark whether a stream of these rows can be written in the sink's mode. Raises PipelineError."""
        # Spark itself asks when a query starts, which would be after other queries have begun to write.
        checker = self._session._jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker  # noqa: SLF001
        modes = self._session._jvm.org.apache.spark.sql.streaming.OutputMode  # noqa: SLF001
        mode = {"append": modes.Append, "update": modes.Update, "complete": modes.Complete}[sink.mode]()
        with self._checked(sink.line, f"sinks.{sink.name}"):
            checker.checkForStreaming(rows._jdf.queryExecution().analyzed(), mode)  # noqa: SLF001

    @contextmanager
    def _checked(self, line: int, where: str) -> Iterator[None]:
        """Turn what Spark and the formats reject into errors of the file. Raises PipelineError."""
        try:
            yield
        except (FormatError, IcebergError, OptionError, RegistryFailed) as error:
            raise self._error(line, f"{where}: {error}") from error
        except PySparkException as error:
            raise self._error(line, f"{where}: {_told(error)}") from error

    @contextmanager
    def _checked_sql(self, transform: Transform) -> Iterator[None]:
        """Turn what Spark rejects of an SQL text into errors with the text's own line. Raises PipelineError."""
        try:
            yield
        except (AnalysisException, ParseException) as error:
            line = transform.text_line + _line_in_sql(error, transform.sql or "")
            problem = Problem(line, f"transforms.{transform.name}: {_told(error)}")
            raise PipelineError(transform.text_path, [problem]) from error
        except PySparkException as error:
            raise self._error(transform.line, f"transforms.{transform.name}: {_told(error)}") from error

    def _error(self, line: int, message: str) -> PipelineError:
        return PipelineError(self._pipeline.path, [Problem(line, message)])


def _text_of(step: Transform) -> str:
    """Return the SQL or the Python of a transform. Raises OSError."""
    if step.module_path is None:
        return step.sql or ""
    with open(step.module_path, encoding="utf-8", errors="replace") as file:
        return file.read()


def _told(error: PySparkException) -> str:
    """Return the sentence of one of Spark's errors, without the plan, the traces and the codes around it."""
    text = str(error).strip()
    # A Python source's error comes with its traceback, whose last line is the sentence.
    if "Traceback (most recent call last)" in text:
        lines = [line for line in text.splitlines() if line and not line.startswith((" ", "SQLSTATE"))]
        text = lines[-1]
    text = re.split(r"\n\n|SQLSTATE|;\n", text, maxsplit=1)[0]
    return " ".join(re.sub(r"^\[[A-Z0-9_.]+\] ", "", text).split()).rstrip(" ;")


def _line_in_sql(error: PySparkException, text: str) -> int:
    """Return the line in an SQL text, from 0, that an error is about."""
    match = re.search(r"\bline (\d+),? pos(?:ition)? \d+", str(error))
    if match is not None:
        return int(match[1]) - 1
    context = error.getQueryContext()
    return text.count("\n", 0, context[0].startIndex()) if context else 0


# -- Python transforms

_Transformation = Callable[..., DataFrame]


class _TransformFailed(Exception):
    """A transform's file that cannot be loaded, or its function. The message says why and in which line."""


def _load_function(path: str, name: str) -> _Transformation:
    """Return a function of a file. The file runs once for each call. Raises _TransformFailed.

    The module is pickled by value into the executors, which do not have the file on their path.
    """
    module_name = f"barnabas_pipeline_{os.path.splitext(os.path.basename(path))[0]}"
    specification = importlib.util.spec_from_file_location(module_name, path)
    assert specification is not None, path
    assert specification.loader is not None, path
    module = importlib.util.module_from_spec(specification)
    # Registered by name, as classes of the module need for pickling; by value, as the executors need.
    sys.modules[module_name] = module
    try:
        specification.loader.exec_module(module)
    except Exception as error:
        raise _TransformFailed(f"{path}{_line_of(error, path)}: {type(error).__name__}: {error}") from error
    cloudpickle.register_pickle_by_value(module)
    function: _Transformation | None = getattr(module, name, None)
    if not callable(function):
        raise _TransformFailed(f"{path} has no function {name!r}")
    return function


def _line_of(error: BaseException, path: str) -> str:
    """Return `:LINE` for the innermost place in a file that an error came through, or nothing."""
    if isinstance(error, SyntaxError) and error.filename == path and error.lineno is not None:
        return f":{error.lineno}"
    line = None
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == path:
            line = trace.tb_lineno
        trace = trace.tb_next
    return "" if line is None else f":{line}"
