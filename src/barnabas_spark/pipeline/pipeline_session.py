"""Makes the Spark session of one run of a pipeline.

Called by `run`, and by the demo, on the main thread; no lock.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from barnabas_spark.pipeline.checkpoint_layout import CheckpointLayout
from barnabas_spark.pipeline.pipeline_error import RunFailed
from barnabas_spark.pipeline.pipeline_file import Pipeline
from barnabas_spark.session import QUICK_START, ended_jvm, local_session

_TASK_ATTEMPTS = 4
"""Spark's own number on clusters. A Python worker that is killed then costs its task, and not the run."""


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
