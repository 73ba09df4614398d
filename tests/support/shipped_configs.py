"""The configs and studies that we ship, and the bases of configs, which have no corpus."""

import pathlib

_ALL = sorted(pathlib.Path("configs").rglob("*.toml"))
STUDIES = [path for path in _ALL if "studies" in path.parts]
BASES = [path for path in _ALL if "bases" in path.parts]
CONFIGS = [path for path in _ALL if path not in STUDIES and path not in BASES]
