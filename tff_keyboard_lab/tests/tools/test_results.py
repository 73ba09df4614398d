"""The tables of docs/results.md have the values of docs/results/recipes.toml."""

from tff_keyboard_lab.tools import results


def test_the_page_is_up_to_date():
    page = results.PAGE.read_text(encoding="utf-8")
    assert results.with_tables(page) == page, "Run `python -m tff_keyboard_lab.tools.results`."
