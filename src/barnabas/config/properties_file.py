"""The reader of Java's .properties files, the format of Kafka's server.properties.

Called by the command line before any thread exists. Kafka: java.util.Properties.load, whose grammar this follows:
`#` and `!` comments, `=`, `:` or blanks between key and value, backslash escapes and continuation lines, \\uhhhh.
"""

from __future__ import annotations

from collections.abc import Iterator

from barnabas.config.config_error import ConfigError

_BLANKS = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def load_properties(path: str) -> dict[str, str]:
    """Return the settings of a file; of several equal keys the last wins.

    The file is read as UTF-8, or else as Latin-1, which Java assumes for every such file.

    Raises OSError: the file cannot be read. Raises ConfigError: an escape is malformed.
    """
    with open(path, "rb") as file:
        data = file.read()
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    return parse_properties(text, source=path)


def parse_properties(text: str, source: str = "properties") -> dict[str, str]:
    """Return the settings of a file's text. Raises ConfigError: an escape is malformed; names `source` and the line."""
    properties: dict[str, str] = {}
    for number, line in _logical_lines(text):
        end = _end_of_key(line)
        rest = line[end:].lstrip(_BLANKS)
        if rest[:1] in ("=", ":"):
            rest = rest[1:].lstrip(_BLANKS)
        try:
            properties[_unescape(line[:end])] = _unescape(rest)
        except ValueError as error:
            raise ConfigError(f"{source}, line {number}: {error}") from None
    return properties


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield lines joined over continuations, without comments and blank lines, with the number of their first line."""
    joined = ""
    first = 0
    naturals = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    for number, natural in enumerate(naturals, start=1):
        line = natural.lstrip(_BLANKS)
        if not joined:
            first = number
            if not line or line[0] in "#!":
                continue
        trailing = len(line) - len(line.rstrip("\\"))
        if trailing % 2 and number < len(naturals):  # the last backslash is not escaped: the line continues
            joined += line[:-1]
        else:
            # On the last line of a file there is nothing to continue with: Java drops the backslash.
            yield first, joined + (line[:-1] if trailing % 2 else line)
            joined = ""
    if joined:
        yield first, joined


def _end_of_key(line: str) -> int:
    """Return the index of the first unescaped separator, or the line's length."""
    position = 0
    while position < len(line):
        character = line[position]
        if character == "\\":
            position += 2
            continue
        if character in "=:" or character in _BLANKS:
            return position
        position += 1
    return len(line)


def _unescape(text: str) -> str:
    """Resolve backslash escapes. Raises ValueError: \\u is not followed by four hexadecimal digits."""
    if "\\" not in text:
        return text
    out: list[str] = []
    position = 0
    while position < len(text):
        character = text[position]
        position += 1
        if character != "\\":
            out.append(character)
            continue
        escaped = text[position : position + 1]
        position += 1
        if escaped == "u":
            digits = text[position : position + 4]
            if len(digits) != 4 or not all(digit in "0123456789abcdefABCDEF" for digit in digits):
                raise ValueError("Malformed \\uxxxx encoding.")
            out.append(chr(int(digits, 16)))
            position += 4
        else:
            out.append(_ESCAPES.get(escaped, escaped))
    # Java writes a character outside the basic plane as two escapes, the halves of a UTF-16 surrogate pair. Encoding
    # and decoding joins the halves; a half alone, which no text can hold, becomes the replacement character.
    return "".join(out).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
