"""How a person names a model on the command line; parses the words and opens nothing.

A path is a run directory, a saved model, a directory or file with an n-gram, a `.tflite` file, or a
`.combined` word list (`predictors/aosp/`).
A baseline has no path: `ngram` (order 5), `ngram:3` (order 3), `ngram:1.25M` (pruned to so many
n-grams), `ngram:1.44MB` (pruned and rounded to a file of so many bytes), `unigram`. `ngram+all`
knows every word of the train people, not the store's table alone, and `ngram+own` also the person's
own words, by a cache: `ngram+all+own:1.25M` is what Hard et al. 2018 compare with. `hybrid:PATH`
puts a run or a `.tflite` file behind one strip with an n-gram file of 500 kB and a cache;
`hybrid:1.44MB:PATH` takes an n-gram file of another size, and `hybrid+tail:PATH` has a lexicon of
20,000 words beyond the table as well (`predictors/tail_lexicon.py`). A `.tflite` file with an
n-gram beside it is the keyboard of both and a cache; `network:PATH` is its network alone.
"""

import pathlib
import re
from collections.abc import Sequence

from tff_keyboard.storage import shipped_files
from tff_keyboard.storage.errors import UsageError

NGRAM_SUFFIX = ".ngram"
TFLITE_SUFFIX = ".tflite"
COMBINED_SUFFIX = ".combined"

_HYBRID = re.compile(r"hybrid(?P<tail>\+tail)?:(?:(?P<size>[0-9.]+[kM]B):)?(?P<path>.+)")
_HYBRID_SIZE = "500kB"
_BASELINE = re.compile(r"unigram|ngram(?P<all>\+all)?(?P<own>\+own)?(?P<size>:.*)?")
_NETWORK = "network:"


def _says(pattern: re.Pattern[str], word: str, group: str) -> bool:
    match = pattern.fullmatch(word)
    return match is not None and match[group] is not None


def is_baseline(word: str) -> bool:
    """Whether `word` names a baseline rather than a path.

    >>> [is_baseline(word) for word in ("unigram", "ngram", "ngram+own:3", "runs/ngram")]
    [True, True, True, False]
    """
    return _BASELINE.fullmatch(word) is not None


def has_every_word(word: str) -> bool:
    """Whether a baseline knows every word of the train people.

    >>> has_every_word("ngram+all:3"), has_every_word("ngram+own")
    (True, False)
    """
    return _says(_BASELINE, word, "all")


def has_own_words(word: str) -> bool:
    """Whether a baseline learns the words of the person that it is judged on.

    >>> has_own_words("ngram+all+own:1.25M"), has_own_words("ngram+all")
    (True, False)
    """
    return _says(_BASELINE, word, "own")


def is_trained_here(word: str) -> bool:
    """Whether opening `word` takes a store: a baseline, or the n-gram of a hybrid."""
    return is_baseline(word) or is_hybrid(word)


def path_of(word: str) -> pathlib.Path | None:
    """The run or file that a word names; None for a baseline.

    >>> path_of("hybrid:1.44MB:runs/sms"), path_of("ngram:3"), path_of("runs/sms")
    (PosixPath('runs/sms'), None, PosixPath('runs/sms'))
    """
    match = _HYBRID.fullmatch(word)
    if match is not None:
        return shipped_files.found(pathlib.Path(match["path"]))
    if word.startswith(_NETWORK):
        return shipped_files.found(pathlib.Path(word.removeprefix(_NETWORK)))
    return None if is_baseline(word) else shipped_files.found(pathlib.Path(word))


def check_words(words: Sequence[str]) -> None:
    """Refuses what no model can be, before anything heavy is imported.

    Raises `UsageError` for a word that is given twice, or that names neither a baseline nor
    something that is there.
    """
    if len(set(words)) < len(words):
        raise UsageError("A model is given twice; every difference to itself is zero.")
    for word in words:
        # Whose reader says what is missing.
        is_file = word.endswith((NGRAM_SUFFIX, TFLITE_SUFFIX, COMBINED_SUFFIX))
        path = path_of(word)
        if path is not None and not is_file and not path.is_dir():
            raise UsageError(
                f"'{word}' is no model: give a run directory, a .tflite, .ngram or .combined file, "
                "or one of the baselines 'ngram', 'ngram:3', 'ngram:1.25M', 'ngram:1.44MB' and "
                "'unigram'."
            )


def names_of(words: Sequence[str]) -> list[str]:
    """Short names of models: the last part of a path where that tells them apart.

    >>> names_of(["runs/sms/", "ngram", "a/keyboard.tflite", "b/keyboard.tflite"])
    ['sms', 'ngram', 'a/keyboard.tflite', 'b/keyboard.tflite']
    >>> names_of(["runs/sms/", "hybrid:runs/sms"])
    ['sms', 'hybrid:sms']
    >>> names_of(["hybrid+tail:500kB:runs/sms", "network:k.tflite"])
    ['hybrid+tail:sms', 'network:k.tflite']
    """
    short = []
    for word in words:
        path = path_of(word)
        kind = f"{word.split(':')[0]}:" if is_network_alone(word) else ""
        short.append(kind + path.name if path is not None and path.name else word)
    return [
        name if short.count(name) == 1 else word for name, word in zip(short, words, strict=True)
    ]


def is_hybrid(word: str) -> bool:
    """Whether `word` names a network together with an n-gram."""
    return _HYBRID.fullmatch(word) is not None


def has_tail(word: str) -> bool:
    """Whether `word` names a hybrid with a lexicon of words beyond the table.

    >>> has_tail("hybrid+tail:runs/sms"), has_tail("hybrid:runs/sms")
    (True, False)
    """
    return _says(_HYBRID, word, "tail")


def is_network_alone(word: str) -> bool:
    """Whether of an exported file only the network is meant.

    >>> is_network_alone("network:k.tflite"), is_network_alone("hybrid:k.tflite")
    (True, True)
    >>> is_network_alone("k.tflite")
    False
    """
    return is_hybrid(word) or word.startswith(_NETWORK)


def ngram_of(word: str) -> str:
    """The n-gram that opening `word` trains, as `predictors.ngram.ngram_spec` reads it.

    >>> ngram_of("hybrid:1.44MB:runs/sms"), ngram_of("hybrid:runs/sms"), ngram_of("ngram+own:3")
    ('ngram:1.44MB', 'ngram:500kB', 'ngram:3')
    """
    match = _HYBRID.fullmatch(word)
    if match is not None:
        return f"ngram:{match['size'] or _HYBRID_SIZE}"
    baseline = _BASELINE.fullmatch(word)
    return f"ngram{baseline['size'] or ''}" if baseline and word != "unigram" else word
