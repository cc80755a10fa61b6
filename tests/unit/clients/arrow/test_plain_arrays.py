"""Arrow columns over numpy buffers: equal to those of `pa.array`, and made without an import of pandas."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest

from tests.support.requirements import need

np = pytest.importorskip("numpy")
pa = pytest.importorskip("pyarrow")

from barnabas.clients.arrow.gatherer import empty_array, numbers, repeated_number, repeated_text  # noqa: E402

DECODE = """
import sys
from barnabas.clients.arrow import COLUMNS, FetchedBatches, record_batch_of
from barnabas.clients.arrow.record_tables import TableDecoder, rows_before
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.memory_records import any_batches
from barnabas.records.record_batch_builder import RecordBatchBuilder

content = b""
for base_offset, headers in ((0, []), (2, [("h", b"1")])):
    builder = RecordBatchBuilder(base_offset=base_offset)
    builder.append(1_000, b"key", b"a value that is too long for a view", headers)
    builder.append(-1, None, b"", headers)
    content += builder.build()
for records in FetchedBatches(content).decode():
    assert record_batch_of(records, "topic", 0, COLUMNS).num_rows == 4
decoder = TableDecoder(None)
decoded = decoder.decode(TopicPartition("topic", 0), list(any_batches(content)), 0, None)
table = decoder.table(rows_before(rows, 3) for rows in decoded.rows)
print(table.num_rows, "pandas" in sys.modules)
"""


def test_decoding_does_not_import_pandas() -> None:
    """The import takes as much CPU as 200,000 records, and no column needs it."""
    need(importlib.util.find_spec("pandas"), "pandas is not installed")
    done = subprocess.run([sys.executable, "-c", DECODE], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["3", "False"], done.stderr


def test_numbers_equal_those_of_pa_array() -> None:
    values = np.arange(-3, 20, dtype=np.int64)
    missing = values % 3 == 0
    for some, absent in ((values, missing), (values[::2], missing[::2]), (values[:0], missing[:0])):
        made = numbers(some, pa.int64(), absent)
        made.validate(full=True)
        assert made.equals(pa.array(some, mask=absent))
        assert numbers(some, pa.int64()).equals(pa.array(some))


def test_times_keep_their_milliseconds() -> None:
    kind = pa.timestamp("ms", tz="UTC")
    times = np.array([0, 1_700_000_000_123], np.int64)
    assert numbers(times, kind).equals(pa.array(times).view(kind))


@pytest.mark.parametrize("count", [0, 1, 1_000])
def test_a_repeated_value_fills_its_column(count: int) -> None:
    for text in ("", "topic", "Straße"):
        column = repeated_text(text, count)
        column.validate(full=True)
        assert column.equals(pa.array([text] * count, pa.string()))
    assert repeated_number(7, count).equals(pa.array([7] * count, pa.int32()))


def test_an_empty_array_has_its_type() -> None:
    for kind in (pa.string(), pa.binary()):
        made = empty_array(kind)
        made.validate(full=True)
        assert made.equals(pa.array([], kind))
