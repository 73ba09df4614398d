"""The TOML reader: `tomllib`, or its predecessor `tomli` if Python is older than 3.11."""

import sys

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["tomllib"]
