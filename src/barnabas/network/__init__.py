"""The broker's network layer: listeners, network threads, the request queue, the threads that handle requests.

Acceptor -> Processor -> RequestChannel -> RequestHandler -> (the api layer's `handle`) -> Connection -> Processor.
Kafka: kafka.network, and KafkaRequestHandler of kafka.server.
"""
