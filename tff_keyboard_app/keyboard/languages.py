"""Facts about languages that a keyboard needs besides its model: keys, typing slips, endings.

The blocklist is `blocklists/CODE.txt`. Capitals are in `tff_keyboard/data/text/casing.py`.
"""

import dataclasses
from collections.abc import Mapping


@dataclasses.dataclass(frozen=True, kw_only=True)
class Language:
    """Facts about a language.

    Attributes:
      keys: Three rows of small letters, for the page, and for slips to neighbouring keys.
      vowels: Vowels, which are often typed for one another.
      endings: Last letters in which two words may differ without one being a misspelling.
      forms: Last letters that distinguish forms of a word; a space does not correct one to another.
      marks: Typed letters without a mark -> the letter with the mark: "u" and "ue" -> "ü".
      example: Example text on the page.
    """

    keys: tuple[str, str, str]
    vowels: str
    endings: str
    forms: str
    marks: Mapping[str, str] = dataclasses.field(default_factory=dict)
    example: str


LANGUAGES = {
    "en": Language(
        keys=("qwertyuiop", "asdfghjkl", "zxcvbnm"),
        vowels="aeiou",
        endings="delnrsty",
        forms="sd",
        example="Are you coming home for dinner tonight? I will call you when I get there.",
    ),
    "de": Language(
        keys=("qwertzuiopü", "asdfghjklöä", "yxcvbnmß"),
        vowels="aeiouäöü",
        endings="delmnrsty",
        forms="emnrst",
        marks={"ae": "ä", "oe": "ö", "ue": "ü", "ss": "ß", "a": "ä", "o": "ö", "u": "ü"},
        example="Kommst du heute zum Essen nach Hause? Ich rufe dich an, wenn ich da bin.",
    ),
    "tr": Language(
        keys=("qwertyuıopğü", "asdfghjklşi", "zxcvbnmöç"),
        vowels="aeıioöuü",
        endings="adeıiklmnrstuüyz",
        forms="aeıikmnruü",
        marks={"c": "ç", "g": "ğ", "i": "ı", "o": "ö", "s": "ş", "u": "ü"},
        example="Akşam yemeğe eve geliyor musun? Oraya varınca seni ararım.",
    ),
}
