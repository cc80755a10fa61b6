"""Runs a pipeline: checks it, starts its queries, shows their progress, ends with all or with the first error.

Called by `barnabas pipeline` on the main thread, which Ctrl-C interrupts. Spark's session belongs to the run and is
stopped here, whatever happens. No lock but the pipeline's own, in the file system.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeAlias

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from barnabas.clients.admin import Admin
from barnabas.clients.authentication_errors import AuthenticationError
from barnabas.clients.errors import ClientTimeout, Disconnected
from barnabas.clients.settings.client_config import ClientConfig
from barnabas.clients.settings.security_config import ClientSecurityConfig
from barnabas.config.config_error import ConfigError
from barnabas.protocol.errors import ApiError
from barnabas_spark.options.connection_security import connection_security
from barnabas_spark.options.option_values import OptionError, OptionValues
from barnabas_spark.pipeline.checkpoint_layout import CheckpointLayout, run_lock, write_status
from barnabas_spark.pipeline.entry import Part
from barnabas_spark.pipeline.pipeline_error import IcebergError, PipelineError, Problem, RunFailed
from barnabas_spark.pipeline.pipeline_file import Pipeline
from barnabas_spark.pipeline.plan import PipelinePlan, PlannedQuery
from barnabas_spark.pipeline.streaming_query import QueryProgress, Restarts, failure_of, start_query, started_query
from barnabas_spark.session import QUICK_START, ended_jvm, local_session

_TASK_ATTEMPTS = 4
"""Spark's own number on clusters. A Python worker that is killed then costs its task, and not the run."""
_POLL_SECONDS = 0.25
_STATUS_SECONDS = 1.0
_LAST_BATCH_SECONDS = 10.0
"""How long a run that is stopped waits for the micro-batches that are under way."""
_BROKER_TIMEOUT_MS = 15_000
_BOOTSTRAP_TIMEOUT_MS = 5_000
"""How long no broker may be reachable when a pipeline starts."""


SessionMaker: TypeAlias = Callable[[Pipeline, CheckpointLayout], AbstractContextManager[SparkSession]]
"""Yields the session of one run. Raises JavaNotFound, OSError."""


class RunWatcher(Protocol):
    """A display of a run: `run_display.RunDisplay`, or the demo's."""

    def live(self) -> AbstractContextManager[None]:
        """Show the run while the context is open."""

    def update(self, queries: Sequence[QueryProgress], *, is_last: bool = False) -> None:
        """Show what the queries have done."""

    def show_rows(self, sink: str, batch: int, rows: DataFrame, limit: int) -> None:
        """Show the first rows of a micro-batch, on Spark's thread for micro-batches."""


class RunningQuery(NamedTuple):
    """A query with Spark's handle of it. start: starts it, from where its last micro-batch has ended."""

    planned: PlannedQuery
    handle: StreamingQuery
    progress: QueryProgress
    start: Callable[[], StreamingQuery]
    restarts: Restarts


class BrokerConnection(NamedTuple):
    """The brokers of a source or a sink, and the security of the connections to them."""

    brokers: str
    security: ClientSecurityConfig


def check_with_spark(pipeline: Pipeline) -> list[str]:
    """Let Spark's analyser check all queries, without a broker, and return what their sinks leave out, as lines.

    Raises PipelineError, JavaNotFound.
    """
    layout = CheckpointLayout(pipeline.checkpoints)
    with _own_session(pipeline, layout) as session:
        plan = PipelinePlan(session, pipeline, layout)
        _claimable(pipeline, plan, layout)
        return plan.left_out_in_words()


def plan_in_words(pipeline: Pipeline) -> list[str]:
    """Return what a run would do, after all checks, those of brokers and topics among them.

    Raises PipelineError, RunFailed, JavaNotFound, OSError.
    """
    layout = CheckpointLayout(pipeline.checkpoints)
    _reach_brokers(pipeline)
    with _own_session(pipeline, layout) as session:
        plan = PipelinePlan(session, pipeline, layout)
        _claimable(pipeline, plan, layout)
        _check_topics(pipeline)
        _prepare_sinks(pipeline, plan, create=False)
        lines = []
        for query in plan.queries:
            batch = layout.next_batch(query.name)
            begins = "is new" if batch is None else f"goes on with micro-batch {batch}"
            reads = ", ".join(query.identity.reads)
            lines.append(f"{query.name}: {reads} -> {query.identity.writes}; {begins} ({layout.query(query.name)})")
        return lines + plan.left_out_in_words()


