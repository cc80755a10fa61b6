"""The base classes of all messages: versioned structs with a codec for each version, compiled when first needed.

Family modules under `messages/` declare messages by way of `message_spec`; everything else constructs, encodes and
decodes. A message belongs to the code that holds it. The codec tables of a class are filled under the lock of `codec`, one assignment per entry, and
are read without a lock.

Kafka: Message, ApiMessage.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self, TypeAlias

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.codec import Buffer, DecoderTable
from barnabas.protocol.message_struct import VersionedStruct
from barnabas.protocol.schema import mypyc_attr

Decoder: TypeAlias = Callable[[Buffer, int], tuple[Any, int]]
Encoder: TypeAlias = Callable[..., list[Any]]


@mypyc_attr(allow_interpreted_subclasses=True)
class Versioned(VersionedStruct):
    """Fields that differ by version, with the codec of each version."""

    __slots__ = ()

    decoders: ClassVar[DecoderTable]
    """The decoder of each version, compiled on first use; `decoder` names one."""
    encoders: ClassVar[Mapping[int, Encoder]]
    """The encoder of each version, compiled on first use; `encoder` names one."""

    @classmethod
    def decode(cls, buffer: Buffer, version: int, offset: int = 0) -> tuple[Self, int]:
        """Read a message that begins at `offset`; return it and the offset behind it.

        The buffer is one whole frame: its length is the only bound. `records` are views of it. Raises DecodeError for
        bytes that are not this message.
        """
        message, end = cls.decoders[version](buffer, offset)
        return message, end

    @classmethod
    def decoder(cls, version: int) -> Callable[[Buffer, int], tuple[Self, int]]:
        """Return the function behind `decode`, to be bound once where speed counts."""
        return cls.decoders[version]

    def encode(self, version: int) -> list[Any]:
        """Return buffers to be sent in this order, `records` among them as they were given.

        Raises EncodeError when the version cannot express a field's value, or a value is too long.
        """
        pieces: list[Any] = self.encoders[version](self)
        return pieces

    @classmethod
    def encoder(cls, version: int) -> Callable[..., list[Any]]:
        """Return the function behind `encode`: it takes the message, and a bytearray to begin with if there is one."""
        return cls.encoders[version]


@mypyc_attr(allow_interpreted_subclasses=True)
class Message(Versioned):
    """A request or response of one API."""

    __slots__ = ()

    api_key: ClassVar[ApiKey]
