"""The codec that the compiled build writes (native/write_messages.py) against the one that plain Python makes.

The written source runs interpreted here; `make test-compiled` runs the wire tests on it compiled.
"""

from __future__ import annotations

import importlib
import importlib.util
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from barnabas.protocol.codec_runtime import FEW_ELEMENTS
from barnabas.protocol.decoder_source import DecoderBound
from barnabas.protocol.errors import DecodeError, EncodeError, ManyElements
from barnabas.protocol.messages.message import Message
from barnabas.protocol.messages.message_spec import structs_of
from tests.wire.random_messages import RandomMessages

pytest.importorskip("librt.strings", reason="the compiled build's library of native strings")
pytestmark = pytest.mark.interpreted
ROOT = Path(__file__).parents[3]
MESSAGES_OF_A_VERSION = 12
DAMAGED = 40


def load(name: str, path: Path, text: str | None = None) -> ModuleType:
    module = sys.modules[name] = ModuleType(name)
    module.__file__ = str(path)
    exec(compile(text or path.read_text(), path, "exec"), vars(module))
    return module


def families() -> Iterator[tuple[str, str]]:
    """Each native family, and the source that is written for it."""
    specification = importlib.util.spec_from_file_location("write_messages", ROOT / "native" / "write_messages.py")
    assert specification is not None
    assert specification.loader is not None
    writer = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(writer)
    for family in writer.NATIVE_FAMILIES:
        yield family, writer.FamilyWriter(family).text()


def pairs() -> list[tuple[type[Message], type[Message]]]:
    """Each message of the native families: as the notation declares it, and as it was written."""
    codec = "barnabas.protocol.native_codec"
    load(codec, ROOT / "native" / Path(*codec.split(".")).with_suffix(".py"))
    found = []
    for family, text in families():
        plain = importlib.import_module(f"barnabas.protocol.messages.{family}")
        written = load(f"written.{family}", Path(str(plain.__file__)), text)
        for name, value in vars(written).items():
            if isinstance(value, type) and issubclass(value, Message) and value is not Message:
                found.append((getattr(plain, name), value))
    return found


PAIRS = pairs()
VERSIONS = [
    pytest.param(*pair, version, id=f"{pair[0].__name__} v{version}")
    for pair in PAIRS
    for version in range(pair[0].min_version, pair[0].max_version + 1)
]


def told(value: Any) -> Any:
    """A message as plain data, in which equal messages of both kinds are equal."""
    if isinstance(value, list):
        return [told(each) for each in value]
    if hasattr(value, "declarations"):
        return type(value).__name__, {name: told(getattr(value, name)) for name in value.declarations}
    return bytes(value) if isinstance(value, memoryview) else value


def written_as(plain: Any, kind: type[Any]) -> Any:
    """The same message as a written one."""
    written = kind()
    for field in kind.field_schemas():
        value = getattr(plain, field.name)
        if field.struct is not None and isinstance(value, list):
            value = [written_as(each, field.struct) for each in value]
        elif field.struct is not None and value is not None:
            value = written_as(value, field.struct)
        setattr(written, field.name, value)
    return written


def outcome(decoder: Any, data: bytes, start: int) -> Any:
    try:
        message, end = decoder(data, start)
    except ManyElements:
        return ManyElements
    except DecodeError:
        return DecodeError
    return told(message), end


def test_there_are_native_messages() -> None:
    assert {plain.__name__ for plain, _ in PAIRS} >= {"ProduceRequest", "ProduceResponse"}


def test_plain_modules_have_the_names_that_compiled_code_imports() -> None:
    for family, _ in families():
        plain = importlib.import_module(f"barnabas.protocol.messages.{family}")
        assert {name: getattr(plain, name, None) for name in structs_of(plain)} == structs_of(plain)


@pytest.mark.parametrize(("plain", "written"), PAIRS, ids=lambda message: message.__name__)
def test_both_have_the_same_fields_versions_and_defaults(plain: type[Message], written: type[Message]) -> None:
    assert list(written.declarations) == list(plain.declarations)
    assert (written.api_key, written.min_version, written.max_version) == (
        plain.api_key,
        plain.min_version,
        plain.max_version,
    )
    assert written.flexible_from == plain.flexible_from
    assert told(written()) == told(plain())
    assert written() == written()


@pytest.mark.parametrize(("plain", "written", "version"), VERSIONS)
def test_both_write_the_same_bytes_and_read_them_alike(
    plain: type[Message], written: type[Message], version: int
) -> None:
    source = RandomMessages(version)
    for _ in range(MESSAGES_OF_A_VERSION):
        message = source.make(plain, version)
        pieces = plain.encoders[version](message, bytearray(b"head"))
        same = written.encoders[version](written_as(message, written), bytearray(b"head"))
        assert [bytes(piece) for piece in same] == [bytes(piece) for piece in pieces]
        assert type(same[0]) is bytearray  # whose size prefix is filled in afterwards
        data = b"before" + b"".join(map(bytes, pieces))[4:] + b"behind"
        for bound in (DecoderBound.FRAME, DecoderBound.FEW):
            assert outcome(written.decoders.bounded(bound)[version], data, 6) == outcome(
                plain.decoders.bounded(bound)[version], data, 6
            )


@pytest.mark.parametrize(("plain", "written", "version"), VERSIONS)
def test_both_refuse_the_same_damaged_bytes(plain: type[Message], written: type[Message], version: int) -> None:
    chance = random.Random(version)
    source = RandomMessages(version)
    for _ in range(DAMAGED):
        data = bytearray(b"".join(map(bytes, source.make(plain, version).encode(version))))
        for _ in range(chance.randint(0, 3) if data else 0):
            data[chance.randrange(len(data))] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
        damaged = bytes(data[: chance.choice((len(data), chance.randint(0, len(data))))])
        for bound in (DecoderBound.FRAME, DecoderBound.FEW):
            assert outcome(written.decoders.bounded(bound)[version], damaged, 0) == outcome(
                plain.decoders.bounded(bound)[version], damaged, 0
            ), damaged


@pytest.mark.parametrize(("plain", "written", "version"), VERSIONS)
def test_both_refuse_what_a_version_cannot_express(plain: type[Message], written: type[Message], version: int) -> None:
    source = RandomMessages(version + 1)
    for other in range(plain.min_version, plain.max_version + 1):
        message = source.make(plain, other)
        results = []
        for each in (message, written_as(message, written)):
            try:
                results.append(b"".join(map(bytes, each.encode(version))))
            except EncodeError:
                results.append(b"refused")
        assert results[0] == results[1]


def test_many_elements_are_left_to_others() -> None:
    plain, written = next(pair for pair in PAIRS if pair[0].__name__ == "ProduceRequest")
    topic: Any = plain.TopicProduceData  # type: ignore[attr-defined]
    request: Any = plain(topic_data=[topic("t") for _ in range(FEW_ELEMENTS + 1)])  # type: ignore[call-arg]
    data = b"".join(map(bytes, request.encode(9)))
    with pytest.raises(ManyElements):
        written.decoders.bounded(DecoderBound.FEW)[9](data, 0)
    assert outcome(written.decoders[9], data, 0) == outcome(plain.decoders[9], data, 0)
