"""Runs docs/tutorials/*.py and writes their pages: prose, code, printed output, pictures.

python -m tff_keyboard_lab.tools.tutorials [NAME ...] [--out=build/tutorials]

A tutorial is Python in cells (py:percent: `# %%` begins a cell of code, `# %% [markdown]` one of
prose in comments), which editors and Jupyter open as a notebook. Each runs in a process of its own,
in an empty folder. As in a notebook, the value of a cell's last line is shown, and so is a figure
that it drew. The page is NAME.md; its pictures are next to it as NAME_1.png, NAME_2.png, ...
"""

import argparse
import ast
import concurrent.futures
import contextlib
import itertools
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from tff_keyboard.host import children, progress

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "tutorials"
_MARKER = "# %%"


class Cell(NamedTuple):
    """A cell of a tutorial: prose without its `# `, or code. `line` is its first line, from 1."""

    line: int
    is_prose: bool
    text: str


def cells(source: str) -> list[Cell]:
    """Returns the cells of a file. Text before the first marker is ignored."""
    lines = source.splitlines()
    starts = [index for index, line in enumerate(lines) if line.startswith(_MARKER)]
    cell_list = []
    for start, end in itertools.pairwise([*starts, len(lines)]):
        is_prose, body = "[markdown]" in lines[start], lines[start + 1 : end]
        if is_prose:
            body = [re.sub(r"^# ?", "", line) for line in body]
        cell_list.append(Cell(start + 2, is_prose, "\n".join(body).strip("\n")))
    return cell_list


def build(source: pathlib.Path, out: pathlib.Path) -> None:
    """Runs a tutorial in this process and writes its page into the folder `out`.

    Shows its progress on standard error.
    """
    tutorial = cells(source.read_text(encoding="utf-8"))
    with progress.Progress(source.stem, total=len(tutorial), unit="cells") as line:
        page = _page(source, tutorial, out, line)
    (out / f"{source.stem}.md").write_text(page, encoding="utf-8")


def _page(
    source: pathlib.Path, tutorial: Sequence[Cell], out: pathlib.Path, line: progress.Progress
) -> str:
    """Runs the cells, and returns the page in Markdown. Pictures are written to `out`."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    parts: list[str] = []
    pictures = 0
    for number, cell in enumerate(tutorial, 1):
        line.update(number - 1)
        if cell.is_prose:
            parts.append(cell.text)
            continue
        parts.append(f"```python\n{cell.text}\n```")
        try:
            with _printed() as lines:
                value = _run(cell, str(source), namespace)
                figures = _figures(value)
                if value is not None and not hasattr(value, "savefig"):
                    print(value if isinstance(value, str) else repr(value))
        except BaseException:
            print("".join(lines), traceback.format_exc(), sep="", file=sys.stderr)
            raise SystemExit(f"{source}: cell {number}, from line {cell.line}, failed.") from None
        if lines:
            text = "".join(lines).rstrip("\n")
            parts.append(f"```text\n{text}\n```")
        for figure in figures:
            pictures += 1
            name = f"{source.stem}_{pictures}.png"
            figure.savefig(out / name, dpi=110, bbox_inches="tight", metadata={"Software": None})
            parts.append(f"![picture {pictures}]({name})")
    return "\n\n".join(parts) + "\n"


def _run(cell: Cell, name: str, namespace: dict[str, Any]) -> Any:
    """Runs a cell and returns the value of its last expression.

    Tracebacks have the file's lines.
    """
    tree = ast.parse(cell.text, name)
    ast.increment_lineno(tree, cell.line - 1)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, name, "exec"), namespace)
    if isinstance(last, ast.Expr):
        return eval(compile(ast.Expression(last.value), name, "eval"), namespace)
    return None


def _figures(value: Any) -> list[Any]:
    """Returns the figures of a cell: its value, and the open figures of pyplot.

    Closes the latter.
    """
    figures = [value] if hasattr(value, "savefig") else []
    if pyplot := sys.modules.get("matplotlib.pyplot"):
        drawn = [pyplot.figure(number) for number in pyplot.get_fignums()]
        figures += [figure for figure in drawn if figure is not value]
        pyplot.close("all")
    return figures


@contextlib.contextmanager
def _printed() -> Iterator[list[str]]:
    """Yields a list that gets the output of the block, including that of its child processes."""
    lines: list[str] = []
    saved = os.dup(1)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 1)
        try:
            yield lines
        finally:
            sys.stdout.flush()
            os.dup2(saved, 1)
            os.close(saved)
            file.seek(0)
            lines += file.read().decode(errors="replace").splitlines(keepends=True)


def _locate(path: pathlib.Path) -> pathlib.Path:
    return path.resolve() if path.exists() else FOLDER / path


def main(arguments: Sequence[str] | None = None) -> None:
    """Builds the tutorials named on the command line, or all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="name of a file in docs/tutorials, or a path"
    )
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build" / "tutorials")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    flags = parser.parse_args(arguments)
    out = flags.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    paths = [_locate(pathlib.Path(name).with_suffix(".py")) for name in flags.names]
    if flags.here:
        build(paths[0], out)
        return
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    quiet = {"PYTHONPATH": path, "MPLBACKEND": "agg", "TF_CPP_MIN_LOG_LEVEL": "3"}
    paths = paths or sorted(FOLDER.glob("*.py"))

    def build_alone(source: pathlib.Path) -> int:
        """Builds a tutorial in a process of its own, in an empty folder; returns its exit code."""
        begin = time.monotonic()
        command = [
            *children.python_module("tff_keyboard_lab.tools.tutorials"),
            "--here",
            str(source),
            f"--out={out}",
        ]
        with tempfile.TemporaryDirectory() as empty:
            code = subprocess.run(
                command, cwd=empty, env=os.environ | quiet, check=False
            ).returncode
        if code == 0:
            print(f"{out / source.stem}.md: {time.monotonic() - begin:.0f} seconds", flush=True)
        return code

    # Two at a time, because most of a tutorial takes one core: imports and building graphs.
    with concurrent.futures.ThreadPoolExecutor(max_workers=min(2, os.cpu_count() or 1)) as pool:
        try:
            for code in pool.map(build_alone, paths):
                if code:
                    raise SystemExit(code)
        finally:
            pool.shutdown(cancel_futures=True)


if __name__ == "__main__":
    main()
