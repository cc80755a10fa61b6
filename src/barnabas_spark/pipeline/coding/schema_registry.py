"""A client of a schema registry with Confluent's HTTP interface.

Used on the driver, which needs the columns, and in the executors' Python workers, which meet the ids of records. Each
process asks for an id once: what an id stands for never changes. One thread a process uses it, so there is no lock.
"""

from __future__ import annotations

import base64
import functools
import json
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from barnabas_spark.pipeline.coding.schema_text import BadValue, FormatError, NamedText, RegistryFailed, SchemaText
from barnabas_spark.pipeline.coding.value_coding import RegistryAddress

AVRO, PROTOBUF, JSON = "AVRO", "PROTOBUF", "JSON"

Parsed = TypeVar("Parsed")

_TIMEOUT_SECONDS = 15
_LARGEST_ANSWER = 16 << 20
_NOT_FOUND = 404
_CONTENT = "application/vnd.schemaregistry.v1+json"


class SchemaRegistry:
    """One registry."""

    def __init__(self, address: RegistryAddress) -> None:
        self._address = address
        self._by_id: dict[tuple[int, str], SchemaText] = {}
        """By the id and the kind: an id that is asked for as another kind is bad each time."""

    def by_id(self, schema_id: int, kind: str) -> SchemaText:
        """Return the schema of an id.

        Raises BadValue: the registry has no such schema, or it is of another kind. RegistryFailed: no answer.
        """
        found = self._by_id.get((schema_id, kind))
        if found is None:
            found = self._by_id[schema_id, kind] = self._fetched(schema_id, kind)
        return found

    def latest(self, subject: str, kind: str) -> SchemaText:
        """Return the newest schema of a subject. Raises RegistryFailed: there is none, or of another kind."""
        answer = self._asked(f"/subjects/{_quoted(subject)}/versions/latest")
        if answer is None:
            raise RegistryFailed(f"the schema registry {self._address.url} has no subject {subject!r}")
        try:
            return self.by_id(int(answer["id"]), kind)
        except BadValue as error:
            raise RegistryFailed(f"{error}: subject {subject!r}") from error

    def register(self, subject: str, schema: SchemaText, kind: str) -> SchemaText:
        """Return the schema with its id, which it gets now or has had before. Raises RegistryFailed."""
        # A file's references would have to be subjects of their own, with names that the file does not tell.
        body = {"schema": schema.text, "schemaType": kind}
        answer = self._asked(f"/subjects/{_quoted(subject)}/versions", body)
        if answer is None:
            raise RegistryFailed(f"the schema registry {self._address.url} does not register schemas")
        return schema._replace(schema_id=int(answer["id"]))

    def _fetched(self, schema_id: int, kind: str) -> SchemaText:
        """Fetch a schema and its references. Raises BadValue, RegistryFailed."""
        form = "?format=serialized" if kind == PROTOBUF else ""
        answer = self._asked(f"/schemas/ids/{schema_id}{form}")
        if answer is None:
            raise BadValue(f"schema {schema_id} is not in the registry")
        found = answer.get("schemaType", AVRO)
        if found != kind:
            raise BadValue(f"schema {schema_id} is of type {found}, not {kind}")
        references: dict[str, str] = {}
        for reference in answer.get("references") or ():
            version = f"/subjects/{_quoted(reference['subject'])}/versions/{int(reference['version'])}"
            pointed = self._asked(version)
            if pointed is None:
                raise RegistryFailed(f"the schema registry {self._address.url} lacks {version}, which is referred to")
            schema = self.by_id(int(pointed["id"]), kind)
            references.update((each.name, each.text) for each in schema.references)
            references[reference["name"]] = schema.text
        named = tuple(NamedText(name, text) for name, text in references.items())
        return SchemaText(answer["schema"], named, schema_id)

    def _asked(self, path: str, body: dict[str, Any] | None = None) -> dict[str, Any] | None:
        """Return the answer's JSON, or None for "not found". Raises RegistryFailed."""
        url = self._address.url.rstrip("/") + path
        headers = {"Accept": _CONTENT, "Content-Type": _CONTENT}
        if self._address.login is not None:
            headers["Authorization"] = "Basic " + base64.b64encode(self._address.login.encode()).decode()
        data = None if body is None else json.dumps(body).encode()
        # The pipeline file's check lets only http and https pass.
        request = urllib.request.Request(url, data, headers)  # noqa: S310
        try:
            with urllib.request.urlopen(  # noqa: S310
                request, timeout=_TIMEOUT_SECONDS, context=_trust_of(url)
            ) as response:
                raw = response.read(_LARGEST_ANSWER + 1)
        except urllib.error.HTTPError as error:
            if error.code == _NOT_FOUND:
                return None
            told = error.read(500).decode(errors="replace")
            raise RegistryFailed(f"the schema registry answers {error.code} to {url}: {told}") from None
        except OSError as error:
            raise RegistryFailed(f"the schema registry does not answer at {url}: {error}") from None
        try:
            answer = json.loads(raw)
        except ValueError:
            answer = None
        if not isinstance(answer, dict) or len(raw) > _LARGEST_ANSWER:
            raise RegistryFailed(f"{url} answers what no schema registry does: {raw[:80]!r}")
        return answer


@functools.cache
def registry_at(address: RegistryAddress) -> SchemaRegistry:
    """Return this process's client of a registry."""
    return SchemaRegistry(address)


class WriterSchemas(Generic[Parsed]):
    """The schemas that were met, or what is made of them. kind: the registry's word for the format.

    parse: makes one of a schema's text; raises FormatError. reader: that of every value, where there is no registry.
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


def _quoted(subject: str) -> str:
    return urllib.parse.quote(subject, safe="")


def _trust_of(url: str) -> ssl.SSLContext | None:
    """Return how a server's certificate is checked: as everywhere else, and with every Python alike."""
    if not url.startswith("https:"):
        return None
    from barnabas.security.tls.tls_contexts import HttpsTrust  # noqa: PLC0415 - workers seldom need it

    return HttpsTrust().context
