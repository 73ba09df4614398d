"""Parses the names of models on the command line, without opening them.

A path is a run directory, a saved model, an `.ngram` file or a `.tflite` file. Packages can
register other files (`command_line/predictors.py`), such as a `.combined` word list.

A baseline has no path: `ngram` (order 5), `ngram:3` (order 3), `ngram:1.25M` (pruned to this number
of n-grams), `ngram:1.44MB` (pruned and rounded to a file of this size), `unigram`. `ngram+all`
contains every word of the train users, not only the store's vocabulary. `ngram+own` also learns the
user's own words with a cache. `ngram+all+own:1.25M` is the baseline of Hard et al. 2018.

`hybrid:PATH` combines a run or a `.tflite` file with an n-gram file of 500 kB and a cache.
`hybrid:1.44MB:PATH` uses an n-gram file of another size. A `.tflite` file with an
n-gram file next to it is the keyboard of both and a cache; `network:PATH` is its network alone.
"""

import pathlib
import re
from collections.abc import Sequence

from tff_keyboard.storage import entry_points, shipped_files
from tff_keyboard.storage.errors import UsageError

NGRAM_SUFFIX = ".ngram"
TFLITE_SUFFIX = ".tflite"
FILE_GROUP = "tff_keyboard.model_files"  # entry points, each named after a suffix

_HYBRID = re.compile(r"hybrid:(?:(?P<size>[0-9.]+[kM]B):)?(?P<path>.+)")
_HYBRID_SIZE = "500kB"
_BASELINE = re.compile(r"unigram|ngram(?P<all>\+all)?(?P<own>\+own)?(?P<size>:.*)?")
_NETWORK = "network:"


def _says(word: str, group: str) -> bool:
    """Checks if a word names a baseline that has a part, a group of `_BASELINE`."""
    match = _BASELINE.fullmatch(word)
    return match is not None and match[group] is not None


def is_baseline(word: str) -> bool:
    """Checks if `word` is a baseline instead of a path.

    >>> [is_baseline(word) for word in ("unigram", "ngram", "ngram+own:3", "runs/ngram")]
    [True, True, True, False]
    """
    return _BASELINE.fullmatch(word) is not None


def has_every_word(word: str) -> bool:
    """Checks if a baseline contains every word of the train users.

    >>> has_every_word("ngram+all:3"), has_every_word("ngram+own")
    (True, False)
    """
    return _says(word, "all")


def has_own_words(word: str) -> bool:
    """Checks if a baseline learns the words of the evaluated user.

    >>> has_own_words("ngram+all+own:1.25M"), has_own_words("ngram+all")
    (True, False)
    """
    return _says(word, "own")


def is_trained_here(word: str) -> bool:
    """Checks if opening `word` needs a store: for a baseline, or for the n-gram of a hybrid."""
    return is_baseline(word) or is_hybrid(word)


def path_of(word: str) -> pathlib.Path | None:
    """Returns the run or file in a name, or None for a baseline.

    >>> path_of("hybrid:1.44MB:runs/sms"), path_of("ngram:3"), path_of("runs/sms")
    (PosixPath('runs/sms'), None, PosixPath('runs/sms'))
    """
    match = _HYBRID.fullmatch(word)
    if match is not None:
        return shipped_files.locate(pathlib.Path(match["path"]))
    if word.startswith(_NETWORK):
        return shipped_files.locate(pathlib.Path(word.removeprefix(_NETWORK)))
    return None if is_baseline(word) else shipped_files.locate(pathlib.Path(word))


def registered_suffixes() -> list[str]:
    """Returns the suffixes of the files that installed packages can open, such as ".combined"."""
    return [f".{name}" for name in sorted(entry_points.find(FILE_GROUP))]


def check_words(words: Sequence[str]) -> None:
    """Rejects invalid names of models before anything heavy is imported.

    Raises `UsageError` for a name that is given twice, or that is neither a baseline nor an
    existing path.
    """
    if len(set(words)) < len(words):
        raise UsageError("A model is given twice. Its difference to itself is always zero.")
    suffixes = (TFLITE_SUFFIX, NGRAM_SUFFIX, *registered_suffixes())
    for word in words:
        is_file = word.endswith(suffixes)  # the reader of a file reports missing files
        path = path_of(word)
        if path is not None and not is_file and not path.is_dir():
            raise UsageError(
                f"'{word}' is not a model. Pass a run directory, a file ({', '.join(suffixes)}), "
                "or one of the baselines 'ngram', 'ngram:3', 'ngram:1.25M', 'ngram:1.44MB' and "
                "'unigram'."
            )


def names_of(words: Sequence[str]) -> list[str]:
    """Returns short names of models: the last part of the path, if that is unique.

    >>> names_of(["runs/sms/", "ngram", "a/keyboard.tflite", "b/keyboard.tflite"])
    ['sms', 'ngram', 'a/keyboard.tflite', 'b/keyboard.tflite']
    >>> names_of(["runs/sms/", "hybrid:runs/sms"])
    ['sms', 'hybrid:sms']
    >>> names_of(["hybrid:500kB:runs/sms", "network:k.tflite"])
    ['hybrid:sms', 'network:k.tflite']
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
    """Checks if `word` is a network together with an n-gram."""
    return _HYBRID.fullmatch(word) is not None


def is_network_alone(word: str) -> bool:
    """Checks if only the network of an exported file is used.

    >>> is_network_alone("network:k.tflite"), is_network_alone("hybrid:k.tflite")
    (True, True)
    >>> is_network_alone("k.tflite")
    False
    """
    return is_hybrid(word) or word.startswith(_NETWORK)


def ngram_of(word: str) -> str:
    """Returns the n-gram that opening `word` trains, for `predictors.ngram.ngram_spec`.

    >>> ngram_of("hybrid:1.44MB:runs/sms"), ngram_of("hybrid:runs/sms"), ngram_of("ngram+own:3")
    ('ngram:1.44MB', 'ngram:500kB', 'ngram:3')
    """
    match = _HYBRID.fullmatch(word)
    if match is not None:
        return f"ngram:{match['size'] or _HYBRID_SIZE}"
    baseline = _BASELINE.fullmatch(word)
    return f"ngram{baseline['size'] or ''}" if baseline and word != "unigram" else word
