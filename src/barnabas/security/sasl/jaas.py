"""Login contexts in Java's notation, as Kafka's settings have them (`sasl.jaas.config`).

    org.apache.kafka.common.security.plain.PlainLoginModule required username="admin" password="x" user_alice="y";

Called where settings are read, on any thread. Pure; no lock. No error quotes a value: most values are passwords.
Kafka: JaasConfig, JaasContext.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_FLAGS: Final = ("REQUIRED", "REQUISITE", "SUFFICIENT", "OPTIONAL")
_BLANK: Final = re.compile(r"(?:\s+|/\*.*?\*/|//[^\n]*)*", re.DOTALL)
_TOKEN: Final = re.compile(
    r"""(?P<sign>[=;])|"(?P<double>(?:[^"\\]|\\.)*)"|'(?P<single>(?:[^'\\]|\\.)*)'|(?P<word>[^\s=;"']+)""", re.DOTALL
)
_ESCAPE: Final = re.compile(r"\\([0-7]{1,3}|.)", re.DOTALL)
_ESCAPED: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "a": "\a", "v": "\v"}


class InvalidJaas(ValueError):
    """The error for a login context that cannot be read. Its text quotes no value."""


class LoginModule(NamedTuple):
    """One entry of a login context. name: the Java class. options: secrets among them."""

    name: str
    options: dict[str, str]

    @property
    def short_name(self) -> str:
        """The name of the Java class without its package: PlainLoginModule."""
        return self.name.rpartition(".")[2]

    def __repr__(self) -> str:
        return f"LoginModule({self.name}, options hidden)"


def parse_login_module(text: str) -> LoginModule:
    """Parse a login context with one module, as Kafka demands. Raises InvalidJaas: it is malformed, or has several."""
    modules = _modules(_tokens(text))
    if len(modules) != 1:
        raise InvalidJaas(f"JAAS config property contains {len(modules) or 'no'} login modules, should be 1 module")
    return modules[0]


class _Token(NamedTuple):
    text: str
    is_sign: bool


def _tokens(text: str) -> list[_Token]:
    tokens = []
    position = _end_of_blank(text, 0)
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise InvalidJaas(f"A quoted value begins at character {position} and does not end")
        if match["sign"]:
            tokens.append(_Token(match["sign"], is_sign=True))
        elif match["word"] is not None:
            tokens.append(_Token(match["word"], is_sign=False))
        else:
            quoted = match["double"] if match["double"] is not None else match["single"]
            tokens.append(_Token(_ESCAPE.sub(_unescaped, quoted), is_sign=False))
        position = _end_of_blank(text, match.end())
    return tokens


def _end_of_blank(text: str, position: int) -> int:
    match = _BLANK.match(text, position)
    return position if match is None else match.end()


def _unescaped(match: re.Match[str]) -> str:
    escaped = match[1]
    return chr(int(escaped, 8)) if escaped[0] in "01234567" else _ESCAPED.get(escaped, escaped)


def _modules(tokens: list[_Token]) -> list[LoginModule]:
    modules = []
    entry: list[_Token] = []
    for token in tokens:
        if token == _Token(";", is_sign=True):
            modules.append(_module(entry))
            entry = []
        else:
            entry.append(token)
    if entry:
        raise InvalidJaas("JAAS config entry not terminated by semi-colon")
    return modules


def _module(entry: list[_Token]) -> LoginModule:
    match entry:
        case [_Token(name, False), _Token(flag, False), *rest]:
            pass
        case _:
            raise InvalidJaas("A login module begins with its class and a control flag")
    if flag.upper() not in _FLAGS:
        raise InvalidJaas(f"The control flag of {name} is one of {', '.join(_FLAGS).lower()}")
    options: dict[str, str] = {}
    if len(rest) % 3:
        raise InvalidJaas(f"The options of {name} are name=value, each value in quotes if it has other than letters")
    for key, sign, value in zip(rest[::3], rest[1::3], rest[2::3], strict=True):
        if key.is_sign or sign.text != "=" or not sign.is_sign or value.is_sign:
            raise InvalidJaas(
                f"The options of {name} are name=value, each value in quotes if it has other than letters"
            )
        if key.text in options:
            raise InvalidJaas(f"The option {key.text} of {name} is given twice")
        options[key.text] = value.text
    return LoginModule(name, options)
