"""X.509 certificates, as far as a broker reads them itself: the subject's name, other names, and the time of expiry;
and the rules that make the name of a principal of the subject's name (`ssl.principal.mapping.rules`).

Pure functions over bytes, for the checks of key stores and on the thread of a channel that has become ready. Python's
ssl decodes certificates too, but loses what the name of a principal needs: the order inside a part of the name, and the
encoding of parts that have no keyword. Kafka: java.security.cert.X509Certificate, X500Principal.getName.

A name is written as Java writes it (RFC 2253, last part first): `CN=kafka-1,OU=Streams\\, Inc.,O=Example,C=DE`. Parts
that RFC 2253 has no keyword for are a number and the encoded value: `1.2.840.113549.1.9.1=#1603612e62`.

    RULE:^CN=([^,]+),.*$/$1/L,DEFAULT

makes `kafka-1` of `CN=Kafka-1,O=Example`, and leaves a name without CN as it is: the first rule whose pattern matches
the whole name decides. `L` and `U` make lower and upper case. A slash inside a pattern or replacement is written `\\/`.
Rules are parsed once for each listener; immutable, so the Processors share them. Kafka: SslPrincipalMapper.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final, NamedTuple

_SEQUENCE: Final = 0x30
_SET: Final = 0x31
_OBJECT_IDENTIFIER: Final = 0x06
_UTC_TIME: Final = 0x17
_EXPLICIT_VERSION: Final = 0xA0
_EXTENSIONS: Final = 0xA3
_OCTET_STRING: Final = 0x04
_BOOLEAN: Final = 0x01
_SUBJECT_ALTERNATIVE_NAME: Final = "2.5.29.17"

_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
"""The keywords of RFC 2253. Java writes every other type of a part as its number."""

_TEXTS: Final = frozenset({0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E})
"""UTF8String, PrintableString, T61String, IA5String, GeneralString, BMPString: Java reads the bytes of all as UTF-8."""
_ESCAPED: Final = frozenset(',=+<>#;"\\')


class MalformedCertificate(ValueError):
    """The error for bytes that are not an X.509 certificate."""


class Certificate(NamedTuple):
    """The part of a certificate that is read. subject: the name, as Java prints it. expires: when it ends to be valid.

    alternative_names: the entries of the extension, each as its kind and bytes. issuer: the authority's name, likewise.
    """

    subject: str
    expires: datetime
    alternative_names: frozenset[tuple[int, bytes]]
    issuer: str


class _Element(NamedTuple):
    """One element of DER: its tag, its content, and all its bytes."""

    tag: int
    content: bytes
    encoded: bytes


def parse_certificate(der: bytes) -> Certificate:
    """Parse a certificate. Raises MalformedCertificate: the bytes are no certificate."""
    try:
        return _parse_certificate(der)
    except (ValueError, IndexError, UnicodeDecodeError) as error:
        raise MalformedCertificate(f"The certificate cannot be read: {error}") from error


def _parse_certificate(der: bytes) -> Certificate:
    signed = _children(_single(der))[0]
    fields = _children(signed)
    # The version is left out by version 1.
    first = 1 if fields[0].tag == _EXPLICIT_VERSION else 0
    _serial, _algorithm, issuer, validity, subject = fields[first : first + 5]
    names: frozenset[tuple[int, bytes]] = frozenset()
    for each in fields[first + 6 :]:
        if each.tag == _EXTENSIONS:
            names = _alternative_names(_children(each)[0])
    return Certificate(_name(subject), _time(_children(validity)[1]), names, _name(issuer))


def _name(subject: _Element) -> str:
    parts = []
    for relative in reversed(_children(subject, _SEQUENCE)):
        pairs = []
        for pair in _children(relative, _SET):
            kind, value = _children(pair, _SEQUENCE)
            pairs.append(_part(_number(kind), value))
        parts.append("+".join(pairs))
    return ",".join(parts)


def _part(number: str, value: _Element) -> str:
    keyword = _KEYWORDS.get(number)
    if keyword is None or value.tag not in _TEXTS:
        return f"{keyword or number}=#{value.encoded.hex()}"
    text = value.content.decode("utf-8", "replace")
    escaped = ["\\" + char if char in _ESCAPED else "\\00" if char == "\0" else char for char in text]
    # Spaces at either end would be lost when the name is parsed.
    for positions in (range(len(escaped)), range(len(escaped) - 1, -1, -1)):
        for position in positions:
            if escaped[position] not in (" ", "\r"):
                break
            escaped[position] = "\\" + escaped[position]
    return f"{keyword}={''.join(escaped)}"


def _alternative_names(extensions: _Element) -> frozenset[tuple[int, bytes]]:
    for extension in _children(extensions, _SEQUENCE):
        kind, *rest = _children(extension, _SEQUENCE)
        if _number(kind) == _SUBJECT_ALTERNATIVE_NAME:
            value = next((each for each in rest if each.tag != _BOOLEAN), None)
            if value is None or value.tag != _OCTET_STRING:
                raise ValueError("an extension without a value")
            return frozenset((name.tag, name.content) for name in _children(_single(value.content), _SEQUENCE))
    return frozenset()


def _time(element: _Element) -> datetime:
    text = element.content.decode("ascii")
    if element.tag == _UTC_TIME:
        # RFC 5280: years up to 49 are those of this century.
        text = ("20" if text[:2] < "50" else "19") + text
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)


def _number(element: _Element) -> str:
    if element.tag != _OBJECT_IDENTIFIER or not element.content:
        raise ValueError("a type that is no object identifier")
    values = []
    value = 0
    for byte in element.content:
        value = value << 7 | byte & 0x7F
        if not byte & 0x80:
            values.append(value)
            value = 0
    first = min(values[0] // 40, 2)
    return ".".join(map(str, (first, values[0] - 40 * first, *values[1:])))


def _single(data: bytes) -> _Element:
    element, end = _element(data, 0)
    if end != len(data):
        raise ValueError("bytes behind the end")
    return element


def _children(parent: _Element, tag: int | None = None) -> list[_Element]:
    """Return the elements inside another. tag: what the other one has to be. Raises ValueError: it is none."""
    if tag is not None and parent.tag != tag:
        raise ValueError(f"an element {parent.tag:#x} in the place of {tag:#x}")
    children = []
    position = 0
    while position < len(parent.content):
        child, position = _element(parent.content, position)
        children.append(child)
    return children


class _Parsed(NamedTuple):
    element: _Element
    end: int


def _element(data: bytes, start: int) -> _Parsed:
    tag, length = data[start], data[start + 1]
    position = start + 2
    if tag & 0x1F == 0x1F:
        raise ValueError("a tag of more than one byte")
    if length & 0x80:
        count = length & 0x7F
        if not 1 <= count <= 4:
            raise ValueError("an impossible length")
        length = int.from_bytes(data[position : position + count])
        position += count
    end = position + length
    if end > len(data):
        raise ValueError("an element that is longer than its certificate")
    return _Parsed(_Element(tag, data[position:end], data[start:end]), end)


# Kafka's grammar, rule by rule. It allows empty rules, which do nothing.
_RULE: Final = r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?).*?|(.*?)"
_SPLITTER: Final = re.compile(rf"\s*({_RULE})\s*(,\s*|$)")
_PARSER: Final = re.compile(_RULE)
_REFERENCE: Final = re.compile(r"\\(.)|\$(\d+)", re.DOTALL)
# Java names groups as (?<name>...); the same characters open Python's look-behind.
_NAMED_GROUP: Final = re.compile(r"\(\?<([a-zA-Z])")


class InvalidRule(ValueError):
    """The error for a text that is no list of rules."""


class NoMatchingRule(Exception):
    """The error for a name that no rule matches: its owner is not authenticated."""


class _Rule(NamedTuple):
    """One rule. pattern: None for DEFAULT, which leaves every name as it is. case: L, U or empty."""

    text: str
    pattern: re.Pattern[str] | None = None
    replacement: str = ""
    case: str = ""

    def apply(self, name: str) -> str | None:
        """Return the principal's name; None if the pattern does not match."""
        if self.pattern is None:
            return name
        if self.pattern.fullmatch(name) is None:
            return None
        # As in Kafka the pattern is searched for after it has matched as a whole.
        result = self.pattern.sub(self._expand, name)
        return result.lower() if self.case == "L" else result.upper() if self.case == "U" else result

    def _expand(self, match: re.Match[str]) -> str:
        groups = match.re.groups

        def value_of(reference: re.Match[str]) -> str:
            escaped, digits = reference.groups()
            if escaped is not None:
                return str(escaped)
            # $12 is group 1 and the digit 2 where there are fewer than twelve groups; a group that does not exist at
            # all is a literal text.
            for length in range(len(digits), 0, -1):
                if int(digits[:length]) <= groups:
                    return (match[int(digits[:length])] or "") + digits[length:]
            return str(reference[0])

        return _REFERENCE.sub(value_of, self.replacement)


