"""Recognises the sentences that chat programs write into chats by themselves.

Exports of some programs contain these sentences as if a member of the chat had typed them:
"Anna sent an attachment.", "Reacted 😂 to your message". Their wordings, in the languages of the
exports, are in `automatic_lines.toml`. A message is one of them only if it is the whole sentence,
and, where the sentence begins with a name, the name of its sender or of another member.
"""

import functools
import itertools
import pathlib
import re
from collections.abc import Iterable, Iterator
from typing import Literal

from tff_keyboard.storage import toml

Kind = Literal["reaction", "event"]
KINDS: tuple[Kind, ...] = ("reaction", "event")
MAX_CHARACTERS = 5000  # of a sentence with its names and quotations; longer text was typed
NAMELESS = "A contact"  # Meta's name for a removed sender, which stands for any member of the chat

_PLAIN = str.maketrans(
    {
        **dict.fromkeys("\u00a0\u202f\u2009", " "),
        **dict.fromkeys("\u2018\u2019", "'"),
        **dict.fromkeys("“”„«»", '"'),
        **dict.fromkeys("\u200e\u200f\u202a\u202b\u202c\u2066\u2067\u2068\u2069\ufeff"),
    }
)
_PARTS = re.compile(r"\{(\w+)\}|[<|>]|[^<|>{]+")
_REGEX = {
    "{any}": r".{1,300}?",
    "{quote}": r".*",
    "{emoji}": r"(?:(?![^\W\d_])[^\n]){1,24}?",  # no letters
    "{n}": r"\d{1,4}",
    "<": "(?:",
    "|": "|",
    ">": ")",
}
_STARTS = re.compile(r"\{(sender|subject|member)\}(?P<rest>.*)")
# Senders whose name Meta removed, in several languages.
_NAMELESS = frozenset(
    {
        *(NAMELESS, "Facebook user", "Facebook User", "Instagram User", "Instagram user"),
        *("Facebook-Nutzer", "Facebook-Nutzer/in", "Instagram-Nutzer", "Usuario de Facebook"),
        *("Usuario de Instagram", "Utilisateur Facebook", "Utilisateur Instagram"),
        *("Utente di Facebook", "Utente Instagram", "Usuário do Facebook"),
        *("Utilizador do Facebook", "Usuário do Instagram", "Facebook-gebruiker"),
        *("Instagram-gebruiker", "Użytkownik Facebooka", "Użytkownik Instagrama"),
        *("Facebook Kullanıcısı", "Instagram Kullanıcısı"),
    }
)
_MAX_NAME_WORDS = 6


class AutomaticLines:
    """The sentences of one program, in all languages."""

    def __init__(self, program: str):
        """Reads the sentences of a table of `automatic_lines.toml`, such as "messenger"."""
        path = pathlib.Path(__file__).with_name("automatic_lines.toml")
        languages = toml.parse(path.read_text("utf-8"))[program].values()
        self._you = tuple(you for language in languages for you in language["you"])
        self._titles = tuple(f"{table['title']} " for table in languages if "title" in table)
        self._whole: dict[Kind, dict[str, re.Pattern[str]]] = {}
        self._after_name: dict[tuple[Kind, str], re.Pattern[str]] = {}
        for kind in KINDS:
            sentences = [
                sentence
                for language in languages
                for sentence in language.get(kind, "").strip().split("\n")
                if sentence
            ]
            self._whole[kind] = _by_first_word(
                sentence for sentence in sentences if not _STARTS.match(sentence)
            )
            starts = [match for sentence in sentences if (match := _STARTS.match(sentence))]
            for role in ("sender", "subject", "member"):
                rests = [match["rest"] for match in starts if match[1] == role]
                self._after_name[kind, role] = _any_of(rests)

    def kind_of(self, text: str, sender: str, members: "Members") -> Kind | None:
        """Returns the kind of an automatic sentence; None if a user typed the text.

        The time is linear in the length of the text.

        Args:
          text: The message.
          sender: The name of its sender; `NAMELESS` if any member may have sent it.
          members: The members of the chat.
        """
        if len(text) > MAX_CHARACTERS:
            return None
        plain = (text if text.isascii() else text.translate(_PLAIN)).strip()
        for title in self._titles:
            plain = plain.removeprefix(title)
        first = plain.partition(" ")[0]
        for kind in KINDS:
            sentences = self._whole[kind]
            for word in (first, ""):
                if word in sentences and sentences[word].fullmatch(plain):
                    return kind
        for role, after_name in itertools.chain(
            self._after_you(plain, first), _after_names(plain, first, sender, members)
        ):
            for kind in KINDS:
                if self._after_name[kind, role].fullmatch(after_name):
                    return kind
        return None

    def _after_you(self, plain: str, first: str) -> Iterator[tuple[str, str]]:
        if first in self._you:
            yield "subject", plain[len(first) :]


