"""The metrics that a producer or consumer pushes to brokers which ask for them (KIP-714).

Owned by the thread of the client; no state here, no lock.
"""
