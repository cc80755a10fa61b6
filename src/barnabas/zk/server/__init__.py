"""The embedded store as a server: it speaks as much of ZooKeeper's protocol as brokers use."""
