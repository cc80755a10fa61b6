"""What a client logs in with, out of a login context in Java's notation.

Read of a client's settings, or of those by which a broker logs in to other brokers; pure. No error quotes a value.
Kafka: JaasContext, PlainLoginModule, ScramLoginModule.
"""

from __future__ import annotations

from barnabas.config.secret import Secret
from barnabas.security.sasl.client.client_authenticator import PasswordUser
from barnabas.security.sasl.jaas import InvalidJaas, LoginModule, parse_login_module
from barnabas.security.sasl.mechanisms import MECHANISMS


def module_of_login_context(mechanism: str, jaas: Secret) -> LoginModule:
    """Return the one module of a login context. Raises InvalidJaas: it is malformed, or is for another mechanism."""
    module = parse_login_module(jaas.reveal())
    expected = MECHANISMS[mechanism].login_module
    if module.short_name != expected:
        raise InvalidJaas(f"{mechanism} takes {expected}, not {module.short_name}")
    return module


def user_of_login_context(mechanism: str, jaas: Secret) -> PasswordUser:
    """Return the user whom a login context names.

    Raises InvalidJaas: it is malformed, is for another mechanism, or lacks the user or the password.
    """
    module = module_of_login_context(mechanism, jaas)
    if not module.options.get("username") or not module.options.get("password"):
        raise InvalidJaas(f"{module.short_name} needs the options username and password")
    is_token = module.options.get("tokenauth", "").lower() == "true"
    return PasswordUser(module.options["username"], Secret(module.options["password"]), is_token)
