"""The checks that a leader makes of a produced batch, and the form in which it stores the batch.

`validator` is the entry: the log of each partition has one. `rules` are its checks in Kafka's order.
"""
