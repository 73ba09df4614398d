"""MkDocs' events for the site of `make docs`: what is shown is in pages.py."""

import pathlib
from typing import Any

from mkdocs.structure.files import File

import tff_keyboard as tk
from tools.docs_site import pages

ROOT = pathlib.Path(__file__).parent.parent.parent
BUILT = ROOT / "build"
STYLE = "tools/docs_site/style.css"
REFERENCE = pages.of_reference(tk.SURFACE, {name: getattr(tk, name).__doc__ for name in tk.SURFACE})


def on_config(config: Any) -> Any:
    """Adds to the navigation what mkdocs.yml cannot name."""
    tutorials = [path for path in pages.of_tutorials(BUILT) if path.endswith(".md")]
    config.nav = pages.navigation(config.nav, list(REFERENCE), tutorials)
    config.extra_css.append(STYLE)
    return config


def on_files(files: Any, config: Any) -> Any:
    """Has all files under the paths of the checkout."""
    for file in [file for file in files if file.src_dir == config.docs_dir]:
        files.remove(file)
    folders = dict.fromkeys(pages.in_checkout(ROOT), ROOT)
    folders |= dict.fromkeys(pages.of_tutorials(BUILT), BUILT)
    for page in [path for path in folders if path.endswith(".md")]:
        text = (folders[page] / page).read_text(encoding="utf-8")
        folders |= dict.fromkeys(pages.linked_files(page, text, ROOT), ROOT)
    for path, folder in {**folders, STYLE: ROOT}.items():
        files.append(File(path, str(folder), config.site_dir, config.use_directory_urls))
    for path, text in REFERENCE.items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """As Python-Markdown reads it."""
    return pages.four_spaces(markdown)
