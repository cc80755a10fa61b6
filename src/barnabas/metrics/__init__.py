"""The broker's metrics: meters, gauges, histograms, and the registry that names them as Kafka does.

Used by every layer above; read by the parts that publish metrics.
"""
