"""Settings of TLS, SASL, authorization, delegation tokens and stored passwords.

A table, read by `broker_config_keys`; names, types, defaults and bounds are those of Kafka 3.9. Immutable.
Kafka: SslConfigs, BrokerSecurityConfigs, DelegationTokenManagerConfigs.
"""

from __future__ import annotations

from barnabas.config.config_key import ConfigKey, ConfigType, OneOf, Range, Scope
from barnabas.config.keys.bounds import AT_LEAST_0, AT_LEAST_1

SECURITY_KEYS = (
    ConfigKey(
        "authorizer.class.name",
        ConfigType.STRING,
        "",
        "The Java class of the authorizer; without one every client may do everything.",
    ),
    ConfigKey(
        "sasl.mechanism.controller.protocol",
        ConfigType.STRING,
        "GSSAPI",
        "KRaft: the SASL mechanism for connections to the controller.",
    ),
    # KIP-306: the delay slows clients that retry or guess.
    ConfigKey(
        "connection.failed.authentication.delay.ms",
        ConfigType.INT,
        100,
        "How long the answer to a failed authentication is delayed.",
        AT_LEAST_0,
    ),
    # KIP-368: expired credentials end a connection only where this is set.
    ConfigKey(
        "connections.max.reauth.ms",
        ConfigType.LONG,
        0,
        "How long a session lasts before the client must authenticate again; 0 is for ever.",
    ),
    # Bounds the memory that a client can take before it is authenticated.
    ConfigKey(
        "sasl.server.max.receive.size",
        ConfigType.INT,
        524_288,
        "The largest frame that is accepted before authentication is complete.",
    ),
    ConfigKey("security.providers", ConfigType.STRING, None, "The Java security providers."),
    ConfigKey(
        "principal.builder.class",
        ConfigType.CLASS,
        "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
        "The Java class that derives a connection's principal.",
        scope=Scope.PER_BROKER,
    ),
    ConfigKey(
        "ssl.client.auth",
        ConfigType.STRING,
        "none",
        "Whether clients must present a certificate: required, requested or none.",
        OneOf(("required", "requested", "none")),
        scope=Scope.PER_BROKER,
    ),
    ConfigKey(
        "ssl.principal.mapping.rules",
        ConfigType.STRING,
        "DEFAULT",
        "The rules that turn the name in a certificate into a principal.",
    ),
    # KIP-978: normally another name in a certificate that is loaded at run time means a wrong file.
    ConfigKey(
        "ssl.allow.dn.changes", ConfigType.BOOLEAN, False, "Whether a reloaded certificate may have another name."
    ),
    ConfigKey(
        "ssl.allow.san.changes",
        ConfigType.BOOLEAN,
        False,
        "Whether a reloaded certificate may have other alternative names.",
    ),
    ConfigKey("ssl.protocol", ConfigType.STRING, "TLSv1.3", "The TLS version that is used.", scope=Scope.PER_BROKER),
    ConfigKey("ssl.provider", ConfigType.STRING, None, "The Java provider of TLS.", scope=Scope.PER_BROKER),
    # KIP-553 took out everything before TLS 1.2; KIP-573 added TLS 1.3.
    ConfigKey(
        "ssl.enabled.protocols",
        ConfigType.LIST,
        ("TLSv1.2", "TLSv1.3"),
        "The TLS versions that are allowed.",
        scope=Scope.PER_BROKER,
    ),
    ConfigKey(
        "ssl.keystore.type",
        ConfigType.STRING,
        "JKS",
        "The type of the key store: PEM or PKCS12 (JKS must be converted).",
        scope=Scope.PER_BROKER,
    ),
    ConfigKey(
        "ssl.keystore.location",
        ConfigType.STRING,
        None,
        "The file with the private key and the certificate chain.",
        scope=Scope.PER_BROKER,
    ),
    ConfigKey(
        "ssl.keystore.password", ConfigType.PASSWORD, None, "The password of the key store.", scope=Scope.PER_BROKER
    ),
    ConfigKey(
        "ssl.key.password", ConfigType.PASSWORD, None, "The password of the private key.", scope=Scope.PER_BROKER
    ),
    # KIP-651: keys and certificates in PEM may stand in the settings themselves.
    ConfigKey(
        "ssl.keystore.key",
        ConfigType.PASSWORD,
        None,
        "The private key in PEM, instead of a file.",
        scope=Scope.PER_BROKER,
    ),
    ConfigKey(
        "ssl.keystore.certificate.chain",
        ConfigType.PASSWORD,
        None,
        "The certificate chain in PEM, instead of a file.",
        scope=Scope.PER_BROKER,
    ),
    ConfigKey(
        "ssl.truststore.type",
        ConfigType.STRING,
        "JKS",
        "The type of the trust store: PEM or PKCS12 (JKS must be converted).",
        scope=Scope.PER_BROKER,
    ),
    ConfigKey(
        "ssl.truststore.location",
        ConfigType.STRING,
        None,
        "The file with trusted certificates.",
        scope=Scope.PER_BROKER,
    ),
    ConfigKey(
        "ssl.truststore.password", ConfigType.PASSWORD, None, "The password of the trust store.", scope=Scope.PER_BROKER
    ),
    ConfigKey(
        "ssl.truststore.certificates",
        ConfigType.PASSWORD,
        None,
        "The trusted certificates in PEM, instead of a file.",
        scope=Scope.PER_BROKER,
    ),
    ConfigKey(
        "ssl.keymanager.algorithm",
        ConfigType.STRING,
        "SunX509",
        "The Java algorithm of the key manager.",
        scope=Scope.PER_BROKER,
    ),
    ConfigKey(
        "ssl.trustmanager.algorithm",
        ConfigType.STRING,
        "PKIX",
        "The Java algorithm of the trust manager.",
        scope=Scope.PER_BROKER,
    ),
    # Empty until KIP-294, so that any valid certificate was accepted for any host.
    ConfigKey(
        "ssl.endpoint.identification.algorithm",
        ConfigType.STRING,
        "https",
        "Whether the host name of a server is verified (https) or not (empty).",
        scope=Scope.PER_BROKER,
    ),
    ConfigKey(
        "ssl.secure.random.implementation",
        ConfigType.STRING,
        None,
        "The Java random number generator.",
        scope=Scope.PER_BROKER,
    ),
    ConfigKey("ssl.cipher.suites", ConfigType.LIST, (), "The cipher suites that are allowed.", scope=Scope.PER_BROKER),
    ConfigKey(
        "ssl.engine.factory.class",
        ConfigType.CLASS,
        None,
        "The Java class that makes TLS engines.",
        scope=Scope.PER_BROKER,
    ),
    ConfigKey(
        "sasl.mechanism.inter.broker.protocol",
        ConfigType.STRING,
        "GSSAPI",
        "The SASL mechanism between brokers.",
        scope=Scope.PER_BROKER,
    ),
    ConfigKey(
        "sasl.enabled.mechanisms",
        ConfigType.LIST,
        ("GSSAPI",),
        "The SASL mechanisms that are offered.",
        scope=Scope.PER_BROKER,
    ),
    ConfigKey(
        "sasl.server.callback.handler.class",
        ConfigType.CLASS,
        None,
        "The Java class that checks credentials; set for a listener and a mechanism.",
    ),
    ConfigKey(
        "sasl.kerberos.principal.to.local.rules",
        ConfigType.LIST,
        ("DEFAULT",),
        "The rules that turn Kerberos principals into short names.",
        scope=Scope.PER_BROKER,
    ),
    ConfigKey(
        "sasl.jaas.config",
        ConfigType.PASSWORD,
        None,
        "The login context; set for a listener and a mechanism.",
        scope=Scope.PER_BROKER,
    ),
    ConfigKey(
        "sasl.client.callback.handler.class",
        ConfigType.CLASS,
        None,
        "The Java class that supplies credentials of a client.",
    ),
    ConfigKey("sasl.login.class", ConfigType.CLASS, None, "The Java class that logs in."),
    ConfigKey(
        "sasl.login.callback.handler.class",
        ConfigType.CLASS,
        None,
        "The Java class that supplies credentials for a login.",
    ),
    ConfigKey(
        "sasl.kerberos.service.name",
        ConfigType.STRING,
        None,
        "The Kerberos service name of the brokers.",
        scope=Scope.PER_BROKER,
    ),
    ConfigKey(
        "sasl.kerberos.kinit.cmd",
        ConfigType.STRING,
        "/usr/bin/kinit",
        "The path of the kinit command.",
        scope=Scope.PER_BROKER,
    ),
    ConfigKey(
        "sasl.kerberos.ticket.renew.window.factor",
        ConfigType.DOUBLE,
        0.8,
        "The fraction of a Kerberos ticket's life after which the ticket is renewed.",
        scope=Scope.PER_BROKER,
    ),
    ConfigKey(
        "sasl.kerberos.ticket.renew.jitter",
        ConfigType.DOUBLE,
        0.05,
        "The largest random fraction added to the time of a Kerberos ticket's renewal.",
        scope=Scope.PER_BROKER,
    ),
    ConfigKey(
        "sasl.kerberos.min.time.before.relogin",
        ConfigType.LONG,
        60_000,
        "The shortest time between two renewals of a Kerberos ticket.",
        scope=Scope.PER_BROKER,
    ),
    ConfigKey(
        "sasl.login.refresh.window.factor",
        ConfigType.DOUBLE,
        0.8,
        "The fraction of a token's life after which the token is renewed.",
        scope=Scope.PER_BROKER,
    ),
    ConfigKey(
        "sasl.login.refresh.window.jitter",
        ConfigType.DOUBLE,
        0.05,
        "The largest random fraction added to the time of a token's renewal.",
        scope=Scope.PER_BROKER,
    ),
    ConfigKey(
        "sasl.login.refresh.min.period.seconds",
        ConfigType.SHORT,
        60,
        "The shortest time between two renewals of a token.",
        scope=Scope.PER_BROKER,
    ),
    ConfigKey(
        "sasl.login.refresh.buffer.seconds",
        ConfigType.SHORT,
        300,
        "The time before a token's expiry by which the token is renewed.",
        scope=Scope.PER_BROKER,
    ),
    # KIP-768: this group is for tokens that a client fetches from an OpenID provider.
    ConfigKey(
        "sasl.login.connect.timeout.ms", ConfigType.INT, None, "How long connecting to the token endpoint may take."
    ),
    ConfigKey("sasl.login.read.timeout.ms", ConfigType.INT, None, "How long the token endpoint may take to answer."),
    ConfigKey(
        "sasl.login.retry.backoff.max.ms", ConfigType.LONG, 10_000, "The longest pause between two login attempts."
    ),
    ConfigKey("sasl.login.retry.backoff.ms", ConfigType.LONG, 100, "The first pause between two login attempts."),
    ConfigKey("sasl.oauthbearer.scope.claim.name", ConfigType.STRING, "scope", "The claim that holds the scope."),
    ConfigKey("sasl.oauthbearer.sub.claim.name", ConfigType.STRING, "sub", "The claim that holds the subject."),
    ConfigKey("sasl.oauthbearer.token.endpoint.url", ConfigType.STRING, None, "The URL from which tokens are fetched."),
    ConfigKey(
        "sasl.oauthbearer.jwks.endpoint.url",
        ConfigType.STRING,
        None,
        "The URL from which the keys that sign tokens are fetched.",
    ),
    ConfigKey(
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        ConfigType.LONG,
        3_600_000,
        "How often the keys that sign tokens are fetched again.",
    ),
    ConfigKey(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
        ConfigType.LONG,
        100,
        "The first pause after a failed fetch of the keys that sign tokens.",
    ),
    ConfigKey(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
        ConfigType.LONG,
        10_000,
        "The longest pause after a failed fetch of the keys that sign tokens.",
    ),
    ConfigKey(
        "sasl.oauthbearer.clock.skew.seconds",
        ConfigType.INT,
        30,
        "The difference between clocks that is tolerated in a token's times.",
    ),
    ConfigKey(
        "sasl.oauthbearer.expected.audience", ConfigType.LIST, None, "The audiences of which a token must name one."
    ),
    ConfigKey("sasl.oauthbearer.expected.issuer", ConfigType.STRING, None, "The issuer that a token must name."),
    # KIP-681 renamed it; Kafka reads both names.
    ConfigKey(
        "delegation.token.master.key", ConfigType.PASSWORD, None, "The deprecated name of delegation.token.secret.key."
    ),
    ConfigKey(
        "delegation.token.secret.key",
        ConfigType.PASSWORD,
        None,
        "The secret that signs delegation tokens, the same on all brokers.",
    ),
    ConfigKey(
        "delegation.token.max.lifetime.ms",
        ConfigType.LONG,
        604_800_000,
        "The longest life of a delegation token.",
        AT_LEAST_1,
    ),
    ConfigKey(
        "delegation.token.expiry.time.ms",
        ConfigType.LONG,
        86_400_000,
        "The life of a delegation token that is not renewed.",
        AT_LEAST_1,
    ),
    ConfigKey(
        "delegation.token.expiry.check.interval.ms",
        ConfigType.LONG,
        3_600_000,
        "How often the broker looks for expired delegation tokens.",
        AT_LEAST_1,
    ),
    # KIP-226: dynamic settings are kept in ZooKeeper, where passwords among them must not be readable.
    ConfigKey(
        "password.encoder.secret",
        ConfigType.PASSWORD,
        None,
        "The secret that encrypts passwords kept as dynamic settings.",
    ),
    ConfigKey(
        "password.encoder.old.secret",
        ConfigType.PASSWORD,
        None,
        "The previous secret, while password.encoder.secret is replaced.",
    ),
    ConfigKey(
        "password.encoder.keyfactory.algorithm",
        ConfigType.STRING,
        None,
        "The key derivation for the encryption of passwords.",
    ),
    ConfigKey(
        "password.encoder.cipher.algorithm",
        ConfigType.STRING,
        "AES/CBC/PKCS5Padding",
        "The cipher for the encryption of passwords.",
    ),
    ConfigKey(
        "password.encoder.key.length", ConfigType.INT, 128, "The key length for the encryption of passwords.", Range(8)
    ),
    ConfigKey(
        "password.encoder.iterations",
        ConfigType.INT,
        4096,
        "The number of iterations of the key derivation for passwords.",
        Range(1024),
    ),
)
