"""The tests, one directory a kind: unit, wire, broker, clients, spark, simulation, architecture."""
