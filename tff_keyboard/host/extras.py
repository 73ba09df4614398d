"""What an installation may lack, and how to install it.

What trains cannot be had by `pip install 'tff-keyboard[train]'`: TFF asks for a jaxlib that PyPI no
longer has. The locked packages leave that question out; their list is a shipped file.
"""

from tff_keyboard.storage import shipped_files

_TRAIN, _PRIVACY, _REPORT = "train", "privacy", "report"  # extras of pyproject.toml
_EXTRAS = {
    "tensorflow": _TRAIN,
    "tensorflow_federated": _TRAIN,
    "tensorflow_privacy": _TRAIN,
    "tensorflow_text": _TRAIN,
    "tensorboard": _TRAIN,
    "grpc": _TRAIN,
    "cheroot": _TRAIN,
    "dp_accounting": _PRIVACY,
    "scipy": _PRIVACY,
    "matplotlib": _REPORT,
}
TO_TRAIN = (
    f"pip install --no-deps -r {shipped_files.ROOT / 'requirements.txt'} (Python 3.11, Linux "
    "x86-64; `make install` in a checkout)"
)


def what_to_install(task: str, error: ModuleNotFoundError) -> str:
    """A line for a task that could not import something; raises the error if nothing here has it.

    >>> what_to_install("report", ModuleNotFoundError(name="matplotlib.figure"))
    "`report` needs matplotlib for this. Run: pip install 'tff-keyboard[report]'"
    """
    package = (error.name or "").partition(".")[0]
    if package not in _EXTRAS:
        raise error
    extra = _EXTRAS[package]
    command = TO_TRAIN if extra == _TRAIN else f"pip install 'tff-keyboard[{extra}]'"
    return f"`{task}` needs {package} for this. Run: {command}"
