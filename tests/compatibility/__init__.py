"""Files both ways with Apache Kafka 3.9: each broker opens what the other has written."""
