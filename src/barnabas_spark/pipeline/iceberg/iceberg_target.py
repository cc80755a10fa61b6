"""What a pipeline file says of an Iceberg table, as pyiceberg's properties of a catalog.

Called by `pipeline_file` on the main thread; no state, no lock. pyiceberg is not needed to read a file.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from urllib.parse import urlsplit

from barnabas_spark.pipeline.specification import IcebergTarget


def iceberg_target(table: str, catalog: str | Mapping[str, str], key_columns: tuple[str, ...]) -> IcebergTarget:
    """Return the target. catalog: the absolute path of a directory, or the properties of any catalog of pyiceberg's."""
    if isinstance(catalog, str):
        properties = {
            "type": "sql",
            "uri": f"sqlite:///{os.path.join(catalog, 'catalog.db')}",
            "warehouse": f"file://{catalog}",
        }
        return IcebergTarget(table, properties, catalog, catalog, key_columns)
    return IcebergTarget(table, dict(catalog), None, _place(catalog), key_columns)


def _place(catalog: Mapping[str, str]) -> str:
    """Return a catalog in words, without the password that an address may have."""
    parts = urlsplit(catalog.get("uri", ""))
    address = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}" if parts.scheme else parts.path
    return f"the catalog {address or catalog.get('type') or catalog.get('warehouse', '')}"
