"""Writes a table of `cargo lab sweep` as Parquet: parquet.py TABLE.csv TABLE.parquet."""

import sys

import polars

# Of all rows: a column whose first numbers are whole may have others.
polars.read_csv(sys.argv[1], infer_schema_length=None).write_parquet(sys.argv[2])
