"""Makes `emoji_words/LANGUAGE.tsv` of the keyboard: words after which an emoji is offered.

    python -m tff_keyboard_lab.tools.emoji_words --annotations=en.xml --sequences=emoji-test.txt

`--annotations` are those of Unicode CLDR, `--sequences` the list of Unicode's emoji (Debian:
unicode-cldr-core and unicode-data). A word has an emoji if it is the emoji's name. Names
of more than two words, symbols, flags, and birds that are countries as well are left out.
"""

import argparse
import pathlib
import re
import xml.etree.ElementTree

from tff_keyboard_app.keyboard.emoji import FOLDER

_GROUPS = (
    "Smileys & Emotion", "People & Body", "Animals & Nature", "Food & Drink", "Travel & Places",
    "Activities", "Objects",
)  # fmt: skip
_LONGEST = 2  # words of a name
_COUNTRIES = {"turkey", "peru"}  # which languages write in lower case
_SHORTEST = 3  # letters
_SKIN_TONES = re.compile("[\U0001f3fb-\U0001f3ff]")
_VARIATION = "\ufe0f"


def sequences(lines: list[str]) -> dict[str, str]:
    """Returns emoji without U+FE0F -> with it, as it is shown in colour; without skin tones."""
    colour_forms: dict[str, str] = {}
    group = ""
    for line in lines:
        if line.startswith("# group: "):
            group = line.removeprefix("# group: ").strip()
        elif "; fully-qualified" in line and group in _GROUPS:
            emoji = "".join(chr(int(code, 16)) for code in line.split(";")[0].split())
            if not _SKIN_TONES.search(emoji):
                colour_forms[emoji.replace(_VARIATION, "")] = emoji
    return colour_forms


def words_of(annotations: str, colour_forms: dict[str, str]) -> dict[str, str]:
    """Returns words -> emoji."""
    emoji_of_words: dict[str, str] = {}
    for entry in xml.etree.ElementTree.fromstring(annotations).iter("annotation"):
        emoji = colour_forms.get(entry.attrib["cp"])
        if emoji is not None and entry.attrib.get("type") == "tts":
            emoji_of_words.setdefault((entry.text or "").strip().lower(), emoji)
    return {
        word: emoji
        for word, emoji in emoji_of_words.items()
        if re.fullmatch(r"[^\W\d_]+( [^\W\d_]+)*", word)
        and len(word.split()) <= _LONGEST
        and len(word) >= _SHORTEST
        and word not in _COUNTRIES
    }


def main() -> None:
    """Writes the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--annotations", type=pathlib.Path, required=True)
    parser.add_argument("--sequences", type=pathlib.Path, required=True)
    parser.add_argument("--language", default="en")
    flags = parser.parse_args()
    colour_forms = sequences(flags.sequences.read_text("utf-8").splitlines())
    emoji_of_words = words_of(flags.annotations.read_text("utf-8"), colour_forms)
    lines = [
        "# Words and the emoji that they name; made by tools/emoji_words.py of the annotations of",
        "# Unicode CLDR 41. Copyright 1991-2022 Unicode, Inc. SPDX-License-Identifier: "
        "Unicode-DFS-2016",
        *(f"{word}\t{emoji}" for word, emoji in sorted(emoji_of_words.items())),
    ]
    out = FOLDER / f"{flags.language}.tsv"
    out.write_text("\n".join(lines) + "\n", "utf-8")
    print(f"{out}: {len(emoji_of_words):,} words.")


if __name__ == "__main__":
    main()
