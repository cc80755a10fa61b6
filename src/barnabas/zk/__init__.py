"""Cluster state in ZooKeeper's terms: the Store protocol, the embedded store, and Kafka's znodes on top of them.

Imported by metadata, controller and broker. Each module says which thread owns it.
"""
