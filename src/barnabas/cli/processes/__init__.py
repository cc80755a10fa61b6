"""`barnabas serve --processes`: several brokers on one machine, as one cluster on one embedded store."""
