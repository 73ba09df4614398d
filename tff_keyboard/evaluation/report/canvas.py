"""Creates figures and converts them to SVG. Imports Matplotlib only when something is drawn."""

import functools
import io
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, ParamSpec

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_P = ParamSpec("_P")

NO_PICTURE = '<p class="note">There is no picture because matplotlib is not installed.</p>'


def of_a_page(draw: Callable[_P, str]) -> Callable[_P, str]:
    """Wraps a function that returns an SVG. Without Matplotlib the result is `NO_PICTURE`."""

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
    """Returns an empty figure of a size in inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def svg(figure: "Figure") -> str:
    """Converts a figure to SVG.

    Text is drawn as paths. If the font lacks a character, for example in a run with a Chinese name,
    all text is left to the browser's fonts.
    """
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
        # If the character is missing, only its exact width is unknown.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    text = file.getvalue()
    return text[text.index("<svg") :]
