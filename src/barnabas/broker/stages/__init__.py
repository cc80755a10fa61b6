"""The stages of a broker's start, each the owner of the parts that it builds."""
