"""TLS for servers and clients: settings, keys and certificates, contexts, and the principal in a client's certificate.

Used by the broker's listeners and by clients. Key stores are loaded when a listener opens or its settings change, never
on a network thread. Kafka: org.apache.kafka.common.security.ssl.
"""
