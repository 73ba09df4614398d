"""What a keyboard has to know of a language, beside what its model learned: keys, slips, endings.

The blocklist is `blocklists/CODE.txt`, and capitals are `tff_keyboard/data/text/casing.py`'s.
"""

import dataclasses
from collections.abc import Mapping


@dataclasses.dataclass(frozen=True, kw_only=True)
class Language:
    """A language as a keyboard sees it.

    Attributes:
      keys: Three rows of small letters, on the page and for slips to keys that are near.
      vowels: Typed for one another.
      endings: Last letters that two words may differ in without one being a misspelling.
      forms: Last letters that may tell forms of a word apart: no space corrects one to another.
      marks: What people type who leave a mark out -> the letter: "u" and "ue" -> "ü".
      example: What the page offers to type.
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
