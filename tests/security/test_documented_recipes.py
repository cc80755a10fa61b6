"""The recipes of docs/security.md, as they stand there, but for paths, passwords and ports."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner, Result

from barnabas.cli.main import barnabas
from barnabas.clients.admin import Admin, NewTopic
from barnabas.clients.authentication_errors import SslAuthenticationError
from barnabas.clients.settings.client_config import ClientConfig
from tests.fuzz.login_mutants import UNSECURED_TOKEN
from tests.security.conftest import Certificates
from tests.support.barnabas_process import BarnabasProcess
from tests.support.identity_provider import ISSUER, IdentityProvider, SigningKey, TokenAnswer, key_set
from tests.support.server_fixtures import SERVER_PROPERTIES

PAGE: Final = (Path(__file__).parents[2] / "docs" / "security.md").read_text()
BLOCK: Final = re.compile(
    r"```(?:properties|shell)?\n(?P<fenced>.*?)```|(?P<indented>(?:^    .*\n)+)", re.DOTALL | re.MULTILINE
)
ALICES_PASSWORD: Final = "what-alice-knows"


def blocks(heading: str) -> list[str]:
    """The blocks of a section, in their order."""
    section = re.split(r"^#+ ", PAGE.partition(f"# {heading}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]
    found = [match["fenced"] or match["indented"].replace("    ", "") for match in BLOCK.finditer(section)]
    assert found, heading
    return found


class Recipes:
    """Brokers by recipes, and commands against them."""

    def __init__(self, certificates: Certificates, directory: Path) -> None:
        self.certificates = certificates
        self._directory = directory

    def placed(self, recipe: str) -> str:
        """A recipe with the paths, passwords and ports of this test."""
        texts = {
            "/etc/barnabas/server.pem": str(self.certificates.server_pem),
            "/etc/barnabas/ca.pem": str(self.certificates.trust_pem),
            "/etc/kafka/ca.pem": str(self.certificates.trust_pem),
            'password="..."': f'password="{ALICES_PASSWORD}"',
        }
        for text, placed in texts.items():
            recipe = recipe.replace(text, placed)
        return re.sub(r"(0\.0\.0\.0|127\.0\.0\.1):909\d", "127.0.0.1:0", recipe)

    @contextmanager
    def broker(self, *recipes: str) -> Iterator[BarnabasProcess]:
        """Run a broker whose file is these recipes, one below the other."""
        settings = "".join(f"{name}={value}\n" for name, value in SERVER_PROPERTIES.items())
        process = BarnabasProcess(self._directory / "broker")
        process.config_file = self._directory / "server.properties"
        process.config_file.write_text(settings + "\n".join(map(self.placed, recipes)))
        with process.running():
            yield process

    def client_file(self, text: str) -> str:
        """A file for --command-config."""
        path = self._directory / "client.properties"
        path.write_text(self.placed(text))
        return str(path)

    def run(self, servers: str, words: Sequence[str], password: str = "", config: str = "") -> Result:
        """Run a command of ours."""
        environment = {"BARNABAS_BOOTSTRAP_SERVER": servers, "BARNABAS_COMMAND_CONFIG": config}
        done = CliRunner().invoke(barnabas, list(words), input=f"{password}\n" * 2, env=environment)
        assert done.exit_code == 0, done.output
        return done


@pytest.fixture
def recipes(certificates: Certificates, tmp_path: Path) -> Recipes:
    return Recipes(certificates, tmp_path)


def servers(broker: BarnabasProcess, listener: str) -> str:
    return f"localhost:{broker.ports[listener]}"


def key_store() -> str:
    """The broker's key, as the recipe of TLS names it."""
    return "".join(
        f"{line}\n" for line in blocks("Listeners and TLS")[0].splitlines() if line.startswith("ssl.keystore")
    )


def commands(heading: str) -> list[list[str]]:
    """The commands of a section."""
    lines = [line for block in blocks(heading) for line in block.splitlines()]
    return [shlex.split(line)[1:] for line in lines if line.startswith("barnabas ")]


def test_tls(recipes: Recipes) -> None:
    trusting: dict[str, Any] = {
        "security_protocol": "SSL",
        "ssl_truststore_location": str(recipes.certificates.trust_pem),
    }
    with recipes.broker(blocks("Listeners and TLS")[0]) as broker:
        alice = ClientConfig(**trusting, ssl_keystore_location=str(recipes.certificates.client_pem))
        with Admin(servers(broker, "SSL"), config=alice) as admin:
            admin.create_topics([NewTopic("orders", 1, 1)])
        stranger = Admin(servers(broker, "SSL"), config=ClientConfig(**trusting))
        with stranger, pytest.raises(SslAuthenticationError):
            stranger.list_topics()


