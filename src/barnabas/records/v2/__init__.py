"""Records of format v2 (magic 2): their layout, and the ways to read them.

`layout` says where the fields of a record lie, `walk` reads any records and names what is wrong with them, `uniform`
compares records of one shape by the column. docs/decisions/0096-one-room-for-records-v2.md.
"""
