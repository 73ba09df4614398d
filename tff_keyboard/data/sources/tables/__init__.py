"""Files with named columns or fields: CSV, JSON lines, Parquet."""
