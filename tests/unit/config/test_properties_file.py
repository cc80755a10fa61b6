"""The grammar of Java's .properties files."""

from pathlib import Path

import pytest

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
