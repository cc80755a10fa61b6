"""Login contexts in Java's notation."""

from __future__ import annotations

import pytest

from barnabas.security.sasl.jaas import InvalidJaas, LoginModule, parse_login_module

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (f"{PLAIN} required;", {}),
        (f'{PLAIN} required username="admin" password="x" user_a="b;c=d" ;', {"user_a": "b;c=d"}),
        (f"{PLAIN} REQUIRED\n  user_a='it \"is\"'\n  user_b=plain;\n", {"user_a": 'it "is"', "user_b": "plain"}),
        (f'{PLAIN} required user_a="a\\"b\\\\c\\101\\n" // comment\n;', {"user_a": 'a"b\\cA\n'}),
        (f'/* comment ; */ {PLAIN} required user_a = "";', {"user_a": ""}),
    ],
)
def test_a_login_module_is_read(text: str, options: dict[str, str]) -> None:
    module = parse_login_module(text)
    assert module.name == PLAIN
    assert module.short_name == "PlainLoginModule"
    assert {name: value for name, value in module.options.items() if name.startswith("user_")} == options


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "contains no login modules"),
        (f"{PLAIN} required; {PLAIN} required;", "contains 2 login modules"),
        (f'{PLAIN} required user_a="secret"', "not terminated by semi-colon"),
        (f"{PLAIN};", "a control flag"),
        (f'{PLAIN} needed user_a="secret";', "is one of required"),
        (f'{PLAIN} required user_a "secret";', "name=value"),
        (f'{PLAIN} required user_a="secret" user_a="secret";', "given twice"),
        (f'{PLAIN} required user_a="secret;', "does not end"),
        (f"{PLAIN} required user_a=se=cret;", "name=value"),
    ],
)
def test_a_malformed_context_is_rejected_without_its_values(text: str, message: str) -> None:
    with pytest.raises(InvalidJaas, match=message) as caught:
        parse_login_module(text)
    assert "secret" not in str(caught.value)


def test_no_option_is_shown() -> None:
    assert "secret" not in f"{LoginModule(PLAIN, {'user_a': 'secret'})}"