class Members:
    """The names of the members of a chat, with an index by their first words."""

    def __init__(self, names: Iterable[str] = ()):
        self._names: dict[str, set[str]] = {}
        for name in names:
            self.add(name)

    def add(self, name: str) -> None:
        """Adds a name. Blank names are ignored."""
        if words := _plain_name(name).split(" "):
            self._names.setdefault(words[0], set()).add(" ".join(words))

    def beginning_with(self, word: str) -> frozenset[str]:
        """Returns the names whose first word is `word`."""
        return frozenset(self._names.get(word, ()))


def _after_names(
    plain: str, first: str, sender: str, members: Members
) -> Iterator[tuple[str, str]]:
    """Yields `(role, text after the name)` for each name, or its first words, at the beginning.

    Args:
      plain: The text of the message.
      first: Its first word.
      sender: As for `kind_of`.
      members: As for `kind_of`.
    """
    sender = _plain_name(sender)
    if sender in _NAMELESS:
        for match in itertools.islice(re.finditer(" |, ", plain), _MAX_NAME_WORDS):
            for role in ("sender", "subject", "member"):
                yield role, plain[match.start() :]
        return
    roles: dict[str, tuple[str, ...]] = {
        after_name: ("sender", "subject", "member") for after_name in _rests(plain, sender)
    }
    word = first.rstrip(",")
    if plain.startswith(f"{NAMELESS} "):
        roles[plain.removeprefix(NAMELESS)] = ("sender", "subject", "member")
    for name in members.beginning_with(word):
        for after_name in _rests(plain, name):
            roles.setdefault(after_name, ("member",))
    for after_name, names in roles.items():
        for role in names:
            yield role, after_name


def _rests(plain: str, name: str) -> list[str]:
    """Returns the rests of a text after a name, or after its first words, at its beginning."""
    words = name.split(" ")[:_MAX_NAME_WORDS]
    beginnings = (" ".join(words[:count]) for count in range(1, len(words) + 1))
    return [plain.removeprefix(part) for part in beginnings if part and plain.startswith(part)]


def _plain_name(name: str) -> str:
    """Returns a name with plain quotes, single blanks, and no invisible marks of direction."""
    return " ".join(name.translate(_PLAIN).split())


def _by_first_word(sentences: Iterable[str]) -> dict[str, re.Pattern[str]]:
    """Returns first word -> pattern of the sentences that begin with it; "" if it may be any."""
    groups: dict[str, list[str]] = {}
    for sentence in sentences:
        for word in _first_words(sentence):
            groups.setdefault(word, []).append(sentence)
    return {word: _any_of(group) for word, group in groups.items()}


def _first_words(sentence: str) -> set[str]:
    """Returns the first words of all readings of a sentence; {""} for a placeholder."""
    alternatives = [sentence]
    while any(re.match(r"[^ {<]*<", text) for text in alternatives):
        alternatives = [reading for text in alternatives for reading in _readings(text)]
    words = {text.partition(" ")[0] for text in alternatives}
    return {""} if any("{" in word for word in words) else words


def _readings(text: str) -> Iterator[str]:
    """Yields a text with each of the alternatives of its first group, which has no group in it.

    >>> list(_readings("<added|removed> you"))
    ['added you', 'removed you']
    """
    before, _, after_bracket = text.partition("<")
    if "{" in before or " " in before or not after_bracket:
        yield text
        return
    group, _, after = after_bracket.partition(">")
    for alternative in group.split("|"):
        yield before + alternative + after


def _any_of(sentences: Iterable[str]) -> re.Pattern[str]:
    """Returns a pattern that matches any of the sentences, and nothing if there are none."""
    patterns = ["".join(_regex_of(part) for part in _parts(text)) for text in sentences]
    return re.compile("|".join(patterns) if patterns else r"(?!)", re.DOTALL)


def _parts(sentence: str) -> Iterator[str]:
    return (match.group() for match in _PARTS.finditer(sentence))


def _regex_of(part: str) -> str:
    return _REGEX.get(part) or re.escape(part)


@functools.cache
def of_program(program: str) -> AutomaticLines:
    """Returns the sentences of a program. They are read once."""
    return AutomaticLines(program)
