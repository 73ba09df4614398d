"""MkDocs' events for the site of `make docs`; pages.py has the content."""

import itertools
import pathlib
from typing import Any

from mkdocs.structure.files import File

from tff_keyboard_lab.tools.docs_site import config_reference, equations, pages
from tff_keyboard_lab.tools.docs_site.surface import SUMMARIES, SURFACE

ROOT = pathlib.Path(__file__).parents[3]
TUTORIALS = pages.of_tutorials(ROOT)
STYLE = "tff_keyboard_lab/tools/docs_site/style.css"
CONFIG_KEYS = {config_reference.PATH: config_reference.page()}
REFERENCE = pages.of_reference(SURFACE, SUMMARIES)


def on_config(config: Any) -> Any:
    """Adds pages to the navigation that mkdocs.yml cannot name."""
    tutorials = [path for path in TUTORIALS if path.endswith(".md")]
    config.nav = pages.navigation(config.nav, list(REFERENCE), tutorials)
    config.extra_css.append(STYLE)
    return config


def on_files(files: Any, config: Any) -> Any:
    """Adds all files with their paths in the checkout."""
    for file in [file for file in files if file.src_dir == config.docs_dir]:
        files.remove(file)
    page_paths = pages.in_checkout(ROOT)
    links = [
        pages.linked_files(page, (ROOT / page).read_text("utf-8"), ROOT) for page in page_paths
    ]
    links += [pages.linked_files(page, str(text), ROOT) for page, text in TUTORIALS.items()]
    for path in dict.fromkeys([*page_paths, *itertools.chain(*links), STYLE]):
        files.append(File(path, str(ROOT), config.site_dir, config.use_directory_urls))
    for path, content in {**TUTORIALS, **REFERENCE, **CONFIG_KEYS}.items():
        source = (
            {"content": content} if isinstance(content, str) else {"abs_src_path": str(content)}
        )
        files.append(File.generated(config, path, **source))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Converts Markdown to the form that Python-Markdown reads."""
    return pages.four_spaces(markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Converts equations to MathML, and lets browsers break long names in tables."""
    return pages.with_breaks(equations.with_mathml(html))
