"""The text of a generated module: indented lines, fresh names, and the constants they need.

Used by `decoder_source` and `encoder_source` for the length of one call; belongs to the calling thread.
"""

from __future__ import annotations

from barnabas.protocol.schema import WireType


class SourceWriter:
    """Collects the lines of one function and the definitions that go before it."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._definitions: dict[str, str] = {}
        self._last_number = 0

    def line(self, depth: int, text: str) -> None:
        """Add a line, indented by `depth` steps."""
        self._lines.append(" " * 4 * depth + text)

    @property
    def line_count(self) -> int:
        """The number of the function's lines so far."""
        return len(self._lines)

    def name(self, prefix: str) -> str:
        """Return a variable name not used before."""
        self._last_number += 1
        return f"{prefix}{self._last_number}"

    def unpacker(self, format_characters: str) -> str:
        """Return the name of `unpack_from` of a big-endian struct format."""
        return self._struct_method("unpack", format_characters, "unpack_from")

    def packer(self, format_characters: str) -> str:
        """Return the name of `pack` of a big-endian struct format."""
        return self._struct_method("pack", format_characters, "pack")

    def array_unpacker(self, element: WireType) -> str:
        """Return the name of a table: number of elements -> `unpack_from` of that many."""
        return self._define(f"unpack_array_{_identifier(element.format)}", f'array_unpackers("{element.format}")')

    def array_packer(self, element: WireType) -> str:
        """Return the name of a table: number of elements -> `pack` of that many."""
        return self._define(f"pack_array_{_identifier(element.format)}", f'array_packers("{element.format}")')

    def constructor(self, struct: type) -> str:
        """Return the name of a struct's class, bound at module level: nested names cost two look-ups each."""
        return self._define(struct.__qualname__.replace(".", "_"), struct.__qualname__)

    def default_struct(self, struct: type) -> str:
        """Return the name of one instance of a struct with all its defaults."""
        return self._define(f"default_{struct.__qualname__.replace('.', '_')}", f"{struct.__qualname__}()")

    def module(self, title: str, imports: str) -> str:
        """Return the finished text."""
        head = [f'"""{title}"""', imports, ""]
        # A class that is not nested is in the namespace under its own name already.
        definitions = [f"{name} = {text}" for name, text in self._definitions.items() if name != text]
        return "\n".join([*head, *definitions, "", *self._lines, ""])

    def _struct_method(self, prefix: str, format_characters: str, method: str) -> str:
        return self._define(f"{prefix}_{_identifier(format_characters)}", f'Struct(">{format_characters}").{method}')

    def _define(self, name: str, text: str) -> str:
        self._definitions[name] = text
        return name


def _identifier(format_characters: str) -> str:
    """Return format characters as part of a name: `?` cannot be."""
    return format_characters.replace("?", "z")