def run_pipeline(
    pipeline: Pipeline,
    display: RunWatcher,
    is_stopping: Callable[[], bool],
    session_of: SessionMaker | None = None,
) -> None:
    """Run until all is read, until `is_stopping`, or until a query fails.

    session_of: makes the session; by default one of the run's own, with the settings of the file.
    Raises PipelineError for a file that is wrong, RunFailed, JavaNotFound.
    """
    layout = CheckpointLayout(pipeline.checkpoints)
    with _disk_errors(pipeline, layout), run_lock(layout):
        running: list[RunningQuery] = []
        _note(layout, pipeline, "starting", running)
        try:
            _reach_brokers(pipeline)
            with (session_of or _own_session)(pipeline, layout) as session:
                plan = PipelinePlan(session, pipeline, layout)
                _claimable(pipeline, plan, layout)
                _check_topics(pipeline)
                _prepare_sinks(pipeline, plan, create=True)
                try:
                    _run(pipeline, plan, layout, running, display, is_stopping)
                finally:
                    # After an error of one query the others still run; their next run repeats what they were at.
                    for each in running:
                        with suppress(PySparkException, Py4JError):
                            each.handle.stop()
        except BaseException as error:
            told = "interrupted" if isinstance(error, KeyboardInterrupt) else str(error) or type(error).__name__
            # On a full disk the caller still has to get the first error. `status` says "crashed" then.
            with suppress(OSError):
                _note(layout, pipeline, "failed", running, told)
            raise
        _note(layout, pipeline, "stopped" if is_stopping() else "finished", running)


@contextmanager
def _disk_errors(pipeline: Pipeline, layout: CheckpointLayout) -> Iterator[None]:
    """Turn an error of the checkpoint's disk into one sentence. Raises RunFailed."""
    try:
        yield
    except ConnectionError:
        # The JVM has ended: no matter of the disk.
        raise
    except OSError as error:
        raise RunFailed(
            f"{pipeline.path}: the checkpoint {error.filename or layout.root} cannot be used:"
            f" {error.strerror or error}; the next run goes on from the last whole micro-batch"
        ) from error


def _run(
    pipeline: Pipeline,
    plan: PipelinePlan,
    layout: CheckpointLayout,
    running: list[RunningQuery],
    display: RunWatcher,
    is_stopping: Callable[[], bool],
) -> None:
    """Start the queries and follow them. Raises RunFailed, PipelineError."""
    noted_at = 0.0
    with display.live():
        for query in plan.queries:
            if is_stopping():
                break
            layout.claim(query.name, query.identity)
            start = partial(start_query, query, pipeline.trigger, layout.query(query.name), display.show_rows)
            handle = started_query(start, is_stopping)
            progress = QueryProgress(query.name, query.identity.writes)
            running.append(RunningQuery(query, handle, progress, start, Restarts()))
            # The next one may take a while, and a mistake should not wait for it.
            _start_again(running, is_stopping)
            _raise_failure(pipeline, running, layout)
        while not is_stopping():
            active = [each.handle.isActive for each in running]
            for each in running:
                each.progress.update(each.handle)
            display.update([each.progress for each in running])
            if time.monotonic() - noted_at >= _STATUS_SECONDS:
                noted_at = time.monotonic()
                _note(layout, pipeline, "running", running)
            has_restarted = _start_again(running, is_stopping)
            _raise_failure(pipeline, running, layout)
            if not has_restarted and not any(active):
                break
            time.sleep(_POLL_SECONDS)
        _stop(running)
        for each in running:
            each.progress.update(each.handle)
        display.update([each.progress for each in running], is_last=True)


def _start_again(running: list[RunningQuery], is_stopping: Callable[[], bool]) -> bool:
    """Start the queries again that Spark gave too little time; return whether there were any. Raises Spark's errors."""
    found = False
    for index, each in enumerate(running):
        if not is_stopping() and each.restarts.may_start_again(each.handle, each.progress.last_batch):
            running[index] = each._replace(handle=started_query(each.start, is_stopping))
            found = True
    return found


def _raise_failure(pipeline: Pipeline, running: list[RunningQuery], layout: CheckpointLayout) -> None:
    """Raise the error of a query that has failed. Raises RunFailed."""
    for each in running:
        if each.handle.isActive:
            continue
        error = each.handle.exception()
        if error is not None:
            name = each.planned.name
            modules = [step.module_path for step in pipeline.transforms if step.module_path is not None]
            raise RunFailed(
                f"{pipeline.path}:{each.planned.line}: {name} {failure_of(name, str(error), layout, modules)}"
                f" (Spark's log: {layout.spark}/spark.log)"
            )


def _stop(running: list[RunningQuery]) -> None:
    """Stop the queries that still run, between two micro-batches if they come to an end soon."""
    deadline = time.monotonic() + _LAST_BATCH_SECONDS
    for each in running:
        while each.handle.isActive and each.handle.status["isTriggerActive"] and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
        each.handle.stop()


def _claimable(pipeline: Pipeline, plan: PipelinePlan, layout: CheckpointLayout) -> None:
    """Check that the checkpoints, and the directories of files, belong to these queries. Raises PipelineError."""
    found = [(query.line, layout.foreign(query.name, query.identity)) for query in plan.queries]
    found += [(sink.line, sink.place_problem(pipeline.sinks)) for sink in pipeline.sinks]
    problems = [Problem(line, problem) for line, problem in found if problem is not None]
    if problems:
        raise PipelineError(pipeline.path, problems)


