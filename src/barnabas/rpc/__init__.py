"""Requests as a client: connections to nodes, requests in flight, versions negotiated.

Used by `clients` and, from the day there are clusters, by the broker's own channels to its peers.
Kafka: org.apache.kafka.clients.
"""
