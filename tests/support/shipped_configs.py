"""The configs and studies that we ship."""

import pathlib

RESULTS = pathlib.Path("configs/reference.toml")
_ALL = sorted(set(pathlib.Path("configs").rglob("*.toml")) - {RESULTS})
STUDIES = [path for path in _ALL if "studies" in path.parts]
CONFIGS = [path for path in _ALL if path not in STUDIES]
