"""`meta.properties`: which broker of which cluster a log directory belongs to. Kafka's version 0, of ZooKeeper mode.

Version 1, which KRaft writes, is read too: its `node.id` is the broker id. Functions on files; LogDirectories reads the
files at start and writes them once the broker knows its cluster. Kafka: MetaProperties, MetaPropertiesEnsemble.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

from barnabas.runtime.files import Files
from barnabas.storage.errors import InconsistentMetaProperties

FILE_NAME = "meta.properties"


class MetaProperties(NamedTuple):
    """The content of the file, None for missing fields.

    directory_id: of KIP-858; kept as it is found. version: 1 when KRaft has written the file.
    """

    cluster_id: str | None = None
    broker_id: int | None = None
    directory_id: str | None = None
    version: int = 0


def read_meta_properties(files: Files, directory: str) -> MetaProperties | None:
    """Return the content, or None when there is no file.

    Raises InconsistentMetaProperties when the version is unknown or the broker id is no number. Raises OSError.
    """
    path = os.path.join(directory, FILE_NAME)
    try:
        text = files.read_bytes(path).decode("utf-8", "replace")
    except FileNotFoundError:
        return None
    fields: dict[str, str] = {}
    for line in text.splitlines():
        name, equals, value = line.strip().partition("=")
        # The format is that of java.util.Properties: both characters begin a comment.
        if equals and not name.startswith(("#", "!")):
            fields[name.strip()] = value.strip()
    version = fields.get("version", "0")
    if version not in ("0", "1"):
        raise InconsistentMetaProperties(f"{path}: unknown version {version!r}")
    number = fields.get("broker.id", fields.get("node.id"))
    try:
        broker_id = None if number is None else int(number)
    except ValueError:
        raise InconsistentMetaProperties(f"{path}: broker.id is {number!r}") from None
    return MetaProperties(fields.get("cluster.id"), broker_id, fields.get("directory.id"), int(version))


def write_meta_properties(files: Files, directory: str, properties: MetaProperties) -> None:
    """Write the file as version 0; durable when this returns. Raises OSError."""
    fields = {
        "broker.id": properties.broker_id,
        "cluster.id": properties.cluster_id,
        "directory.id": properties.directory_id,
        "version": 0,
    }
    lines = ["#", *(f"{name}={value}" for name, value in fields.items() if value is not None), ""]
    files.write_atomically(os.path.join(directory, FILE_NAME), "\n".join(lines).encode())


def check_meta_properties(found: Mapping[str, MetaProperties | None], cluster_id: str, broker_id: int) -> None:
    """Check that every directory belongs to this broker of this cluster, or is new.

    Raises InconsistentMetaProperties when one belongs to another cluster or broker.
    """
    for directory, properties in found.items():
        if properties is None:
            continue
        path = os.path.join(directory, FILE_NAME)
        if properties.cluster_id not in (None, cluster_id):
            raise InconsistentMetaProperties(
                f"The Cluster ID {cluster_id} doesn't match stored clusterId {properties.cluster_id} in {path}. The"
                " broker is trying to join the wrong cluster."
            )
        if properties.broker_id not in (None, broker_id):
            raise InconsistentMetaProperties(
                f"Configured broker.id {broker_id} doesn't match stored broker.id {properties.broker_id} in {path}. If"
                " you moved your data, make sure your configured broker.id matches."
            )
