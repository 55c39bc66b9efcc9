"""ALBERT weights as other projects write them: one module for each dialect, with one table of names.

`reading.py` finds a path's dialect and reads it, `matching.py` puts a table and a file together.
"""
