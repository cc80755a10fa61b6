"""What our producer sends in scripted sessions, against what Apache Kafka's producer was recorded to send in them."""