class PrincipalMapper:
    """The rules of one listener, tried in their order."""

    def __init__(self, rules: str) -> None:
        """Raises InvalidRule: the text is no list of rules, or a pattern is no regular expression."""
        self._rules = tuple(_parse(each[1]) for each in _SPLITTER.finditer(rules.strip()) if each[1])

    def name_of(self, distinguished_name: str) -> str:
        """Return the principal's name, without its type. Raises NoMatchingRule: no rule matches."""
        for rule in self._rules:
            name = rule.apply(distinguished_name)
            if name is not None:
                return name
        rules = ", ".join(rule.text for rule in self._rules)
        raise NoMatchingRule(f"No rules apply to {distinguished_name}, rules [{rules}]")


def _parse(text: str) -> _Rule:
    match = _PARSER.match(text)
    if match is None or match.end() != len(text):
        rest = text if match is None else text[match.end() :]
        raise InvalidRule(f"Invalid rule: `{text}`, unmatched substring: `{rest}`")
    default, pattern, replacement, case, _nothing = match.groups()
    if default is not None:
        return _Rule(text)
    try:
        compiled = re.compile(_NAMED_GROUP.sub(r"(?P<\1", pattern))
    except re.error as error:
        raise InvalidRule(f"Invalid rule: `{text}`: the pattern is no regular expression: {error}") from error
    return _Rule(text, compiled, replacement, case)