def _reach_brokers(pipeline: Pipeline) -> None:
    """Check that brokers answer, before Spark starts, which takes longer. Raises RunFailed."""
    try:
        wanted = _wanted_topics(pipeline)
    except OptionError:
        # The plan names it with its line.
        return
    for brokers, security in wanted:
        with _admin_at(pipeline, brokers, security) as admin:
            admin.list_topics()


def _check_topics(pipeline: Pipeline) -> None:
    """Check that all topics exist, and may lose no delete event. Raises OptionError, PipelineError, RunFailed."""
    problems = []
    for (brokers, security), topics_of in _wanted_topics(pipeline).items():
        with _admin_at(pipeline, brokers, security) as admin:
            known = set(admin.list_topics(include_internal=True))
            found = [
                (source, source.topic_problem(admin, known))
                for source in pipeline.sources
                if source.brokers and _connection(source) == (brokers, security)
            ]
        problems += [
            Problem(line, f"there is no topic {topic!r} at {brokers}: create it (barnabas topics create {topic})")
            for line, topic in topics_of
            if topic not in known
        ]
        problems += [
            Problem(source.line, f"sources.{source.name}: {problem}")
            for source, problem in found
            if problem is not None
        ]
    if problems:
        raise PipelineError(pipeline.path, problems)


def _wanted_topics(pipeline: Pipeline) -> dict[BrokerConnection, list[tuple[int, str]]]:
    """Return the topics of the file, each with its line, by how their brokers are reached. Raises OptionError."""
    wanted: dict[BrokerConnection, list[tuple[int, str]]] = {}
    for part in (*pipeline.sources, *pipeline.sinks):
        if part.brokers:
            wanted.setdefault(_connection(part), []).extend((part.line, topic) for topic in part.topics)
    return wanted


@contextmanager
def _admin_at(pipeline: Pipeline, brokers: str, security: ClientSecurityConfig) -> Iterator[Admin]:
    """Yield a client of these brokers. Raises RunFailed in place of the client's errors."""
    try:
        config = ClientConfig(bootstrap_timeout_ms=_BOOTSTRAP_TIMEOUT_MS, **security.security_settings())
        with Admin(brokers, timeout_ms=_BROKER_TIMEOUT_MS, config=config) as admin:
            yield admin
    except (ApiError, ClientTimeout, Disconnected) as error:
        raise RunFailed(f"{pipeline.path}: the brokers {brokers} do not answer: {error}") from error
    except (AuthenticationError, ConfigError) as error:
        raise RunFailed(f"{pipeline.path}: the brokers {brokers} cannot be used: {error}") from error


def _prepare_sinks(pipeline: Pipeline, plan: PipelinePlan, *, create: bool) -> None:
    """Check that what is written fits the rows, and make what is missing if `create`. Raises PipelineError."""
    problems = []
    for query in plan.queries:
        for planned in query.sinks:
            if planned.prepare is not None:
                try:
                    planned.prepare(create)
                except IcebergError as error:
                    problems.append(Problem(planned.sink.line, f"sinks.{planned.sink.name}: {error}"))
    if problems:
        raise PipelineError(pipeline.path, problems)


def _connection(part: Part) -> BrokerConnection:
    """Return how a source or a sink of topics reaches its brokers. Raises OptionError."""
    return BrokerConnection(part.brokers, connection_security(OptionValues(part.options)))


def _note(
    layout: CheckpointLayout, pipeline: Pipeline, state: str, running: list[RunningQuery], error: str | None = None
) -> None:
    status: dict[str, Any] = {
        "pipeline": pipeline.name,
        "state": state,
        "queries": [each.progress.as_json() for each in running],
    }
    write_status(layout, status if error is None else {**status, "error": error})


def _own_session(pipeline: Pipeline, layout: CheckpointLayout) -> AbstractContextManager[SparkSession]:
    return pipeline_session(pipeline, layout, is_short=pipeline.ends_by_itself)


@contextmanager
def pipeline_session(pipeline: Pipeline, layout: CheckpointLayout, *, is_short: bool) -> Iterator[SparkSession]:
    """Yield the pipeline's session, and stop it. Raises JavaNotFound, RunFailed: Spark's JVM has ended.

    is_short: whether the run ends soon, and so ends sooner without the optimizing compiler.
    """
    spark = pipeline.spark
    with local_session(
        f"barnabas-pipeline-{pipeline.name}",
        layout.spark,
        cores=spark.cores,
        task_attempts=_TASK_ATTEMPTS,
        driver_memory=spark.memory,
        java_options=QUICK_START if is_short else (),
        settings=spark.settings,
    ) as session:
        try:
            yield session
        except (Py4JError, ConnectionError) as error:
            status = ended_jvm()
            if status is None:
                raise
            how = f"by signal {-status}" if status < 0 else f"with status {status}"
            raise RunFailed(
                f"{pipeline.path}: Spark's JVM was ended {how} (the machine may lack memory); run the pipeline again:"
                f" it goes on where it was (Spark's log: {layout.spark}/spark.log)"
            ) from error
