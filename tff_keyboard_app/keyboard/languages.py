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
      held: Letter of a key -> letters with a mark that the page offers while the key is held down.
      vowels: Vowels, which are often typed for one another.
      endings: Last letters in which two words may differ without one being a misspelling.
      forms: Last letters that distinguish forms of a word; a space does not correct one to another.
      spellings: Letters of a word -> others that are written for them by mistake: "buies".
      is_agglutinative: Whether words get endings one after another, so that no list has all forms.
      marks: Typed letters without a mark -> a letter with the mark that has a key of its own: "u"
        and "ue" -> "ü".
      example: Example text on the page.
    """

    keys: tuple[str, str, str]
    held: Mapping[str, str] = dataclasses.field(default_factory=dict)
    vowels: str
    endings: str
    forms: str
    spellings: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    is_agglutinative: bool = False
    marks: Mapping[str, str] = dataclasses.field(default_factory=dict)
    example: str

    @property
    def letters(self) -> str:
        """Returns all letters that can be typed."""
        return "".join((*self.keys, *self.held.values()))

    @property
    def marked(self) -> Mapping[str, str]:
        """Returns typed letters without a mark -> all letters with a mark that they stand for."""
        typed = {**self.held, **self.marks}
        return {plain: self.held.get(plain, "") + self.marks.get(plain, "") for plain in typed}


LANGUAGES = {
    "en": Language(
        keys=("qwertyuiop", "asdfghjkl", "zxcvbnm"),
        vowels="aeiou",
        endings="delnrsty",
        forms="sd",
        # Endings after a final "y": "buys", "tries", "tried", "lying".
        spellings={"ys": ("ies",), "ies": ("ys", "yes"), "ied": ("yd", "yed"), "yi": ("iei",)},
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
        held={"a": "â", "i": "î", "u": "û"},
        vowels="aeıioöuü",
        endings="adeıiklmnrstuüyz",
        forms="aeıikmnruü",
        is_agglutinative=True,
        marks={"c": "ç", "g": "ğ", "i": "ı", "o": "ö", "s": "ş", "u": "ü"},
        example="Akşam yemeğe eve geliyor musun? Oraya varınca seni ararım.",
    ),
    "es": Language(
        keys=("qwertyuiop", "asdfghjklñ", "zxcvbnm"),
        held={"a": "á", "e": "é", "i": "í", "o": "ó", "u": "úü"},
        vowels="aeiou",
        endings="adeilmnorszáéíóú",
        forms="adeimnors",
        marks={"n": "ñ"},
        example="¿Vienes a cenar a casa esta noche? Te llamaré cuando llegue mañana.",
    ),
    "nl": Language(
        keys=("qwertyuiop", "asdfghjkl", "zxcvbnm"),
        held={"a": "áà", "c": "ç", "e": "éëèê", "i": "ïí", "o": "óö", "u": "üú"},
        vowels="aeiou",
        endings="deklmnrst",
        forms="denrst",
        example="Kom je vanavond thuis eten? Ik bel je zodra ik in België ben.",
    ),
    "pt": Language(
        keys=("qwertyuiop", "asdfghjklç", "zxcvbnm"),
        held={"a": "ãáâà", "e": "éê", "i": "í", "o": "õóô", "u": "ú"},
        vowels="aeiou",
        endings="aeilmnorsuzáãéíó",
        forms="aeimorsu",
        marks={"c": "ç"},
        example="Vens jantar a casa hoje à noite? Eu ligo-te amanhã, quando lá chegar.",
    ),
}
