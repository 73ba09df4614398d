"""Links in the documents lead somewhere: to files that exist and headings that they have."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("models/**/*.md")])
_LINK = re.compile(r"\]\(([^)\s]+)\)")


def anchors(page):
    """Of the headings of a page, as GitHub makes them."""
    lines = page.read_text().splitlines()
    headings = [line.lstrip("#").strip().lower() for line in lines if re.match("#+ ", line)]
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in headings}


def broken(page):
    """Links of a page that lead nowhere."""
    found = []
    for link in _LINK.findall(page.read_text()):
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if link.startswith(("http://", "https://")):
            continue
        is_there = target.exists() and (not anchor or anchor in anchors(target))
        if not is_there:
            found.append(link)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    assert not broken(page)


def test_a_broken_link_is_found(tmp_path):
    (tmp_path / "b.md").write_text("# Two `words`, and more: <https://x.y>\n")
    page = tmp_path / "a.md"
    page.write_text(
        "## Here\n[1](b.md) [2](#here) [3](b.md#two-words-and-more-httpsxy) [4](https://x.y/z)\n"
        "[5](c.md) [6](#there) [7](b.md#two-words)\n"
    )
    assert broken(page) == ["c.md", "#there", "b.md#two-words"]
