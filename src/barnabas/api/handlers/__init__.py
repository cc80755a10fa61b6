"""One module per family of APIs. A handler sees typed messages; never bytes, sockets or threads.

Called through `api.registry`; no handler imports another.
"""
