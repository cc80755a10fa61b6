"""The grammar of Java's .properties files."""

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.config.config_error import ConfigError
from barnabas.config.properties_file import load_properties, parse_properties


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=1", {"a": "1"}),
        ("a = 1 ", {"a": "1 "}),
        ("a:1", {"a": "1"}),
        ("a 1", {"a": "1"}),
        ("a\t=\t1", {"a": "1"}),
        ("a", {"a": ""}),
        ("a=", {"a": ""}),
        ("a==1", {"a": "=1"}),
        ("a = : 1", {"a": ": 1"}),
        ("a=1\na=2", {"a": "2"}),
        ("# a=1\n! b=2\n  # c=3\n\n  d=4", {"d": "4"}),
        ("a=1\\\n   2\\\n  # 3\nb=4", {"a": "12# 3", "b": "4"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        ("a=1\\\n", {"a": "1"}),
        ("a=1\\\n\nb=2", {"a": "1", "b": "2"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a\\ b\\==c", {"a b=": "c"}),
        ("a=\\t\\n\\q\\\\", {"a": "\t\nq\\"}),
        ("a=\\u00e9\\ud83d\\ude00", {"a": "é😀"}),
        ("listeners=PLAINTEXT://:9092", {"listeners": "PLAINTEXT://:9092"}),
        ("\\\n", {}),
    ],
)
def test_reads_as_java_does(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected


def test_malformed_unicode_escape_names_file_and_line() -> None:
    with pytest.raises(ConfigError, match=r"server.properties, line 2: Malformed"):
        parse_properties("a=1\nb=\\u12g4\n", source="server.properties")


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_both_encodings_are_read(tmp_path: Path, encoding: str) -> None:
    file = tmp_path / "server.properties"
    file.write_bytes("broker.rack=Überlingen".encode(encoding))
    assert load_properties(str(file)) == {"broker.rack": "Überlingen"}


def stored(text: str, *, is_key: bool) -> str:
    """As java.util.Properties.store writes it: everything that could mean something is escaped."""
    escapes = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}
    out = []
    for index, character in enumerate(text):
        if character == " " and (is_key or index == 0):
            out.append("\\ ")
        elif character in escapes:
            out.append(escapes[character])
        elif character in "=:#!\\":
            out.append("\\" + character)
        elif " " <= character <= "~":
            out.append(character)
        else:
            units = character.encode("utf-16-be")
            out += [f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2)]
    return "".join(out)


@given(st.dictionaries(st.text(min_size=1), st.text()))
def test_what_java_stores_is_read_back(properties: dict[str, str]) -> None:
    lines = (f"{stored(key, is_key=True)}={stored(value, is_key=False)}" for key, value in properties.items())
    assert parse_properties("#comment\n" + "\n".join(lines)) == properties


@given(st.text(alphabet="ab=: \t\\\n\r#!u0"))
def test_any_text_is_settings_or_an_error(text: str) -> None:
    with suppress(ConfigError):
        assert all(isinstance(value, str) for value in parse_properties(text).values())
