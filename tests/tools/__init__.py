"""Apache Kafka's own command line tools against our broker, and against Apache Kafka itself in the same run."""
