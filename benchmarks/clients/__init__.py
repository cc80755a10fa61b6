"""Client libraries side by side: ours, kafka-python, aiokafka and confluent-kafka, on one broker in one run."""
