"""Schemas of values: from files, from a schema registry with Confluent's HTTP interface, and by their ids in frames.

Confluent's serializers put a frame before each value: a zero byte, and the schema's id in 4 bytes, big-endian. Schemas
are read on the driver, which needs the columns and sends the texts to the executors, and in the executors' Python
workers, which meet the ids of records. Each process asks for an id once: what an id stands for never changes. One
thread a process uses a registry, so there is no lock.
"""

from __future__ import annotations

import base64
import functools
import json
import urllib.parse
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from barnabas_spark.pipeline.entry import RegistryAddress
from barnabas_spark.pipeline.formats.value_format import ValueCoding
from barnabas_spark.pipeline.pipeline_error import BadValue, FormatError, RegistryFailed

if TYPE_CHECKING:
    import ssl

AVRO, PROTOBUF, JSON = "AVRO", "PROTOBUF", "JSON"
"""The registry's words for formats."""

Parsed = TypeVar("Parsed")

_TIMEOUT_SECONDS = 15
_LARGEST_ANSWER = 16 << 20
_NOT_FOUND = 404
_CONTENT = "application/vnd.schemaregistry.v1+json"
_MAGIC = 0
_HEADER_BYTES = 5


class NamedText(NamedTuple):
    """A schema that others refer to: by an import's path in Protobuf, by a type's name in Avro."""

    name: str
    text: str


class SchemaText(NamedTuple):
    """A schema. Avro: JSON. Protobuf: a serialized FileDescriptorProto in base64, as registries give and take it."""

    text: str
    references: tuple[NamedText, ...] = ()
    """What the schema refers to, each after what it refers to itself."""
    schema_id: int | None = None
    """The id in the registry, if it is known."""


def json_file(path: str) -> SchemaText:
    """Return the schema of a file in JSON. Raises FormatError."""
    try:
        return SchemaText(read_file(path).decode())
    except UnicodeDecodeError as error:
        raise FormatError(f"{path} is not UTF-8: {error}") from error


def read_file(path: str) -> bytes:
    """Return a file's bytes. Raises FormatError."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise FormatError(f"{path}: {error.strerror or error}") from error


# -- the registry


class SchemaRegistry:
    """One registry."""

    def __init__(self, address: RegistryAddress) -> None:
        self._address = address
        self._by_id: dict[tuple[int, str], SchemaText] = {}
        """By the id and the kind: an id that is asked for as another kind is bad each time."""

    def __reduce__(self) -> Any:
        """Go to an executor as the address: each process has a client of its own."""
        return _registry_at, (self._address,)

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
        # Late: few processes ask a registry, and HTTP brings TLS and e-mail.
        import urllib.error  # noqa: PLC0415
        import urllib.request  # noqa: PLC0415

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


def with_id(schema: SchemaText, coding: ValueCoding, kind: str) -> SchemaText:
    """Return a file's schema with the id to write: the registry's, or else that of the file. Raises RegistryFailed."""
    registry = registry_of(coding)
    if registry is None:
        return schema._replace(schema_id=coding.schema_id)
    assert coding.subject is not None
    return registry.register(coding.subject, schema, kind)


def registry_of(coding: ValueCoding) -> SchemaRegistry | None:
    """Return this process's client of a registry, or None if there is none."""
    return None if coding.registry is None else _registry_at(coding.registry)


@functools.cache
def _registry_at(address: RegistryAddress) -> SchemaRegistry:
    return SchemaRegistry(address)


def writer_schemas(
    reader: Parsed, registry: SchemaRegistry | None, kind: str, parse: Callable[[SchemaText], Parsed]
) -> Callable[[int], Parsed]:
    """Return what finds the schema that a value was written with, by its id; of no registry it is the reader's.

    kind: the registry's word for the format. parse: makes something of a schema; raises FormatError. What is returned
    raises BadValue, RegistryFailed.
    """

    if registry is None:
        return lambda _: reader

    @functools.cache
    def of(schema_id: int) -> Parsed:
        try:
            return parse(registry.by_id(schema_id, kind))
        except FormatError as error:
            raise BadValue(f"schema {schema_id}: {error}") from error

    return of


def _quoted(subject: str) -> str:
    return urllib.parse.quote(subject, safe="")


def _trust_of(url: str) -> ssl.SSLContext | None:
    """Return how a server's certificate is checked: as everywhere else, and with every Python alike."""
    if not url.startswith("https:"):
        return None
    from barnabas.security.tls.tls_contexts import HttpsTrust  # noqa: PLC0415 - workers seldom need it

    return HttpsTrust().context


# -- frames


class Frame(NamedTuple):
    """A value without its frame."""

    schema_id: int
    body: bytes


def unframed(value: bytes) -> Frame:
    """Return the schema's id and what follows it. Raises BadValue: there is no such frame."""
    if len(value) < _HEADER_BYTES:
        raise BadValue(f"the value has {len(value)} bytes, too few for a schema id")
    if value[0] != _MAGIC:
        raise BadValue(f"the value begins with the byte {value[0]:#04x}, not with 0x00 and a schema id")
    return Frame(int.from_bytes(value[1:_HEADER_BYTES], "big"), value[_HEADER_BYTES:])


def framed(schema_id: int, body: bytes) -> bytes:
    """Return a value: the frame and the body."""
    return bytes([_MAGIC]) + schema_id.to_bytes(4, "big") + body
