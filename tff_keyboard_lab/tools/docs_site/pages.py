"""Pages of the site of `make docs` in addition to docs/, as paths and text; does not import MkDocs.

A page of the site has the same path as in the checkout, so that links between pages work unchanged.
Files to which a page links are added.
"""

import pathlib
import posixpath
import re
from collections.abc import Iterator, Mapping
from typing import Any

_TUTORIALS = "docs/tutorials"
_PAGES = ("*.md", "docs/**/*.md", "models/**/*.md")
_LINK = re.compile(r"\]\(([^)#\s]+)")
_ITEM = re.compile(r"(\d+\. |[-*] )")
_CELL = re.compile(r"<td.*?</td>", re.DOTALL)
_CODE = re.compile(r"(?<=<code>)[^<]{16,}(?=</code>)")


def in_checkout(root: pathlib.Path) -> list[str]:
    """Returns the paths of the pages in the checkout."""
    page_paths = [page for pattern in _PAGES for page in root.glob(pattern)]
    return sorted(page.relative_to(root).as_posix() for page in page_paths)


def of_tutorials(root: pathlib.Path) -> dict[str, str | pathlib.Path]:
    """Returns path -> text of a tutorial's page, or file of its picture.

    The page is the output of `make tutorials`, if it exists, else prose and code of the source.
    """
    contents: dict[str, str | pathlib.Path] = {}
    built = root / "build" / "tutorials"
    for source in sorted(root.glob(f"{_TUTORIALS}/*.py")):
        page = built / f"{source.stem}.md"
        is_built = page.exists()
        text = (page if is_built else source).read_text(encoding="utf-8")
        contents[f"{_TUTORIALS}/{page.name}"] = text if is_built else from_cells(text)
        for link in _LINK.findall(text) if is_built else ():
            if "/" not in link and (built / link).suffix == ".png":
                contents[f"{_TUTORIALS}/{link}"] = built / link
    return contents


def from_cells(source: str) -> str:
    """Returns prose and code of a py:percent file, as Markdown."""
    parts = []
    for cell in re.split(r"^# %%", source, flags=re.MULTILINE)[1:]:
        kind, _, body = cell.partition("\n")
        if "[markdown]" in kind:
            parts.append(re.sub(r"^# ?", "", body, flags=re.MULTILINE).strip())
        else:
            parts.append(f"```python\n{body.strip()}\n```")
    return "\n\n".join(parts) + "\n"


def linked_files(page: str, text: str, root: pathlib.Path) -> Iterator[str]:
    """Yields the paths of files of the checkout to which a page links, except pages."""
    for link in _LINK.findall(text):
        path = posixpath.normpath(posixpath.join(posixpath.dirname(page), link))
        is_inside = "://" not in link and not path.startswith("..")
        if is_inside and not path.endswith(".md") and (root / path).is_file():
            yield path


def of_reference(
    surface: Mapping[str, Mapping[str, str]], summaries: Mapping[str, str]
) -> dict[str, str]:
    """Returns path -> text of a page for each module, as mkdocstrings reads it.

    Args:
      surface: Module, as users write it ("tk.data") -> public name -> dotted name of its
        definition.
      summaries: Module -> its description, Markdown.
    """
    pages = {}
    for module, names in surface.items():
        entries = [
            f"::: {origin}\n    options:\n      heading: {module}.{name}\n      toc_label: {name}\n"
            for name, origin in names.items()
        ]
        head = f"# {module}\n\n{summaries[module]}\n"
        pages[f"reference/{module.removeprefix('tk.')}.md"] = "\n".join([head, *entries])
    return pages


def navigation(nav: list[Any], reference: list[str], tutorials: list[str]) -> list[Any]:
    """Returns the navigation of mkdocs.yml with tutorials and the reference.

    Tutorials, if any, come before "Python", and the reference is inside it.
    """
    parts: list[Any] = []
    for part in nav:
        if "Python" in part:
            if tutorials:
                parts.append({"Tutorials": tutorials})
            part = {"Python": [*part["Python"], *reference]}
        parts.append(part)
    return parts


def with_breaks(html: str) -> str:
    """Lets browsers break long code in the cells of tables after punctuation.

    >>> with_breaks("<td><code>aggregation.rule.type</code></td>")
    '<td><code>aggregation.<wbr>rule.<wbr>type</code></td>'
    """

    def broken(cell: re.Match[str]) -> str:
        return _CODE.sub(lambda code: re.sub(r"([/.:_=]+)", r"\1<wbr>", code[0]), cell[0])

    return _CELL.sub(broken, html)


def four_spaces(text: str) -> str:
    """Indents the text of list items by four spaces, as Python-Markdown needs it.

    GitHub asks for the width of the marker, and for no empty line before the next item.
    """
    lines: list[str] = []
    width, is_code, is_loose = 0, False, False
    for line in text.splitlines():
        if not width and line.startswith("```"):
            is_code = not is_code
        item = None if is_code else _ITEM.match(line)
        if item:
            if width and is_loose and lines[-1]:
                lines.append("")
            width, is_loose = item.end(), False
        elif width and not line:
            is_loose = True
        elif width and line.startswith(" " * width):
            line = " " * 4 + line[width:]
        else:
            width = 0
        lines.append(line)
    return "\n".join(lines)
