"""Offers an emoji after typed words: 🎂 after "happy birthday", 😂 after "haha".

Words and emoji come from Unicode CLDR (`emoji_words/LANGUAGE.tsv`). A short list made by hand takes
precedence. It has phrases that users send with an emoji and that CLDR does not name. An emoji is a
whole sequence, with its joiners and its variation selector.
"""

import pathlib
import re
from collections.abc import Mapping, Sequence

from tff_keyboard.data.text import word_characters

FOLDER = pathlib.Path(__file__).parent / "emoji_words"
# Chance by hand that the emoji of such words follows them: said by people, and named by CLDR.
_CHANCE_SAID, _CHANCE_NAMED = 0.06, 0.02
_LONGEST = 3  # words
_RANGES = f"{word_characters.EMOJI_RANGES} {word_characters.FLAG_RANGES}"
_EMOJI = re.compile(f"[{word_characters.ranges_class(_RANGES)}]")
_FLAGS = re.compile(f"[{word_characters.ranges_class(word_characters.FLAG_RANGES)}]+$")
_PART = (  # an emoji with its variation selector, skin tone and tags
    f"[{word_characters.ranges_class(word_characters.EMOJI_RANGES)}]"
    "\ufe0f?[\U0001f3fb-\U0001f3ff]?[\U000e0020-\U000e007f]*"
)
_SEQUENCE = re.compile(f"(?:{_PART}(?:\u200d{_PART})*|[0-9#*]\ufe0f?\u20e3)$")
_LONGEST_SEQUENCE = 32  # characters
_SAID: Mapping[str, Mapping[str, str]] = {
    "en": {
        "haha": "😂",
        "hahaha": "😂",
        "lol": "😂",
        "lmao": "🤣",
        "rofl": "🤣",
        "happy birthday": "🎂",
        "congrats": "🎉",
        "congratulations": "🎉",
        "happy new year": "🎉",
        "merry christmas": "🎄",
        "i love you": "❤️",
        "love you": "❤️",
        "miss you": "😘",
        "thank you": "🙏",
        "thanks": "🙏",
        "good luck": "🤞",
        "good night": "😴",
        "good morning": "☀️",
        "well done": "👏",
        "no idea": "🤷",
        "so sad": "😢",
        "so cute": "😍",
        "yum": "😋",
        "yay": "🎉",
        "wow": "😮",
        "sorry": "😔",
        "hugs": "🤗",
        "cheers": "🍻",
        "awesome": "😎",
    },
    "de": {
        "haha": "😂",
        "alles gute": "🎂",
        "ich liebe dich": "❤️",
        "herzlichen glückwunsch": "🎉",
        "danke": "🙏",
        "gute nacht": "😴",
    },
    "tr": {
        "haha": "😂",
        "doğum günün": "🎂",
        "seni seviyorum": "❤️",
        "tebrikler": "🎉",
        "teşekkürler": "🙏",
        "iyi geceler": "😴",
    },
    "es": {
        "haha": "😂",
        "jaja": "😂",
        "jajaja": "😂",
        "feliz cumpleaños": "🎂",
        "feliz navidad": "🎄",
        "te quiero": "❤️",
        "te amo": "❤️",
        "felicidades": "🎉",
        "gracias": "🙏",
        "buenas noches": "😴",
        "buenos días": "☀️",
        "buena suerte": "🤞",
    },
    "nl": {
        "haha": "😂",
        "hahaha": "😂",
        "gefeliciteerd": "🎉",
        "fijne verjaardag": "🎂",
        "ik hou van je": "❤️",
        "dank je": "🙏",
        "dankjewel": "🙏",
        "bedankt": "🙏",
        "welterusten": "😴",
        "goedemorgen": "☀️",
        "veel succes": "🤞",
    },
    "pt": {
        "haha": "😂",
        "kkk": "😂",
        "feliz aniversário": "🎂",
        "feliz natal": "🎄",
        "te amo": "❤️",
        "amo-te": "❤️",
        "parabéns": "🎉",
        "obrigado": "🙏",
        "obrigada": "🙏",
        "boa noite": "😴",
        "bom dia": "☀️",
        "boa sorte": "🤞",
    },
}


class EmojiWords:
    """Emoji by the words in front of the cursor.

    >>> emoji = EmojiWords("en")
    >>> emoji.after(["a", "happy", "birthday"]), emoji.after(["my", "dog"]), emoji.after(["the"])
    (('🎂', 0.06), ('🐕', 0.02), None)
    """

    def __init__(self, language: str):
        path = FOLDER / f"{language}.tsv"
        lines = path.read_text("utf-8").splitlines() if path.is_file() else []
        self._emoji_of_name = dict(line.split("\t") for line in lines if not line.startswith("#"))
        self._said = _SAID.get(language, {})

    def after(self, words: Sequence[str]) -> tuple[str, float] | None:
        """Returns the emoji of the longest phrase that the words end with, and its chance."""
        for count in range(min(_LONGEST, len(words)), 0, -1):
            phrase = " ".join(words[-count:])
            if phrase in self._said:
                return self._said[phrase], _CHANCE_SAID
            if phrase in self._emoji_of_name:
                return self._emoji_of_name[phrase], _CHANCE_NAMED
        return None


def is_emoji(word: str) -> bool:
    """Returns whether a word has an emoji in it."""
    return _EMOJI.search(word) is not None


def length_of_last(text: str) -> int:
    """Returns the number of characters of the last emoji of a text, or 1 if no emoji is last.

    An emoji is a whole sequence: a flag, a family, a hand with its skin tone.

    >>> [length_of_last(text) for text in ("so 👩‍👩‍👧", "🇩🇪🇫🇷", "👍🏽", "é")]
    [5, 2, 2, 1]
    """
    end = text[-_LONGEST_SEQUENCE:]
    if flags := _FLAGS.search(end):
        return 2 - len(flags.group()) % 2
    sequence = _SEQUENCE.search(end)
    return len(sequence.group()) if sequence else 1
