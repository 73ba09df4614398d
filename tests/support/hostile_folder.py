"""A current folder with files that have the names of modules, as in a folder of downloads."""

MODULES = (
    *(
        "ctypes",
        "json",
        "numpy",
        "os",
        "pathlib",
        "random",
        "runpy",
        "signal",
        "site",
        "subprocess",
    ),
    *("sitecustomize", "tensorflow", "tff_keyboard", "tff_keyboard_fleet", "tff_keyboard_tasks"),
)


def enter_hostile_folder(folder, monkeypatch):
    """Changes into a new folder with modules that end the process which imports them."""
    folder.mkdir()
    for module in MODULES:
        (folder / f"{module}.py").write_text("raise SystemExit(__file__ + ' was imported')\n")
    monkeypatch.chdir(folder)