def test_users_by_password_and_by_scram(recipes: Recipes) -> None:
    """The recipe of SASL, the commands for users, and the file of clients."""
    add, show, delete = commands("Users")
    with recipes.broker(blocks("SASL")[0], key_store()) as broker:
        operator = servers(broker, "PLAINTEXT")
        recipes.run(operator, add, ALICES_PASSWORD)
        assert "alice" in recipes.run(operator, show).output
        file = recipes.client_file(blocks("Clients")[0])
        external = servers(broker, "EXTERNAL")
        recipes.run(external, ["topics", "create", "orders"], config=file)
        plain: dict[str, Any] = {"sasl_mechanism": "PLAIN", "sasl_username": "bob", "sasl_password": "bob-secret"}
        trust: dict[str, Any] = {
            "security_protocol": "SASL_SSL",
            "ssl_truststore_location": str(recipes.certificates.trust_pem),
        }
        with Admin(external, config=ClientConfig(**plain, **trust)) as admin:
            assert "orders" in admin.list_topics()
        recipes.run(operator, delete)
        assert "alice" not in recipes.run(operator, show).output


def test_unsecured_tokens(recipes: Recipes) -> None:
    development = """listeners=PLAINTEXT://127.0.0.1:9092,DEV://127.0.0.1:9093
        listener.security.protocol.map=PLAINTEXT:PLAINTEXT,DEV:SASL_PLAINTEXT
        sasl.enabled.mechanisms=OAUTHBEARER
        """
    with recipes.broker(development, blocks("OAUTHBEARER")[1]) as broker:
        token: dict[str, Any] = {"sasl_mechanism": "OAUTHBEARER", "sasl_oauthbearer_token": UNSECURED_TOKEN.decode()}
        with Admin(servers(broker, "DEV"), config=ClientConfig(security_protocol="SASL_PLAINTEXT", **token)) as admin:
            assert admin.list_topics() == []


def test_signed_tokens(recipes: Recipes) -> None:
    """The recipe of listeners, and the file of clients, which ask an identity provider."""
    key = SigningKey("of the recipe")
    wanted = ("listeners=", "listener.security", "inter.broker")
    listeners = "".join(f"{line}\n" for line in blocks("SASL")[0].splitlines() if line.startswith(wanted))
    enabled = "sasl.enabled.mechanisms=OAUTHBEARER\n"
    listener, _, client = blocks("OAUTHBEARER")
    with IdentityProvider(key_set(key)) as provider:
        provider.answer_token = lambda: TokenAnswer.with_token(key.token(time.time()))
        listener = listener.replace(f"{ISSUER}/jwks", provider.url)
        with recipes.broker(listeners, enabled, key_store(), listener) as broker:
            client = client.replace(f"{ISSUER}/token", provider.token_url)
            trust = f"ssl.truststore.type=PEM\nssl.truststore.location={recipes.certificates.trust_pem}\n"
            file = recipes.client_file(client + trust)
            recipes.run(servers(broker, "EXTERNAL"), ["topics", "list"], config=file)
        assert len(provider.token_posts) == 1


def test_between_brokers(recipes: Recipes) -> None:
    with recipes.broker(blocks("Between brokers")[0]) as broker:
        settings: dict[str, Any] = {
            "security_protocol": "SASL_SSL",
            "ssl_truststore_location": str(recipes.certificates.trust_pem),
            "sasl_mechanism": "SCRAM-SHA-512",
            "sasl_username": "broker",
            "sasl_password": ALICES_PASSWORD,
        }
        with Admin(servers(broker, "CLIENTS"), config=ClientConfig(**settings)) as admin:
            admin.create_topics([NewTopic("orders", 1, 1)])


def test_lists_and_tokens(recipes: Recipes) -> None:
    """The recipes of the authorizer and of delegation tokens, and the commands for both."""
    tokens = "delegation.token.secret.key=of-all-brokers\n"
    with recipes.broker(blocks("SASL")[0], key_store(), blocks("ACLs")[0], tokens) as broker:
        operator = servers(broker, "PLAINTEXT")
        *made, shown, removed = commands("ACLs")
        for words in made:
            assert recipes.run(operator, words).output
        assert "User:alice" in recipes.run(operator, shown).output
        recipes.run(operator, removed, "y")
        assert "User:alice" not in recipes.run(operator, shown).output
        recipes.run(operator, commands("Users")[0], ALICES_PASSWORD)
        file = recipes.client_file(blocks("Clients")[0])
        (create,) = commands("Delegation tokens")
        assert "User:scheduler" in recipes.run(servers(broker, "EXTERNAL"), create, config=file).output
