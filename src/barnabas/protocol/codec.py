"""Compiles the functions that decode and encode a message, when first asked for.

There is one function per class, version and direction. Called by `Message`. The tables are read by every thread without
a lock: an entry appears by one assignment of a finished function. `_compile_lock` keeps two threads from compiling the
same one.

The source text comes from `decoder_source` and `encoder_source`, which execute nothing. It is registered with
`linecache`, so that tracebacks show the line that failed. In the compiled build the messages of the hot families are
native classes, whose codec the build has written and compiled (decisions/0009-compiled-build.md); what such a decoder
leaves aside comes here, too.

Kafka: MessageGenerator.
"""

from __future__ import annotations

import linecache
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

from barnabas.protocol.codec_runtime import FEW_ELEMENTS
from barnabas.protocol.decoder_source import DecoderBound, DecoderSource
from barnabas.protocol.encoder_source import EncoderSource
from barnabas.protocol.message_struct import VersionedStruct

NativeDecoderMaker: TypeAlias = Callable[[int, int | None, Callable[[], Callable[..., Any]]], Callable[..., Any]]
"""Takes the version, the elements of all arrays that are decoded at once (None: as many as the frame's bytes allow),
and what makes the decoder for other buffers than bytes, and for strings that are not UTF-8."""
NativeEncoderMaker: TypeAlias = Callable[[int], Callable[..., Any]]
Buffer: TypeAlias = bytes | bytearray | memoryview
# One lock for all messages: compiling is rare, and a lock for each of 140 messages would be as contended as none.
_compile_lock = threading.Lock()


class _CodecTable(dict[int, Callable[..., Any]]):
    """The functions of one message by version; a missing one is compiled."""

    __slots__ = ("_message",)
    _function_name = ""

    def __init__(self, message: type[VersionedStruct]) -> None:
        super().__init__()
        self._message = message

    def __missing__(self, version: int) -> Callable[..., Any]:
        message = self._message
        if not message.min_version <= version <= message.max_version:
            raise ValueError(
                f"{message.__name__} has no version {version}, only {message.min_version} to {message.max_version}"
            )
        with _compile_lock:
            function = self.get(version)  # another thread may have compiled it while this one waited
            if function is None:
                function = self[version] = self._make(version)
        return function

    def _make(self, version: int) -> Callable[..., Any]:
        return compile_function(self._source(version), self._function_name, self._file_name(version), self._message)

    def _file_name(self, version: int) -> str:
        return f"<{self._message.__name__} v{version} {self._function_name}>"

    def _source(self, version: int) -> str:
        """Return the source of a version's function. Raises TypeError: a subclass writes it."""
        raise TypeError(f"{type(self).__name__} has no _source(): a subclass writes it")


class DecoderTable(_CodecTable):
    """The decoders of one message: `(buffer, offset) -> (message, end offset)`."""

    __slots__ = ("_bound", "_native", "_others")
    _function_name = "decode"

    def __init__(
        self,
        message: type[VersionedStruct],
        bound: DecoderBound = DecoderBound.FRAME,
        native: NativeDecoderMaker | None = None,
    ) -> None:
        """native: of a native message, makes what decodes it from bytes."""
        super().__init__(message)
        self._bound = bound
        self._native = native
        self._others: dict[DecoderBound, DecoderTable] = {}

    def bounded(self, bound: DecoderBound) -> DecoderTable:
        """Return the table of the decoders with another bound. One table each is made, when first asked for."""
        if bound is self._bound:
            return self
        return self._others.setdefault(bound, DecoderTable(self._message, bound, self._native))

    def _make(self, version: int) -> Callable[..., Any]:
        if self._native is None or self._bound is DecoderBound.MEMORY:
            return super()._make(version)
        most_elements = FEW_ELEMENTS if self._bound is DecoderBound.FEW else None
        return self._native(version, most_elements, partial(super()._make, version))

    def _file_name(self, version: int) -> str:
        name = super()._file_name(version)
        return name if self._bound is DecoderBound.FRAME else f"{name[:-1]} {self._bound.name.lower()}>"

    def _source(self, version: int) -> str:
        return DecoderSource(self._message, version, self._bound).text()


class EncoderTable(_CodecTable):
    """The encoders of one message: `(message, out=None) -> list of buffers`."""

    __slots__ = ("_native",)
    _function_name = "encode"

    def __init__(
        self, message: type[VersionedStruct], native: Callable[[int], Callable[..., Any]] | None = None
    ) -> None:
        """native: of a native message, makes what encodes it."""
        super().__init__(message)
        self._native = native

    def _make(self, version: int) -> Callable[..., Any]:
        return super()._make(version) if self._native is None else self._native(version)

    def _source(self, version: int) -> str:
        return EncoderSource(self._message, version).text()


def compile_function(source: str, name: str, file_name: str, message: type[VersionedStruct]) -> Callable[..., Any]:
    """Execute generated source with the message's class in scope; return the function called `name` in it."""
    # The structs of a native message are not in it, but beside it.
    namespace: dict[str, Any] = {**vars(sys.modules[message.__module__]), message.__name__: message}
    exec(compile(source, file_name, "exec"), namespace)  # noqa: S102  our own text, made from our own declarations
    # The modification time None keeps `linecache.checkcache` from dropping the entry, since there is no such file.
    linecache.cache[file_name] = (len(source), None, source.splitlines(keepends=True), file_name)
    function: Callable[..., Any] = namespace[name]
    return function
