"""ssl.principal.mapping.rules: Kafka's grammar, its own test cases (SslPrincipalMapperTest), and any text."""

from __future__ import annotations

import re
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.security.tls.distinguished_name import InvalidRule, NoMatchingRule, PrincipalMapper

RULES = (
    r"RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L, "
    r"RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L, "
    r"RULE:^cn=(.*?),ou=(.*?),dc=(.*?),dc=(.*?)$/$1@$2/U, "
    r"RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U"
)


@pytest.mark.parametrize(
    ("rules", "name", "principal"),
    [
        ("DEFAULT", "CN=a,O=b", "CN=a,O=b"),
        (RULES, "CN=Duke,OU=ServiceUsers,O=Org,C=US", "duke"),
        (RULES, "CN=Duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US", "duke@sme"),
        (RULES, "cn=duke,ou=sme,dc=mycp,dc=com", "DUKE@SME"),
        (RULES, "OU=x,CN=kafka-1.example", "KAFKA"),
        ("RULE:^CN=([^,]+).*$/$1/,DEFAULT", "O=only", "O=only"),
        ("RULE:^CN=([^,ADEFLTU,]+)(,.*|$)/$1/", "CN=zk", "zk"),
        (r"RULE:^CN=(\w+)\/(\w+)$/$2\/$1/", "CN=a/b", "b/a"),
        ("RULE:^CN=(?<name>.*)$/$1/U", "CN=kafka", "KAFKA"),
        ("RULE:CN=(.)(.)/$12-$3-$0/", "CN=ab", "a2-$3-CN=ab"),
        ("RULE:CN=.*/fixed/", "CN=a", "fixed"),
        (" , ,DEFAULT", "CN=a", "CN=a"),
    ],
)
def test_the_first_rule_that_matches_decides(rules: str, name: str, principal: str) -> None:
    assert PrincipalMapper(rules).name_of(name) == principal


@pytest.mark.parametrize(
    "rules",
    [
        "default",
        "DEFAUL",
        "DEFAULT/L",
        "DEFAULT/",
        "RULE:CN=(.*?),OU=ServiceUsers.*/$1",
        "rule:^CN=(.*?),OU=ServiceUsers.*$/$1/L/U",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/L",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/U",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/LU",
        "RULE:[/$1/",
    ],
)
def test_a_malformed_rule_is_refused(rules: str) -> None:
    with pytest.raises(InvalidRule, match="Invalid rule"):
        PrincipalMapper(rules)


def test_a_name_that_no_rule_matches_has_no_principal() -> None:
    with pytest.raises(NoMatchingRule, match=re.escape("No rules apply to O=x, rules [RULE:CN=.*/a/]")):
        PrincipalMapper("RULE:CN=.*/a/").name_of("O=x")


@given(st.text(alphabet="DEFAULTRU:/\\^$()[].*?L,= 1", max_size=40), st.text(max_size=20))
def test_any_text_is_rules_or_refused(rules: str, name: str) -> None:
    try:
        mapper = PrincipalMapper(rules)
    except InvalidRule:
        return
    with suppress(NoMatchingRule):
        assert isinstance(mapper.name_of(name), str)


@given(st.text(alphabet=st.characters(exclude_characters="\n\r"), min_size=1, max_size=30))
def test_a_rule_takes_the_common_name_out(name: str) -> None:
    escaped = re.sub(r"([,=+<>#;\"\\])", r"\\\1", name)
    assert PrincipalMapper(r"RULE:^CN=((?:\\.|[^,\\])*)$/$1/,DEFAULT").name_of(f"CN={escaped}") == escaped
