"""The rules that make the name of a principal of the name in a client's certificate: ssl.principal.mapping.rules.

Parsed once for each listener; immutable, so the Processors share it. Kafka: SslPrincipalMapper.

    RULE:^CN=([^,]+),.*$/$1/L,DEFAULT

makes `kafka-1` of `CN=Kafka-1,O=Example`, and leaves a name without CN as it is: the first rule whose pattern matches
the whole name decides. `L` and `U` make lower and upper case. A slash inside a pattern or replacement is written `\\/`.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

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
    """A list of rules."""

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
