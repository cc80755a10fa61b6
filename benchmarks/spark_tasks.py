"""What the tasks of a Spark session spent their time on, from the session's own status store.

Used by the Spark benchmarks on their main thread, after the measured work; no state.

A micro-batch is one job here. `job` is its time from submission to completion. The other steps are means over its
tasks: `task` from launch to finish, and inside of it what the executor reports: `run` is the task's own work, with the
Python worker's; `deserialize` and `scheduler delay` are Spark's. (Spark does not tell the Python worker's part of a
source's task: `spark_floor` shows it.)
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean, median
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ALL_TASKS = 1_000_000


class Job(NamedTuple):
    """One job. Times in milliseconds; `steps` are means over its tasks."""

    tasks: int
    duration_ms: float
    steps: Mapping[str, float]


def job_count(spark: SparkSession) -> int:
    """Return the number of jobs so far: what `job_steps` needs to leave them out."""
    return int(_store(spark).jobsList(None).size())


def job_steps(spark: SparkSession, earlier: int) -> dict[str, float]:
    """Return the median of each step, in milliseconds, over the jobs after the first `earlier` ones but one.

    The first job of a query starts Python workers. No steps without jobs.
    """
    # The newest job comes first.
    found = _store(spark).jobsList(None)
    jobs = [_job(spark, found.apply(index)) for index in range(found.size() - earlier - 1)]
    if not jobs:
        return {}
    steps = {"tasks": median(job.tasks for job in jobs), "job": median(job.duration_ms for job in jobs)}
    names = sorted({name for job in jobs for name in job.steps})
    return steps | {name: median(job.steps.get(name, 0.0) for job in jobs) for name in names}


def _store(spark: SparkSession) -> Any:
    return spark.sparkContext._jsc.sc().statusStore()  # noqa: SLF001  Spark's Python has no other way to it


def _job(spark: SparkSession, job: Any) -> Job:
    submitted, completed = job.submissionTime(), job.completionTime()
    duration_ms = completed.get().getTime() - submitted.get().getTime() if completed.isDefined() else 0.0
    stages = job.stageIds()
    tasks = [
        task
        for index in range(stages.size())
        for task in _tasks(_store(spark).taskList(stages.apply(index), 0, _ALL_TASKS))
    ]
    names = sorted({name for task in tasks for name in task})
    return Job(len(tasks), duration_ms, {name: fmean(task.get(name, 0.0) for task in tasks) for name in names})


def _tasks(found: Any) -> list[dict[str, float]]:
    tasks = []
    for index in range(found.size()):
        task = found.apply(index)
        steps = {"task": float(task.duration().get()), "scheduler delay": float(task.schedulerDelay())}
        if task.taskMetrics().isDefined():
            metrics = task.taskMetrics().get()
            steps["deserialize"] = float(metrics.executorDeserializeTime())
            steps["run"] = float(metrics.executorRunTime())
        tasks.append(steps)
    return tasks
