"""The file that `barnabas pipeline init` writes.

Called by the command line; a constant, no state, no lock.
"""

from __future__ import annotations

TEMPLATE = """\
#
# barnabas pipeline check FILE     is it right?
# barnabas pipeline run FILE       run it; again: go on where it ended
#
name: {name}
parameters:
  brokers: 127.0.0.1:9092          # another: --parameter brokers=HOST:PORT
brokers: ${{brokers}}
trigger: available-now             # or continuous, or '10 seconds'

sources:
  orders:
    topic: orders
    format: json
    schema: id BIGINT, customer STRING, amount DOUBLE
    dead_letters: orders-bad       # records that are no such JSON
    options:
      startingOffsets: earliest

transforms:
  large_orders:
    sql: |
      SELECT id, customer, amount, _timestamp AS ordered_at
      FROM orders
      WHERE amount >= 100

sinks:
  to_topic:
    from: large_orders
    topic: large-orders
    key: customer
"""
