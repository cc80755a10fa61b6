"""What goes wrong in a pipeline ends in one message that says where; the next run goes on from the last whole batch.

`barnabas pipeline run` prints these messages and exits with 1 (test_run). Here the runs share one session and a broker.
"""

from __future__ import annotations

import os
import signal
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from barnabas.clients.admin import Admin
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.testing import BrokerProcess, Kill, broker
from barnabas_spark.pipeline.pipeline_error import PipelineError, RunFailed
from tests.spark.committed_records import committed_values
from tests.spark.pipeline.pipeline_in_session import SINK_LINE, PipelineInSession, orders
from tests.support.small_disk import SmallDisk

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

NO_JSON = b'{"id": 3, "amount"'
STEPS = """\
from pyspark.sql import functions as sql


@sql.udf("double")
def doubled(number):
    if number == {wrong}:
        raise ValueError("no such amount")
    return 2 * number


def double(orders):
    return orders.select("id", doubled("amount").alias("double"))
"""
GONE_TIMEOUT_MS = "30000"
"""How long a task waits for a broker or a topic that is gone. All other requests of the run have as long."""


@pytest.fixture(scope="module")
def running() -> Iterator[BrokerProcess]:
    with broker(faults=True) as process:
        yield process


@pytest.fixture
def shop(spark: SparkSession, running: BrokerProcess, tmp_path: Path) -> PipelineInSession:
    run = uuid.uuid4().hex[:8]
    made = PipelineInSession(spark, tmp_path, running.bootstrap_servers, f"orders-{run}", f"priced-{run}")
    made.create(made.source, made.target)
    return made


def failure(shop: PipelineInSession) -> str:
    """Run, and return the one message of the sink's query."""
    with pytest.raises(RunFailed) as caught:
        shop.run()
    said = str(caught.value)
    assert said.startswith(f"{shop.path}:{SINK_LINE}: out failed in micro-batch ")
    assert "Traceback" not in said
    assert len(said.splitlines()) == 1
    return said


def kill_driver_processes(spark: SparkSession) -> int:
    """Kill the Python processes that plan micro-batches beside the session's JVM. Returns how many there were."""
    jvm = spark.sparkContext._gateway.proc.pid
    killed = 0
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == jvm and b"python_streaming_source_runner" in (process / "cmdline").read_bytes():
                os.kill(int(process.name), signal.SIGKILL)
                killed += 1
    return killed


def create_again(shop: PipelineInSession) -> None:
    """Create the source's topic as soon as the broker has deleted the one of that name."""
    while True:
        try:
            shop.create(shop.source)
            return
        except ApiError as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
            time.sleep(0.01)


def delete(shop: PipelineInSession) -> None:
    """Delete the source's topic, and wait until the broker no longer lists it."""
    with Admin(shop.bootstrap_servers) as admin:
        admin.delete_topics([shop.source])
        while shop.source in admin.list_topics():
            time.sleep(0.01)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (NO_JSON, "the value is no JSON: Expecting"),
        pytest.param(b'{"id": "three", "amount": 3}', "id: the text 'three' is no BIGINT", marks=pytest.mark.slow),
        pytest.param(b"\xff\xfe", "the value is not UTF-8: byte 0xff at position 0: FFFE", marks=pytest.mark.slow),
    ],
)
def test_a_record_that_is_no_json_of_the_schema(shop: PipelineInSession, value: bytes, reason: str) -> None:
    shop.produce([*orders(range(13)), value, *orders(range(14, 20))])
    said = failure(shop)
    assert f'micro-batch 1, which reads up to {{"{shop.source}": {{"0": 20}}}}' in said
    assert f"{shop.source}-0, offset 13: {reason}" in said
    assert shop.written() == list(range(10))
    dead_letters = f"{shop.source}-bad"
    shop.create(dead_letters)
    shop.choice += f"\n    dead_letters: {dead_letters}"
    shop.run()
    assert shop.written() == [*range(13), *range(14, 20)]
    assert committed_values(shop.bootstrap_servers, dead_letters, 1) == [value]


@pytest.mark.slow
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize(("count", "batch", "wrong"), [(40, 10, 33), (1_000_001, 300_000, 1_000_000)])
def test_a_transform_that_raises(shop: PipelineInSession, count: int, batch: int, wrong: int) -> None:
    shop.produce(orders(range(count)))
    shop.options["maxOffsetsPerTrigger"] = str(batch)
    (shop.directory / "steps.py").write_text(STEPS.format(wrong=wrong))
    shop.transform = '{python: "steps.py:double", inputs: [orders]}'
    said = failure(shop)
    assert f'micro-batch 3, which reads up to {{"{shop.source}": {{"0": {count}}}}}' in said
    assert f"{shop.directory / 'steps.py'}:7: ValueError: no such amount;" in said
    assert shop.written() == list(range(3 * batch))
    (shop.directory / "steps.py").write_text(STEPS.format(wrong="None"))
    shop.run()
    assert shop.written() == list(range(count))


