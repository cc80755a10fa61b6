"""Requests as a client: connections to nodes, requests in flight, versions negotiated.

Used by `clients` and by the broker's channels to brokers.
Kafka: org.apache.kafka.clients.
"""
