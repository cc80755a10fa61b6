"""Settings of TLS, SASL, authorization, delegation tokens and stored passwords.

A table, read by `broker_config_keys`; names, types, defaults and bounds are those of Kafka 3.9. Immutable.
Kafka: SslConfigs, BrokerSecurityConfigs, DelegationTokenManagerConfigs.
"""

from __future__ import annotations

from typing import Final

from barnabas.config.config_key import (
    AT_LEAST_0,
    AT_LEAST_1,
    BOOLEAN,
    CLASS,
    DOUBLE,
    INT,
    LIST,
    LONG,
    PASSWORD,
    PER_BROKER,
    SHORT,
    STRING,
    OneOf,
    Range,
)
from barnabas.config.keys.measurement_keys import NO_CLASSES

_PASSWORDS_ONLY: Final = "brokers log in to each other by a password, not by Kerberos or tokens"
_NO_JAVA_TLS: Final = "TLS is OpenSSL's, and not Java's"

SECURITY_KEYS = (
    STRING("authorizer.class.name", "")
    | "The Java class of the authorizer; without one every client may do everything.",
    STRING("sasl.mechanism.controller.protocol", "GSSAPI", kept=_PASSWORDS_ONLY)
    | "KRaft: the SASL mechanism for connections to the controller.",
    # KIP-306: the delay slows clients that retry or guess.
    INT("connection.failed.authentication.delay.ms", 100, AT_LEAST_0)
    | "How long the answer to a failed authentication is delayed.",
    # KIP-368: expired credentials end a connection only where this is set.
    LONG("connections.max.reauth.ms", 0)
    | "How long a session lasts before the client must authenticate again; 0 is for ever.",
    # Bounds the memory that a client can take before it is authenticated.
    INT("sasl.server.max.receive.size", 524_288)
    | "The largest frame that is accepted before authentication is complete.",
    STRING("security.providers", None, kept=NO_CLASSES) | "The Java security providers.",
    CLASS(
        "principal.builder.class",
        "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
        scope=PER_BROKER,
    )
    | "The Java class that derives a connection's principal.",
    STRING("ssl.client.auth", "none", OneOf(("required", "requested", "none")), PER_BROKER)
    | "Whether clients must present a certificate: required, requested or none.",
    STRING("ssl.principal.mapping.rules", "DEFAULT")
    | "The rules that turn the name in a certificate into a principal.",
    # KIP-978: normally another name in a certificate that is loaded at run time means a wrong file.
    BOOLEAN("ssl.allow.dn.changes", False) | "Whether a reloaded certificate may have another name.",
    BOOLEAN("ssl.allow.san.changes", False) | "Whether a reloaded certificate may have other alternative names.",
    STRING(
        "ssl.protocol", "TLSv1.3", scope=PER_BROKER, kept="ssl.enabled.protocols decides which versions of TLS are used"
    )
    | "The TLS version that is used.",
    STRING("ssl.provider", None, scope=PER_BROKER, kept=_NO_JAVA_TLS) | "The Java provider of TLS.",
    # KIP-553 took out everything before TLS 1.2; KIP-573 added TLS 1.3.
    LIST("ssl.enabled.protocols", ("TLSv1.2", "TLSv1.3"), scope=PER_BROKER) | "The TLS versions that are allowed.",
    STRING("ssl.keystore.type", "JKS", scope=PER_BROKER)
    | "The type of the key store: PEM or PKCS12 (JKS must be converted).",
    STRING("ssl.keystore.location", None, scope=PER_BROKER)
    | "The file with the private key and the certificate chain.",
    PASSWORD("ssl.keystore.password", None, scope=PER_BROKER) | "The password of the key store.",
    PASSWORD("ssl.key.password", None, scope=PER_BROKER) | "The password of the private key.",
    # KIP-651: keys and certificates in PEM may stand in the settings themselves.
    PASSWORD("ssl.keystore.key", None, scope=PER_BROKER) | "The private key in PEM, instead of a file.",
    PASSWORD("ssl.keystore.certificate.chain", None, scope=PER_BROKER)
    | "The certificate chain in PEM, instead of a file.",
    STRING("ssl.truststore.type", "JKS", scope=PER_BROKER)
    | "The type of the trust store: PEM or PKCS12 (JKS must be converted).",
    STRING("ssl.truststore.location", None, scope=PER_BROKER) | "The file with trusted certificates.",
    PASSWORD("ssl.truststore.password", None, scope=PER_BROKER) | "The password of the trust store.",
    PASSWORD("ssl.truststore.certificates", None, scope=PER_BROKER)
    | "The trusted certificates in PEM, instead of a file.",
    STRING("ssl.keymanager.algorithm", "SunX509", scope=PER_BROKER, kept=_NO_JAVA_TLS)
    | "The Java algorithm of the key manager.",
    STRING("ssl.trustmanager.algorithm", "PKIX", scope=PER_BROKER, kept=_NO_JAVA_TLS)
    | "The Java algorithm of the trust manager.",
    # Empty until KIP-294, so that any valid certificate was accepted for any host.
    STRING("ssl.endpoint.identification.algorithm", "https", scope=PER_BROKER)
    | "Whether the host name of a server is verified (https) or not (empty).",
    STRING("ssl.secure.random.implementation", None, scope=PER_BROKER, kept=_NO_JAVA_TLS)
    | "The Java random number generator.",
    LIST("ssl.cipher.suites", (), scope=PER_BROKER) | "The cipher suites that are allowed.",
    CLASS("ssl.engine.factory.class", None, scope=PER_BROKER) | "The Java class that makes TLS engines.",
    STRING("sasl.mechanism.inter.broker.protocol", "GSSAPI", scope=PER_BROKER) | "The SASL mechanism between brokers.",
    LIST("sasl.enabled.mechanisms", ("GSSAPI",), scope=PER_BROKER) | "The SASL mechanisms that are offered.",
    CLASS("sasl.server.callback.handler.class", None)
    | "The Java class that checks credentials; set for a listener and a mechanism.",
    LIST("sasl.kerberos.principal.to.local.rules", ("DEFAULT",), scope=PER_BROKER, kept=_PASSWORDS_ONLY)
    | "The rules that turn Kerberos principals into short names.",
    PASSWORD("sasl.jaas.config", None, scope=PER_BROKER) | "The login context; set for a listener and a mechanism.",
    CLASS("sasl.client.callback.handler.class", None, kept=_PASSWORDS_ONLY)
    | "The Java class that supplies credentials of a client.",
    CLASS("sasl.login.class", None, kept=_PASSWORDS_ONLY) | "The Java class that logs in.",
    CLASS("sasl.login.callback.handler.class", None, kept=_PASSWORDS_ONLY)
    | "The Java class that supplies credentials for a login.",
    STRING("sasl.kerberos.service.name", None, scope=PER_BROKER) | "The Kerberos service name of the brokers.",
    STRING("sasl.kerberos.kinit.cmd", "/usr/bin/kinit", scope=PER_BROKER, kept=_PASSWORDS_ONLY)
    | "The path of the kinit command.",
    DOUBLE("sasl.kerberos.ticket.renew.window.factor", 0.8, scope=PER_BROKER, kept=_PASSWORDS_ONLY)
    | "The fraction of a Kerberos ticket's life after which the ticket is renewed.",
    DOUBLE("sasl.kerberos.ticket.renew.jitter", 0.05, scope=PER_BROKER, kept=_PASSWORDS_ONLY)
    | "The largest random fraction added to the time of a Kerberos ticket's renewal.",
    LONG("sasl.kerberos.min.time.before.relogin", 60_000, scope=PER_BROKER, kept=_PASSWORDS_ONLY)
    | "The shortest time between two renewals of a Kerberos ticket.",
    DOUBLE("sasl.login.refresh.window.factor", 0.8, scope=PER_BROKER, kept=_PASSWORDS_ONLY)
    | "The fraction of a token's life after which the token is renewed.",
    DOUBLE("sasl.login.refresh.window.jitter", 0.05, scope=PER_BROKER, kept=_PASSWORDS_ONLY)
    | "The largest random fraction added to the time of a token's renewal.",
    SHORT("sasl.login.refresh.min.period.seconds", 60, scope=PER_BROKER, kept=_PASSWORDS_ONLY)
    | "The shortest time between two renewals of a token.",
    SHORT("sasl.login.refresh.buffer.seconds", 300, scope=PER_BROKER, kept=_PASSWORDS_ONLY)
    | "The time before a token's expiry by which the token is renewed.",
    # KIP-768: this group is for tokens that a client fetches from an OpenID provider.
    INT("sasl.login.connect.timeout.ms", None, kept=_PASSWORDS_ONLY)
    | "How long connecting to the token endpoint may take.",
    INT("sasl.login.read.timeout.ms", None, kept=_PASSWORDS_ONLY) | "How long the token endpoint may take to answer.",
    LONG("sasl.login.retry.backoff.max.ms", 10_000, kept=_PASSWORDS_ONLY)
    | "The longest pause between two login attempts.",
    LONG("sasl.login.retry.backoff.ms", 100, kept=_PASSWORDS_ONLY) | "The first pause between two login attempts.",
    STRING("sasl.oauthbearer.scope.claim.name", "scope") | "The claim that holds the scope.",
    STRING("sasl.oauthbearer.sub.claim.name", "sub") | "The claim that holds the subject.",
    STRING("sasl.oauthbearer.token.endpoint.url", None, kept=_PASSWORDS_ONLY)
    | "The URL from which tokens are fetched.",
    STRING("sasl.oauthbearer.jwks.endpoint.url", None) | "The URL from which the keys that sign tokens are fetched.",
    LONG("sasl.oauthbearer.jwks.endpoint.refresh.ms", 3_600_000)
    | "How often the keys that sign tokens are fetched again.",
    LONG("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", 100)
    | "The first pause after a failed fetch of the keys that sign tokens.",
    LONG("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", 10_000)
    | "The longest pause after a failed fetch of the keys that sign tokens.",
    INT("sasl.oauthbearer.clock.skew.seconds", 30)
    | "The difference between clocks that is tolerated in a token's times.",
    LIST("sasl.oauthbearer.expected.audience", None) | "The audiences of which a token must name one.",
    STRING("sasl.oauthbearer.expected.issuer", None) | "The issuer that a token must name.",
    # KIP-681 renamed it; Kafka reads both names.
    PASSWORD("delegation.token.master.key", None) | "The deprecated name of delegation.token.secret.key.",
    PASSWORD("delegation.token.secret.key", None) | "The secret that signs delegation tokens, the same on all brokers.",
    LONG("delegation.token.max.lifetime.ms", 604_800_000, AT_LEAST_1) | "The longest life of a delegation token.",
    LONG("delegation.token.expiry.time.ms", 86_400_000, AT_LEAST_1)
    | "The life of a delegation token that is not renewed.",
    LONG("delegation.token.expiry.check.interval.ms", 3_600_000, AT_LEAST_1)
    | "How often the broker looks for expired delegation tokens.",
    # KIP-226: dynamic settings are kept in ZooKeeper, where passwords among them must not be readable.
    PASSWORD("password.encoder.secret", None) | "The secret that encrypts passwords kept as dynamic settings.",
    PASSWORD("password.encoder.old.secret", None) | "The previous secret, while password.encoder.secret is replaced.",
    STRING("password.encoder.keyfactory.algorithm", None) | "The key derivation for the encryption of passwords.",
    STRING("password.encoder.cipher.algorithm", "AES/CBC/PKCS5Padding") | "The cipher for the encryption of passwords.",
    INT("password.encoder.key.length", 128, Range(8)) | "The key length for the encryption of passwords.",
    INT("password.encoder.iterations", 4096, Range(1024))
    | "The number of iterations of the key derivation for passwords.",
)
