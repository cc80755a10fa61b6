"""The examples of docs/clients.md and docs/tables.md, run from top to bottom.

A page is one session with one broker: what an example sends, a later one may read.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from barnabas.testing import broker
from tests.support.documented_code import ROOT, python_blocks
from tests.support.server_fixtures import AGAINST_KAFKA

pytest.importorskip("pyarrow")

CLIENTS = ROOT / "docs" / "clients.md"
TABLES = ROOT / "docs" / "tables.md"


@pytest.mark.skipif(AGAINST_KAFKA, reason="the broker of the test kit is ours")
@pytest.mark.parametrize("page", [pytest.param(page, id=page.name) for page in (CLIENTS, TABLES)])
def test_the_examples_run(page: Path) -> None:
    blocks = python_blocks(page)
    assert blocks
    names: dict[str, Any] = {}
    with broker(num_partitions=2, offsets_topic_num_partitions=1) as b:
        for block in blocks:
            block.run(names, b.bootstrap_servers)
