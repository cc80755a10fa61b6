"""The names of the clients' metrics beside those of Apache Kafka's clients."""
