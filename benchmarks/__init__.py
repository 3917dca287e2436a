"""Measurements beside the arithmetic floor and beside other libraries, each in a process of its own."""
