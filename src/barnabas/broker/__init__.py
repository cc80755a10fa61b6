"""The composition root: builds every object of a broker, starts and stops them in order.

Called by the command line. The only package that knows all the others and hands each what it needs.
"""
