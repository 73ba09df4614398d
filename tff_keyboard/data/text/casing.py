"""Lower case and capitals by language, identical on every machine and in every locale.

Turkish has two letters i. `ß` stays `ß`: its capital is `ẞ`, which becomes `ß` again. Dutch writes
`ij` at the start of a word with two capitals.

>>> lower("DIŞ İŞ", "tr"), lower("DIŞ İŞ", "en"), lower("GROẞ", "de")
('dış iş', 'diş i̇ş', 'groß')
>>> upper("dış iş", "tr"), upper("groß", "de"), capitalised("istanbul", "tr")
('DIŞ İŞ', 'GROẞ', 'İstanbul')
>>> capitalised("ijs", "nl"), capitalised("ijs", "en")
('IJs', 'Ijs')
"""

from collections.abc import Mapping

# Lower case must not depend on the machine's locale, as in ICU for these letters (Turkish dotted I,
# Lithuanian accents), nor on the letters around a sigma: every capital sigma becomes a middle one.
LOWER_FIRST = {"İ": "i\u0307", "Ì": "ì", "Í": "í", "Ĩ": "ĩ", "Į": "į", "Σ": "σ"}
_LOWER_FIRST_TURKISH = {**LOWER_FIRST, "İ": "i", "I": "ı"}

_SMALL_TURKISH = str.maketrans({"İ": "i", "I": "ı"})
_CAPITALS = str.maketrans({"ß": "ẞ"})
_CAPITALS_TURKISH = str.maketrans({"ß": "ẞ", "i": "İ", "ı": "I"})


def has_two_i(language: str) -> bool:
    """Checks if I is the capital of ı, and İ the capital of i."""
    return language == "tr"


def lower_first(language: str) -> Mapping[str, str]:
    """Returns the letters that are lower-cased before Unicode's rules are applied to the others."""
    return _LOWER_FIRST_TURKISH if has_two_i(language) else LOWER_FIRST


def lower(text: str, language: str) -> str:
    """Returns a word in lower case. A sigma at its end becomes a final sigma."""
    return (text.translate(_SMALL_TURKISH) if has_two_i(language) else text).lower()


def upper(text: str, language: str) -> str:
    """Returns a text in capitals."""
    return text.translate(_CAPITALS_TURKISH if has_two_i(language) else _CAPITALS).upper()


def capitalised(text: str, language: str) -> str:
    """Returns the text with its first letter in upper case; in Dutch, "ij" counts as a letter."""
    size = 2 if language == "nl" and text.startswith("ij") else 1
    return upper(text[:size], language) + text[size:]
