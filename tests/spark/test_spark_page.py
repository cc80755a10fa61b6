"""The examples of docs/spark.md, run from top to bottom in one session with one broker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from barnabas.clients.admin import Admin, NewTopic
from tests.spark.committed_records import committed_records
from tests.support.documented_code import ROOT, python_blocks

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

NEEDS_A_SECURED_BROKER = "TLS and SASL"  # see test_secured_brokers


def test_the_examples_run(
    spark: SparkSession, bootstrap_servers: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with Admin(bootstrap_servers) as admin:
        admin.create_topics([NewTopic("flights", 1, 1), NewTopic("late-flights", 1, 1)])
    blocks = [each for each in python_blocks(ROOT / "docs" / "spark.md") if each.section != NEEDS_A_SECURED_BROKER]
    assert len(blocks) > 3
    names: dict[str, Any] = {}
    for block in blocks:
        code = block.code.replace("/var/lib/checkpoints", str(tmp_path))
        block._replace(code=code).run(names, bootstrap_servers)
    assert names["spark"] is spark
    (late,) = committed_records(bootstrap_servers, "late-flights", 1)
    assert (late.key, late.value) == (b"AA", b'{"delay": 90}')
    assert '|{"delay": 90}' in capfd.readouterr().out.replace("  ", "")
