"""Kafka's wire protocol: API keys, error codes, headers, messages, and the codec generated from them.

Imported by every layer above `records`; knows no sockets, threads or disks.
"""
