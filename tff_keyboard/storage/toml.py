"""The reader of TOML: `tomllib`, or where Python is older than 3.11 `tomli`, which became it."""

import sys

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["tomllib"]
