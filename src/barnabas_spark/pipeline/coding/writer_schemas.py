"""The schemas that the framed values of a column were written with, by the ids in their frames.

Made in the executors' Python workers, by the decoders of both formats, once for a column; one thread, no lock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from barnabas_spark.pipeline.coding.coding_errors import BadValue, FormatError
from barnabas_spark.pipeline.coding.schema_registry import SchemaRegistry
from barnabas_spark.pipeline.coding.schema_text import SchemaText

Parsed = TypeVar("Parsed")


class WriterSchemas(Generic[Parsed]):
    """The schemas that were met, parsed. kind: the registry's word for the format. parse: raises FormatError.

    reader: the schema of every value, where there is no registry.
    """

    def __init__(
        self, reader: Parsed, registry: SchemaRegistry | None, kind: str, parse: Callable[[SchemaText], Parsed]
    ) -> None:
        self._reader = reader
        self._registry = registry
        self._kind = kind
        self._parse = parse
        self._met: dict[int, Parsed] = {}

    def of(self, schema_id: int) -> Parsed:
        """Return the schema that a value was written with. Raises BadValue, RegistryFailed."""
        if self._registry is None:
            return self._reader
        met = self._met.get(schema_id)
        if met is None:
            try:
                met = self._parse(self._registry.by_id(schema_id, self._kind))
            except FormatError as error:
                raise BadValue(f"schema {schema_id}: {error}") from error
            self._met[schema_id] = met
        return met
