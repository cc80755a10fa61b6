"""Kafka records as Arrow tables: whole batches decoded and encoded without a Python step per field.

Users import from here. This package needs pyarrow and numpy, which the broker never imports.
"""

from barnabas.clients.arrow.decoder import RecordArrays, Wanted, empty_headers
from barnabas.clients.arrow.encoder import EncodedBatch, RecordColumns, encode_batches
from barnabas.clients.arrow.fetched_batches import (
    COLUMNS,
    RECORD_SCHEMA,
    FetchedBatches,
    decode_batches,
    record_batch_of,
)

__all__ = [
    "COLUMNS",
    "RECORD_SCHEMA",
    "EncodedBatch",
    "FetchedBatches",
    "RecordArrays",
    "RecordColumns",
    "Wanted",
    "decode_batches",
    "empty_headers",
    "encode_batches",
    "record_batch_of",
]
