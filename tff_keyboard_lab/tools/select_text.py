r"""Chooses, from much text, the messages that are nearest to phone text (Moore and Lewis 2010).

    python -m tff_keyboard_lab.tools.select_text --near=chitchat.tsv.gz,goemotions.tsv.gz \
      --of=selfdialogue.tsv.gz,tatoeba_en.tsv.gz --keep=0.6 --out=data/open_text.tsv.gz

Every message of `--near` is kept. A message of `--of` is scored in bits a word by

    H_near(message) - H_of(message)

with a bigram model of each side. Messages with the lowest scores are kept, up to a share of the
words of `--of`. Moore and Lewis 2010, section 3, https://aclanthology.org/P10-2041. Both models
have the words that both sides use, and Witten-Bell weights. A message is judged by models that have
seen it, on either side. The order of lines is kept, and a user is named after file and id. `[NAME]`
and the like become masks in the form of the tokeniser (`<NAME>`).
"""

import argparse
import array
import gzip
import itertools
import pathlib
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from tff_keyboard.data.text.python_tokenizer import PythonTokenizer
from tff_keyboard.data.vocabulary import NormalisationRules
from tff_keyboard.storage import files

_MASK = re.compile(r"\[([A-Z]{2,20})\]")
_EDGE = 0  # id of a message's begin and end; 1 is a word that one side alone uses
_FEWEST_USES = 3


class Text(NamedTuple):
    """Lines of some files and their words.

    Attributes:
      lines: `user<TAB>text`, with masks in the form of the tokeniser.
      ids: [words + lines] int32; each line ends with the edge.
      ends: [lines] int64, index after the last id of each line.
    """

    lines: list[str]
    ids: np.ndarray
    ends: np.ndarray


def read_lines(paths: Sequence[pathlib.Path]) -> Iterator[str]:
    """Yields lines of all files, `file:user<TAB>text`."""
    for path in paths:
        name = path.name.split(".")[0]
        with gzip.open(path, "rt", encoding="utf-8") as file:
            for line in file:
                yield f"{name}:" + _MASK.sub(r"<\1>", line.rstrip())


def read_text(paths: Sequence[pathlib.Path], ids_of: dict[str, int]) -> Text:
    """Reads files and adds their words to `ids_of`."""
    tokenizer = PythonTokenizer(NormalisationRules())
    lines, ids, ends = [], array.array("i"), array.array("q")
    for line in read_lines(paths):
        for word in tokenizer.tokenize_one(line.partition("\t")[2]):
            ids.append(ids_of.setdefault(word, len(ids_of) + 2))
        ids.append(_EDGE)
        lines.append(line)
        ends.append(len(ids))
    return Text(lines, np.array(ids, np.int32), np.array(ends, np.int64))


def bits(train: np.ndarray, test: np.ndarray, num_ids: int) -> np.ndarray:
    """Returns the bits of each id of `test` under a bigram model of `train`.

        p(w | v) = (c(v w) + n(v) p(w)) / (c(v) + n(v)),   p(w) = (c(w) + 1) / sum_w (c(w) + 1)

    n(v) is the number of distinct words after v (Witten and Bell 1991).

    Args:
      train: [a] ids below `num_ids`, messages closed by the edge.
      test: [b] likewise.
      num_ids: Number of ids.

    Returns:
      [b] float64.
    """

    def keys(ids: np.ndarray) -> np.ndarray:
        """Returns one number per pair of an id and the id before it."""
        before = np.concatenate([[_EDGE], ids[:-1]])
        return before.astype(np.int64) * num_ids + ids

    seen, counts = np.unique(keys(train), return_counts=True)
    followers = np.bincount(seen // num_ids, minlength=num_ids)
    unigrams = np.bincount(train, minlength=num_ids)
    unigram = (unigrams + 1) / (len(train) + num_ids)
    test_keys = keys(test)
    rows = np.minimum(np.searchsorted(seen, test_keys), len(seen) - 1)
    pairs = np.where(seen[rows] == test_keys, counts[rows], 0)
    before = test_keys // num_ids
    weight = np.maximum(followers[before], 1)
    return -np.log2((pairs + weight * unigram[test]) / (unigrams[before] + weight))


def scores(near: Text, far: Text, num_ids: int) -> np.ndarray:
    """Returns the score of each line of `far`, [lines].

    The score is the number of bits a word by which `near` predicts the line worse than `far` does.
    """
    is_shared = (np.bincount(near.ids, minlength=num_ids) >= _FEWEST_USES) & (
        np.bincount(far.ids, minlength=num_ids) >= _FEWEST_USES
    )
    shared = np.where(is_shared, np.arange(num_ids), 1)
    shared[_EDGE] = _EDGE
    inside, outside = shared[near.ids], shared[far.ids]
    difference = bits(inside, outside, num_ids) - bits(outside, outside, num_ids)
    sums = np.diff(np.concatenate([[0.0], np.cumsum(difference)])[np.r_[0, far.ends]])
    return sums / np.diff(np.r_[0, far.ends])


def select(near: Text, far: Text, num_ids: int, keep: float) -> tuple[np.ndarray, float]:
    """Chooses the lines of `far` to keep.

    Returns:
      [lines] bool, and the highest score among the chosen lines.
    """
    line_scores = scores(near, far, num_ids)
    words = np.diff(np.r_[0, far.ends]) - 1
    order = np.argsort(line_scores, kind="stable")
    last = int(np.searchsorted(np.cumsum(words[order]), keep * words.sum(), "right"))
    is_selected = np.zeros(len(line_scores), bool)
    is_selected[order[:last]] = True
    return is_selected, float(line_scores[order[max(last - 1, 0)]])


def main(argv: Sequence[str] | None = None) -> None:
    """Parses, selects and writes."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--near",
        required=True,
        help="files with messages like those typed on phones, separated by commas",
    )
    parser.add_argument(
        "--of", required=True, help="files to choose messages from, separated by commas"
    )
    parser.add_argument(
        "--keep", type=float, default=0.6, help="share of the words of --of to keep"
    )
    parser.add_argument("--out", type=pathlib.Path, required=True, help="file to write (.tsv.gz)")
    options = parser.parse_args(argv)
    ids_of: dict[str, int] = {}
    near, far = (
        read_text([pathlib.Path(name) for name in names.split(",")], ids_of)
        for names in (options.near, options.of)
    )
    is_selected, highest = select(near, far, len(ids_of) + 2, options.keep)
    lines = [*near.lines, *itertools.compress(far.lines, is_selected)]
    options.out.parent.mkdir(parents=True, exist_ok=True)
    data = "".join(f"{line}\n" for line in lines).encode()
    files.write_atomically(options.out, [gzip.compress(data, mtime=0)])
    print(
        f"{len(near.lines):,} messages of --near and {is_selected.sum():,} of "
        f"{len(is_selected):,} others, up to"
    )
    print(f"{highest:+.2f} bits a word: {options.out}")
    names = np.array([line.partition(":")[0] for line in far.lines])
    for name in np.unique(names):
        print(f"  {name:16} {is_selected[names == name].mean():6.1%} of {np.sum(names == name):,}")


if __name__ == "__main__":
    main()
