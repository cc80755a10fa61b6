"""The sink of an Iceberg table, which `iceberg_table` writes. Threads: see `sink`; no lock."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar
from urllib.parse import urlsplit

from barnabas_spark.pipeline.entry import PARTITION_BY, SCALAR, Entry, Keys, listed, text, texts
from barnabas_spark.pipeline.pipeline_error import IcebergError
from barnabas_spark.pipeline.sinks.sink import PlannedSink, Sink

if TYPE_CHECKING:
    from barnabas_spark.pipeline.rows import QueryRows


class IcebergSink(Sink):
    """An Iceberg table."""

    CHOICES, NOUN = ("iceberg",), "Iceberg"
    KEYS: ClassVar[Keys] = {
        "iceberg": text("The Iceberg table to write to: NAMESPACE.TABLE. It is made if it is missing."),
        "catalog": {
            "type": ["string", "object"],
            "minLength": 1,
            "additionalProperties": SCALAR,
            "description": "Iceberg: a directory, for a local catalog with its tables, or the properties with which"
            " pyiceberg loads a catalog, such as type, uri and warehouse.",
        },
        "upsert_by": listed("Iceberg: the columns of the key. A row replaces the earlier one with its key."),
        "partition_by": PARTITION_BY,
    }

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry)
        keys = entry.keys
        self.table: str = keys["iceberg"]
        if not all(self.table.split(".")) or "." not in self.table:
            entry.note(f"{self.table!r} must be NAMESPACE.TABLE", "iceberg")
        if "catalog" not in keys:
            entry.note(f"{entry.where} needs 'catalog': a directory, or the properties of a catalog of pyiceberg")
        if self.mode == "update" and "upsert_by" not in keys:
            entry.note("changed rows of an Iceberg table need 'upsert_by', the columns of its key", "mode")
        if self.mode == "complete":
            entry.refuse("of mode complete, which replaces all rows", ("upsert_by",))
        self.key_columns: tuple[str, ...] = tuple(keys.get("upsert_by", ()))
        """The columns by which rows replace earlier ones. Empty: rows are appended."""
        self.partition_by: tuple[str, ...] = tuple(keys.get("partition_by", ()))
        catalog = keys.get("catalog", "")
        self.directory = entry.resolved(catalog) if isinstance(catalog, str) else None
        """The absolute path of a local catalog. None: the catalog is elsewhere."""
        self.catalog = texts(catalog) if self.directory is None else local_catalog(self.directory)
        """The properties with which pyiceberg loads the catalog; they may have passwords."""
        self.place = self.directory or _place(self.catalog)
        """The catalog in words, without passwords."""
        self.what = f"the Iceberg table {self.table} in {self.place}"

    def planned(self, rows: QueryRows) -> PlannedSink:
        """Return the columns, and what an upsert needs. Raises FormatError, IcebergError, Spark's errors."""
        columns = rows.columns()
        deleted = None if self.key_columns else self._deleted(rows, "give the sink 'upsert_by', or ")
        written = rows.select(columns)
        try:
            # pyiceberg is an extra.
            from barnabas_spark.pipeline.sinks.iceberg_table import IcebergTable, IcebergTarget  # noqa: PLC0415
        except ModuleNotFoundError as error:
            raise IcebergError(f"Iceberg tables need {error.name}: pip install 'barnabas[iceberg]'") from error
        target = IcebergTarget(
            self.table, self.catalog, self.directory, self.place, self.key_columns, self.partition_by, self.options,
            is_replaced=self.mode == "complete",
        )  # fmt: skip
        table = IcebergTable(target, written)
        if self.key_columns:
            columns += rows.upserted()
        return PlannedSink(self, columns, table.write, rows.left_out(), deleted, table.prepare)


def local_catalog(directory: str) -> dict[str, str]:
    """Return the properties of a catalog in a directory, of which the absolute path is given."""
    uri = f"sqlite:///{os.path.join(directory, 'catalog.db')}"
    return {"type": "sql", "uri": uri, "warehouse": f"file://{directory}"}


def _place(catalog: Mapping[str, str]) -> str:
    """Return a catalog in words, without the password that an address may have."""
    parts = urlsplit(catalog.get("uri", ""))
    address = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}" if parts.scheme else parts.path
    return f"the catalog {address or catalog.get('type') or catalog.get('warehouse', '')}"
