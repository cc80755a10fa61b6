"""Kafka records as Arrow tables: whole batches decoded and encoded without a Python step per field.

Users import from here. This package needs pyarrow and numpy, which the broker never imports. Loaded lazily, because a
process of Spark's, which is over after a second, reads or writes and does not both.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

try:
    import numpy as np  # noqa: F401
    import pyarrow as pa  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"tables need pyarrow and numpy, and {error.name} is missing: pip install 'barnabas[arrow]'", name=error.name
    ) from None

if TYPE_CHECKING:
    from barnabas.clients.arrow.decoder import RecordArrays, Wanted
    from barnabas.clients.arrow.encoder import BatchFormat, RecordColumns, encode_batches
    from barnabas.clients.arrow.fetched_batches import (
        COLUMNS,
        RECORD_SCHEMA,
        FetchedBatches,
        decode_batches,
        record_batch_of,
    )
    from barnabas.clients.arrow.gatherer import empty_headers
    from barnabas.clients.arrow.record_tables import TABLE_SCHEMA
    from barnabas.clients.arrow.table_delivery import DeliveredBatch, TableMetadata, TableNotDelivered
    from barnabas.records.record_batch import EncodedBatch

__all__ = [
    "COLUMNS",
    "RECORD_SCHEMA",
    "TABLE_SCHEMA",
    "BatchFormat",
    "DeliveredBatch",
    "EncodedBatch",
    "FetchedBatches",
    "RecordArrays",
    "RecordColumns",
    "TableMetadata",
    "TableNotDelivered",
    "Wanted",
    "decode_batches",
    "empty_headers",
    "encode_batches",
    "record_batch_of",
]

_MODULES = {
    "barnabas.clients.arrow.decoder": ("RecordArrays", "Wanted"),
    "barnabas.clients.arrow.encoder": ("BatchFormat", "RecordColumns", "encode_batches"),
    "barnabas.clients.arrow.fetched_batches": (
        "COLUMNS", "RECORD_SCHEMA", "FetchedBatches", "decode_batches", "record_batch_of",
    ),
    "barnabas.clients.arrow.gatherer": ("empty_headers",),
    "barnabas.clients.arrow.record_tables": ("TABLE_SCHEMA",),
    "barnabas.clients.arrow.table_delivery": ("DeliveredBatch", "TableMetadata", "TableNotDelivered"),
    "barnabas.records.record_batch": ("EncodedBatch",),
}  # fmt: skip


def __getattr__(name: str) -> object:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *__all__]
