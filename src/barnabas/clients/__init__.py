"""The clients that users import: producer, consumer, admin client, Arrow. The broker never imports them.

`from barnabas.clients.producer import Producer`, and likewise `consumer` and `admin`.
"""
