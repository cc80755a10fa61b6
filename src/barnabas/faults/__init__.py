"""Fault plans: a broker of the test kit fails on purpose, as a test has asked it to.

The test kit writes plans (`fault_plan`) and sends them through a pipe that only its own broker has (`testing.faults`,
`control_messages`). `fault_layer` puts itself in front of the table of APIs; without the pipe it is not even imported.
"""
