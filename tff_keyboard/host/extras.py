"""Optional dependencies that may be missing, and the commands that install them.

`pip install 'tff-keyboard[train]'` cannot install the packages for training, because TFF requires a
jaxlib version that PyPI no longer has. Their list is a shipped file of locked packages, which is
installed without dependency resolution.
"""

from tff_keyboard.storage import shipped_files

# The extras in pyproject.toml.
_TRAIN, _FLEET, _PRIVACY, _REPORT, _PARQUET = "train", "fleet", "privacy", "report", "parquet"
_EXTRAS = {
    "tensorflow": _TRAIN,
    "tensorflow_federated": _TRAIN,
    "tensorflow_privacy": _TRAIN,
    "tensorflow_text": _TRAIN,
    "tensorboard": _TRAIN,
    "grpc": _TRAIN,
    "cheroot": _FLEET,
    "dp_accounting": _PRIVACY,
    "scipy": _PRIVACY,
    "jinja2": _REPORT,
    "matplotlib": _REPORT,
    "pyarrow": _PARQUET,
}
TO_TRAIN = (
    f"pip install --no-deps -r {shipped_files.ROOT / 'requirements.txt'} (Python 3.11, Linux "
    "x86-64; `make install` in a checkout)"
)


def what_to_install(task: str, error: ModuleNotFoundError) -> str:
    """Returns a line with the command that installs a missing package.

    Raises the error again if no extra has the package.

    >>> what_to_install("report", ModuleNotFoundError(name="matplotlib.figure"))
    "`report` requires matplotlib. Run: pip install 'tff-keyboard[report]'"
    """
    package = (error.name or "").partition(".")[0]
    if package not in _EXTRAS:
        raise error
    extra = _EXTRAS[package]
    command = TO_TRAIN if extra == _TRAIN else f"pip install 'tff-keyboard[{extra}]'"
    return f"`{task}` requires {package}. Run: {command}"
