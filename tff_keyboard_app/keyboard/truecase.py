"""Finds the form in which a lower-case word is shown: "I", "Monday", "don't".

Forms come from a built-in table of English words that always have this form, and from the table of
most frequent forms in the manifest of an export (`truecase`, a list such as `["Singapore",
"WhatsApp"]`). The most frequent form is a baseline of truecasing: Lita et al. 2003, "tRuEcasIng".
"""

from tff_keyboard.data.text import casing

# May, March and August are left out: they are words, too.
_ENGLISH_FORMS = (
    "I", "I'm", "I'll", "I've", "I'd", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday",
    "Saturday", "Sunday", "January", "February", "April", "June", "July", "September", "October",
    "November", "December",
)  # fmt: skip

# Typed without the apostrophe, these are no other words. "well", "were", "its", "ill", "id",
# "lets" and the like are, and stay.
_ENGLISH_CONTRACTIONS = (
    "ain't", "aren't", "can't", "couldn't", "didn't", "doesn't", "don't", "hadn't", "hasn't",
    "haven't", "isn't", "mustn't", "shouldn't", "wasn't", "weren't", "won't", "wouldn't", "I'm",
    "I've", "you're", "you've", "you'll", "you'd", "they're", "they've", "they'll", "they'd",
    "we've", "it'll", "he's", "she's", "that's", "what's", "there's", "where's", "who's", "how's",
    "o'clock", "should've", "could've", "would've", "might've", "must've", "y'all", "it'd",
    "that'll", "that'd", "there'll", "there'd", "who'll", "who'd",
)  # fmt: skip


class Truecase:
    """Forms of lower-case words.

    >>> truecase = Truecase("en", ["Singapore"])
    >>> [truecase.form(word) for word in ("i'm", "monday", "singapore", "may", "dont")]
    ["I'm", 'Monday', 'Singapore', 'may', "don't"]
    >>> truecase.sure_form("dont"), truecase.sure_form("singapore")
    ("don't", None)

    The language determines lower case. "en" has a built-in table, which takes precedence over
    `forms` unless `built_in` is False.
    """

    def __init__(
        self, language: str, forms: tuple[str, ...] | list[str] = (), *, built_in: bool = True
    ):
        self._sure: dict[str, str] = {}
        if language == "en" and built_in:
            self._sure = {form.lower(): form for form in _ENGLISH_FORMS}
            self._sure |= {c.lower().replace("'", ""): c for c in _ENGLISH_CONTRACTIONS}
        self._forms = {casing.lower(form, language): form for form in forms} | self._sure

    def form(self, word: str) -> str:
        """Returns the form of a word, or the word if it has none. "x's" takes the form of "x"."""
        form = self._forms.get(word)
        if form is None and word.endswith("'s"):
            return self._forms.get(word[:-2], word[:-2]) + "'s"
        return word if form is None else form

    @property
    def without_apostrophe(self) -> frozenset[str]:
        """Returns contractions without their apostrophe that are not other words: "dont"."""
        return frozenset(
            word for word, form in self._sure.items() if "'" in form and "'" not in word
        )

    def sure_form(self, word: str) -> str | None:
        """Returns the form that a word always has; None if the word may stay in lower case."""
        form = self._sure.get(word)
        return form if form != word else None
