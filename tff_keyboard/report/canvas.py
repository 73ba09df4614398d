"""Figures and the SVG they become. Matplotlib is imported when something is drawn."""

import functools
import io
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, ParamSpec

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_P = ParamSpec("_P")

NO_PICTURE = '<p class="note">The picture is left out: matplotlib is not installed.</p>'


def of_a_page(draw: Callable[_P, str]) -> Callable[_P, str]:
    """A function that returns an SVG, or without matplotlib `NO_PICTURE`."""

    @functools.wraps(draw)
    def drawn(*arguments: _P.args, **options: _P.kwargs) -> str:
        try:
            return draw(*arguments, **options)
        except ModuleNotFoundError as error:
            if error.name != "matplotlib":
                raise
            return NO_PICTURE

    return drawn


def new_figure(width: float, height: float) -> "Figure":
    """An empty figure, in inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def svg(figure: "Figure") -> str:
    """The figure. Text is drawn as paths; where the font lacks a character, as in a run named in
    Chinese, all of it is left to the browser's fonts."""
    import matplotlib
    from matplotlib import font_manager
    from matplotlib.text import Text

    file = io.StringIO()
    words = "".join(text.get_text() for text in figure.findobj(Text))
    font = font_manager.get_font(font_manager.findfont(font_manager.FontProperties()))
    drawable = all(ord(letter) in font.get_charmap() for letter in words if letter.isprintable())
    with (
        matplotlib.rc_context({"svg.fonttype": "path" if drawable else "none"}),
        warnings.catch_warnings(),
    ):
        # Without the character it is only its width that is not known exactly.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    text = file.getvalue()
    return text[text.index("<svg") :]