@pytest.mark.slow
def test_a_start_beyond_the_end_or_after_the_last_record(shop: PipelineInSession) -> None:
    shop.produce(orders(range(5)))
    shop.options = {"startingOffsets": f'{{"{shop.source}": {{"0": 900}}}}'}
    assert f"option 'startingOffsets' gives 900 for {shop.source}-0, which ends at offset 5" in failure(shop)
    shop.options = {"startingTimestamp": "4102444800000"}
    assert f"option 'startingTimestamp': {shop.source}-0, which ends at offset 5, has no record at" in failure(shop)
    shop.options = {"startingOffsets": f'{{"{shop.source}": {{"0": 2}}}}'}
    shop.run()
    assert shop.written() == [2, 3, 4]


@pytest.mark.slow
def test_a_topic_that_vanishes_after_its_micro_batch_is_planned(shop: PipelineInSession) -> None:
    # By its name, a topic that is missing is told before anything starts.
    shop.choice = f"pattern: ^{shop.source}$"
    shop.options["kafka.default.api.timeout.ms"] = GONE_TIMEOUT_MS
    shop.produce([*orders(range(13)), NO_JSON])
    failure(shop)
    delete(shop)
    assert f"partition 0 of topic '{shop.source}', from offset 10 to 14, " in failure(shop)
    create_again(shop)
    shop.produce(orders(range(14)))
    shop.run()
    assert shop.written() == list(range(14))


@pytest.mark.slow
def test_a_broker_that_has_less_than_it_announced(shop: PipelineInSession) -> None:
    shop.options["kafkaConsumer.pollTimeoutMs"] = "1000"
    shop.produce([*orders(range(19)), NO_JSON])
    failure(shop)
    delete(shop)
    create_again(shop)
    shop.produce(orders(range(17)))
    said = failure(shop)
    assert f"no records of {shop.source}-0 from offset 17 on within" in said
    assert "the range ends at 20, the broker's log at 17" in said
    assert shop.written() == list(range(10))
    shop.produce(orders(range(17, 25)))
    shop.run()
    assert shop.written() == list(range(25))


@pytest.mark.slow
@pytest.mark.parametrize(("api", "said"), [("Fetch", "partition 0 of topic '"), ("Produce", "record(s) for ")])
def test_a_broker_that_dies_in_a_micro_batch(
    running: BrokerProcess, shop: PipelineInSession, api: str, said: str
) -> None:
    shop.produce(orders(range(10)))
    shop.run()
    shop.produce(orders(range(10, 20)))
    for name in ("kafka.default.api.timeout.ms", "kafka.request.timeout.ms"):
        shop.options[name] = GONE_TIMEOUT_MS
    for name in ("kafka.max.block.ms", "kafka.delivery.timeout.ms", "kafka.request.timeout.ms"):
        shop.sink_options[name] = GONE_TIMEOUT_MS
    topic = shop.source if api == "Fetch" else shop.target
    with running.faults.add(Kill(), api=api, topic=topic):
        told = failure(shop)
    assert "micro-batch 1, " in told
    assert f"{said}{topic}" in told
    running.start()
    shop.run()
    assert shop.written() == list(range(20))


@pytest.mark.slow
def test_a_checkpoint_of_another_pipeline(shop: PipelineInSession) -> None:
    shop.produce(orders(range(5)))
    shop.run()
    other = f"{shop.source}-other"
    shop.create(other)
    shop.choice = f"topic: {other}"
    said = rf"^{shop.path}:{SINK_LINE}: the checkpoint .*/queries/out belongs to a query from topic {shop.source} to"
    with pytest.raises(PipelineError, match=said):
        shop.run()
    shop.choice = f"topic: {shop.source}"
    shop.produce(orders(range(5, 9)))
    shop.run()
    assert shop.written() == list(range(9))


@pytest.mark.slow
@pytest.mark.parametrize("directory", ["", "queries"])
def test_a_checkpoint_disk_that_fills_up(shop: PipelineInSession, directory: str) -> None:
    """The disk has the pipeline's own files, or only Spark's."""
    path = Path(shop.layout.root) / directory
    disk = SmallDisk(path, 8)
    try:
        shop.trigger = "continuous"
        shop.produce(orders(range(10)))

        def fill() -> bool:
            if shop.layout.next_batch("out") == 1 and not disk.is_filled:
                disk.take_room()
                shop.produce(orders(range(10, 20)))
            return False

        with pytest.raises(RunFailed) as caught:
            shop.run(fill)
        said = str(caught.value)
        assert said.startswith(f"{shop.path}:")
        assert "No space left on device" in said
        assert os.fspath(path) in said
        assert len(said.splitlines()) == 1
        disk.make_room()
        shop.trigger = "available-now"
        shop.run()
        assert shop.written() == list(range(20))
    finally:
        disk.unmount()


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc to find Spark's processes")
def test_a_killed_process_of_the_driver_is_told(spark: SparkSession, shop: PipelineInSession) -> None:
    shop.trigger = "continuous"
    shop.produce(orders(range(20)))
    killed = 0

    def kill_once() -> bool:
        nonlocal killed
        if killed == 0 and shop.layout.next_batch("out"):
            killed = kill_driver_processes(spark)
        return False

    with pytest.raises(RunFailed, match="as it does when a Python process of its driver, which plans or"):
        shop.run(kill_once)
    assert killed
    shop.trigger = "available-now"
    shop.produce(orders(range(20, 30)))
    shop.run()
    assert shop.written() == list(range(30))
