"""The configs and studies that we ship."""

import pathlib

_ALL = sorted(pathlib.Path("configs").rglob("*.toml"))
STUDIES = [path for path in _ALL if path.parent.name == "studies"]
CONFIGS = [path for path in _ALL if path not in STUDIES]
