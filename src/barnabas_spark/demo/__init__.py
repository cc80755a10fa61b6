"""`barnabas demo`: broker, records, a Spark pipeline and a picture, in one command. Start at `demo.run_demo`."""
