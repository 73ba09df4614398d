"""The Dockerfiles: what they copy is there and suffices, versions are pinned, nobody is root.

No image is built here. `make install OFFLINE` installs the packages, and `test_wheel.py` builds the
wheel from what is copied.
"""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[2]
FILES = sorted((ROOT / "docker").glob("*.Dockerfile"))


def instructions(path):
    """`(INSTRUCTION, rest)` of each, with continued lines joined and comments left out."""
    text = re.sub(r"^#.*\n", "", path.read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    return [tuple(line.split(maxsplit=1)) for line in text.splitlines() if line.strip()]


def copied(path):
    """What is taken from the checkout."""
    rest = [text.split() for name, text in instructions(path) if name == "COPY"]
    return {source for words in rest if not words[0].startswith("--") for source in words[:-1]}


def test_there_are_two():
    assert [path.name for path in FILES] == ["node.Dockerfile", "trainer.Dockerfile"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_it_is_whole(path):
    known = {"FROM", "ENV", "WORKDIR", "COPY", "RUN", "USER", "ENTRYPOINT", "CMD"}
    found = instructions(path)
    assert {name for name, _ in found} <= known
    assert found[0][0] == "FROM"
    assert ("ENV", "UV_COMPILE_BYTECODE=1") in found
    assert all((ROOT / source).exists() for source in copied(path))
    needed = {"tff_keyboard", "tflite_export", "tasks", "configs", "models"}
    assert needed | {"pyproject.toml", "setup.py", "README.md"} <= copied(path)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_versions_are_pinned(path):
    bases = [text for name, text in instructions(path) if name == "FROM"]
    assert all(re.fullmatch(r"python:3\.11\.\d+-slim-\w+( AS build)?", base) for base in bases)
    assert len({base.removesuffix(" AS build") for base in bases}) == 1  # the venv links to it
    steps = [
        step for name, text in instructions(path) if name == "RUN" for step in text.split("&&")
    ]
    installs = [step for step in steps if "pip install" in step]
    assert all("--require-hashes" in step or step.split()[-1] == "." for step in installs)
    assert all("--no-deps" in step for step in installs)
    locked = {step.split("-r ")[1].strip() for step in installs if "-r " in step}
    assert locked <= copied(path)
    for name in locked:
        lines = (ROOT / name).read_text().splitlines()
        assert all("==" in line for line in lines if re.match(r"\w", line))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_nobody_is_root_and_the_build_stays_behind(path):
    found = instructions(path)
    last = max(place for place, (name, _) in enumerate(found) if name == "FROM")
    final = found[last:]
    users = [text for name, text in final if name == "USER"]
    assert users == ["1000:1000"]
    after = final[[name for name, _ in final].index("USER") :]
    assert {name for name, _ in after} <= {"USER", "WORKDIR", "ENTRYPOINT", "CMD"}
    sources = [text for name, text in final if name == "COPY"]
    assert sources == ["--from=build /opt/venv /opt/venv"]


def test_a_node_has_ray():
    text = (ROOT / "docker" / "node.Dockerfile").read_text()
    assert "requirements-cluster.txt" in text
    assert "ray==" in (ROOT / "requirements-cluster.txt").read_text()
