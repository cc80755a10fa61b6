"""Settings of TLS, SASL, authorization, delegation tokens and stored passwords.

A table, read by `broker_config_keys`; names, types, defaults and bounds are those of Kafka 3.9. Immutable.
"""

from __future__ import annotations

from barnabas.config.config_key import ConfigKey, ConfigType, OneOf, Range, Scope
from barnabas.config.keys.bounds import AT_LEAST_0, AT_LEAST_1

SECURITY_KEYS = (
    ConfigKey("authorizer.class.name", ConfigType.STRING, "", "The authorizer; none means that everything is allowed."),
    ConfigKey(
        "sasl.mechanism.controller.protocol",
        ConfigType.STRING,
        "GSSAPI",
        "KRaft: SASL mechanism towards the controller.",
    ),
    ConfigKey(
        "connection.failed.authentication.delay.ms",
        ConfigType.INT,
        100,
        "How long the answer to a failed authentication is held back.",
        AT_LEAST_0,
    ),
    ConfigKey(
        "connections.max.reauth.ms", ConfigType.LONG, 0, "Sessions must authenticate again after this time; 0 never."
    ),
    ConfigKey(
        "sasl.server.max.receive.size", ConfigType.INT, 524_288, "Largest frame accepted before authentication is done."
    ),
    ConfigKey("security.providers", ConfigType.STRING, None, "Java security providers; meaningless here."),
    ConfigKey(
        "principal.builder.class",
        ConfigType.CLASS,
        "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
        "How a connection's principal is made.",
        scope=Scope.PER_BROKER,
    ),
    ConfigKey(
        "ssl.client.auth",
        ConfigType.STRING,
        "none",
        "Whether clients must show a certificate: required, requested or none.",
        OneOf(("required", "requested", "none")),
        scope=Scope.PER_BROKER,
    ),
    ConfigKey(
        "ssl.principal.mapping.rules",
        ConfigType.STRING,
        "DEFAULT",
        "Rules that turn a certificate's name into a principal.",
    ),
    ConfigKey(
        "ssl.allow.dn.changes", ConfigType.BOOLEAN, False, "Whether a reloaded certificate may carry another name."
    ),
    ConfigKey(
        "ssl.allow.san.changes",
        ConfigType.BOOLEAN,
        False,
        "Whether a reloaded certificate may carry other alternative names.",
    ),
    ConfigKey("ssl.protocol", ConfigType.STRING, "TLSv1.3", "TLS version used.", scope=Scope.PER_BROKER),
    ConfigKey("ssl.provider", ConfigType.STRING, None, "Java TLS provider; meaningless here.", scope=Scope.PER_BROKER),
    ConfigKey(
        "ssl.enabled.protocols",
        ConfigType.LIST,
        ("TLSv1.2", "TLSv1.3"),
        "TLS versions allowed.",
        scope=Scope.PER_BROKER,
    ),
    ConfigKey(
        "ssl.keystore.type",
        ConfigType.STRING,
        "JKS",
        "Type of the key store: PEM or PKCS12 (JKS must be converted).",
        scope=Scope.PER_BROKER,
    ),
    ConfigKey(
        "ssl.keystore.location",
        ConfigType.STRING,
        None,
        "File with the private key and certificate chain.",
        scope=Scope.PER_BROKER,
    ),
    ConfigKey("ssl.keystore.password", ConfigType.PASSWORD, None, "Password of the key store.", scope=Scope.PER_BROKER),
    ConfigKey("ssl.key.password", ConfigType.PASSWORD, None, "Password of the private key.", scope=Scope.PER_BROKER),
    ConfigKey(
        "ssl.keystore.key", ConfigType.PASSWORD, None, "Private key in PEM, instead of a file.", scope=Scope.PER_BROKER
    ),
    ConfigKey(
        "ssl.keystore.certificate.chain",
        ConfigType.PASSWORD,
        None,
        "Certificate chain in PEM, instead of a file.",
        scope=Scope.PER_BROKER,
    ),
    ConfigKey(
        "ssl.truststore.type",
        ConfigType.STRING,
        "JKS",
        "Type of the trust store: PEM or PKCS12 (JKS must be converted).",
        scope=Scope.PER_BROKER,
    ),
    ConfigKey(
        "ssl.truststore.location", ConfigType.STRING, None, "File with trusted certificates.", scope=Scope.PER_BROKER
    ),
    ConfigKey(
        "ssl.truststore.password", ConfigType.PASSWORD, None, "Password of the trust store.", scope=Scope.PER_BROKER
    ),
    ConfigKey(
        "ssl.truststore.certificates",
        ConfigType.PASSWORD,
        None,
        "Trusted certificates in PEM, instead of a file.",
        scope=Scope.PER_BROKER,
    ),
    ConfigKey(
        "ssl.keymanager.algorithm",
        ConfigType.STRING,
        "SunX509",
        "Java key manager; meaningless here.",
        scope=Scope.PER_BROKER,
    ),
    ConfigKey(
        "ssl.trustmanager.algorithm",
        ConfigType.STRING,
        "PKIX",
        "Java trust manager; meaningless here.",
        scope=Scope.PER_BROKER,
    ),
    ConfigKey(
        "ssl.endpoint.identification.algorithm",
        ConfigType.STRING,
        "https",
        "Whether a server's host name is verified (https) or not (empty).",
        scope=Scope.PER_BROKER,
    ),
    ConfigKey(
        "ssl.secure.random.implementation",
        ConfigType.STRING,
        None,
        "Java random generator; meaningless here.",
        scope=Scope.PER_BROKER,
    ),
    ConfigKey("ssl.cipher.suites", ConfigType.LIST, (), "Cipher suites allowed.", scope=Scope.PER_BROKER),
    ConfigKey(
        "ssl.engine.factory.class", ConfigType.CLASS, None, "Class that makes TLS engines.", scope=Scope.PER_BROKER
    ),
    ConfigKey(
        "sasl.mechanism.inter.broker.protocol",
        ConfigType.STRING,
        "GSSAPI",
        "SASL mechanism between brokers.",
        scope=Scope.PER_BROKER,
    ),
    ConfigKey(
        "sasl.enabled.mechanisms", ConfigType.LIST, ("GSSAPI",), "SASL mechanisms offered.", scope=Scope.PER_BROKER
    ),
    ConfigKey(
        "sasl.server.callback.handler.class",
        ConfigType.CLASS,
        None,
        "Class that checks credentials; set per listener and mechanism.",
    ),
    ConfigKey(
        "sasl.kerberos.principal.to.local.rules",
        ConfigType.LIST,
        ("DEFAULT",),
        "Rules that turn Kerberos principals into short names.",
        scope=Scope.PER_BROKER,
    ),
    ConfigKey(
        "sasl.jaas.config",
        ConfigType.PASSWORD,
        None,
        "Login context; set per listener and mechanism.",
        scope=Scope.PER_BROKER,
    ),
    ConfigKey("sasl.client.callback.handler.class", ConfigType.CLASS, None, "Class that supplies credentials."),
    ConfigKey("sasl.login.class", ConfigType.CLASS, None, "Class that logs in."),
    ConfigKey(
        "sasl.login.callback.handler.class", ConfigType.CLASS, None, "Class that supplies credentials for a login."
    ),
    ConfigKey("sasl.kerberos.service.name", ConfigType.STRING, None, "Kerberos service name.", scope=Scope.PER_BROKER),
    ConfigKey("sasl.kerberos.kinit.cmd", ConfigType.STRING, "/usr/bin/kinit", "Path of kinit.", scope=Scope.PER_BROKER),
    ConfigKey(
        "sasl.kerberos.ticket.renew.window.factor",
        ConfigType.DOUBLE,
        0.8,
        "Part of a ticket's life after which it is renewed.",
        scope=Scope.PER_BROKER,
    ),
    ConfigKey(
        "sasl.kerberos.ticket.renew.jitter",
        ConfigType.DOUBLE,
        0.05,
        "Random part of that time.",
        scope=Scope.PER_BROKER,
    ),
    ConfigKey(
        "sasl.kerberos.min.time.before.relogin",
        ConfigType.LONG,
        60_000,
        "Shortest time between renewals.",
        scope=Scope.PER_BROKER,
    ),
    ConfigKey(
        "sasl.login.refresh.window.factor",
        ConfigType.DOUBLE,
        0.8,
        "Part of a token's life after which it is renewed.",
        scope=Scope.PER_BROKER,
    ),
    ConfigKey(
        "sasl.login.refresh.window.jitter", ConfigType.DOUBLE, 0.05, "Random part of that time.", scope=Scope.PER_BROKER
    ),
    ConfigKey(
        "sasl.login.refresh.min.period.seconds",
        ConfigType.SHORT,
        60,
        "Shortest time between renewals.",
        scope=Scope.PER_BROKER,
    ),
    ConfigKey(
        "sasl.login.refresh.buffer.seconds",
        ConfigType.SHORT,
        300,
        "Time before expiry by which a renewal is done.",
        scope=Scope.PER_BROKER,
    ),
    ConfigKey(
        "sasl.login.connect.timeout.ms", ConfigType.INT, None, "How long connecting to a token endpoint may take."
    ),
    ConfigKey("sasl.login.read.timeout.ms", ConfigType.INT, None, "How long a token endpoint may take to answer."),
    ConfigKey("sasl.login.retry.backoff.max.ms", ConfigType.LONG, 10_000, "Longest pause between login attempts."),
    ConfigKey("sasl.login.retry.backoff.ms", ConfigType.LONG, 100, "First pause between login attempts."),
    ConfigKey("sasl.oauthbearer.scope.claim.name", ConfigType.STRING, "scope", "Claim that holds the scope."),
    ConfigKey("sasl.oauthbearer.sub.claim.name", ConfigType.STRING, "sub", "Claim that holds the subject."),
    ConfigKey("sasl.oauthbearer.token.endpoint.url", ConfigType.STRING, None, "Where tokens are fetched."),
    ConfigKey(
        "sasl.oauthbearer.jwks.endpoint.url", ConfigType.STRING, None, "Where the keys that sign tokens are fetched."
    ),
    ConfigKey(
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        ConfigType.LONG,
        3_600_000,
        "How often those keys are fetched again.",
    ),
    ConfigKey(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
        ConfigType.LONG,
        100,
        "First pause after fetching keys failed.",
    ),
    ConfigKey(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
        ConfigType.LONG,
        10_000,
        "Longest pause after fetching keys failed.",
    ),
    ConfigKey("sasl.oauthbearer.clock.skew.seconds", ConfigType.INT, 30, "Difference of clocks that is tolerated."),
    ConfigKey("sasl.oauthbearer.expected.audience", ConfigType.LIST, None, "Audiences a token may be for."),
    ConfigKey("sasl.oauthbearer.expected.issuer", ConfigType.STRING, None, "Issuer a token must come from."),
    ConfigKey(
        "delegation.token.master.key", ConfigType.PASSWORD, None, "Deprecated name of delegation.token.secret.key."
    ),
    ConfigKey(
        "delegation.token.secret.key",
        ConfigType.PASSWORD,
        None,
        "Secret that signs delegation tokens; the same on all brokers.",
    ),
    ConfigKey(
        "delegation.token.max.lifetime.ms",
        ConfigType.LONG,
        604_800_000,
        "Longest life of a delegation token.",
        AT_LEAST_1,
    ),
    ConfigKey(
        "delegation.token.expiry.time.ms",
        ConfigType.LONG,
        86_400_000,
        "Life of a delegation token before it must be renewed.",
        AT_LEAST_1,
    ),
    ConfigKey(
        "delegation.token.expiry.check.interval.ms",
        ConfigType.LONG,
        3_600_000,
        "How often expired tokens are looked for.",
        AT_LEAST_1,
    ),
    ConfigKey(
        "password.encoder.secret",
        ConfigType.PASSWORD,
        None,
        "Secret that encrypts passwords stored as dynamic settings.",
    ),
    ConfigKey("password.encoder.old.secret", ConfigType.PASSWORD, None, "The secret before, while it is changed."),
    ConfigKey("password.encoder.keyfactory.algorithm", ConfigType.STRING, None, "Key derivation for that encryption."),
    ConfigKey(
        "password.encoder.cipher.algorithm", ConfigType.STRING, "AES/CBC/PKCS5Padding", "Cipher for that encryption."
    ),
    ConfigKey("password.encoder.key.length", ConfigType.INT, 128, "Key length for that encryption.", Range(8)),
    ConfigKey("password.encoder.iterations", ConfigType.INT, 4096, "Iterations of the key derivation.", Range(1024)),
)
