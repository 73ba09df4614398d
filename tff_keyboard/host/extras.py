"""What an installation without the extras of pyproject.toml lacks, and how to install it."""

_TRAIN = "train", " with Python 3.11 on Linux x86-64"
# Package -> the extra that has it, and where that can be installed.
_EXTRAS = {
    "tensorflow": _TRAIN,
    "tensorflow_federated": _TRAIN,
    "tensorflow_privacy": _TRAIN,
    "tensorflow_text": _TRAIN,
    "tensorboard": _TRAIN,
    "grpc": _TRAIN,
    "dp_accounting": ("privacy", ""),
    "scipy": ("privacy", ""),
    "matplotlib": ("report", ""),
}


def what_to_install(task: str, error: ModuleNotFoundError) -> str:
    """A line for a task that could not import something; raises the error if no extra has it.

    >>> print(what_to_install("report", ModuleNotFoundError(name="matplotlib.figure")))
    `report` needs matplotlib for this. Run: pip install 'tff-keyboard[report]'
    """
    package = (error.name or "").partition(".")[0]
    if package not in _EXTRAS:
        raise error
    extra, where = _EXTRAS[package]
    return f"`{task}` needs {package} for this. Run: pip install 'tff-keyboard[{extra}]'{where}"
