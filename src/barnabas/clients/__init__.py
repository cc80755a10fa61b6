"""What users import: producer, consumer, admin client, Arrow. Never imported by the broker.

`from barnabas.clients.producer import Producer`, and likewise `consumer` and `admin`.
"""
