"""One suite of our clients' behaviour, run on our broker, on Apache Kafka 3.9 and on Apache Kafka 4."""
