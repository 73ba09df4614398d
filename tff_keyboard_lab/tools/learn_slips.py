"""Learns `tff_keyboard_app/keyboard/slips/LANGUAGE.tsv`, the costs of spelling errors.

    python -m tff_keyboard_lab.tools.learn_slips --pairs=wikipedia.tsv --pairs=codespell.tsv

Lines of the files are `typed<TAB>meant`. Only pairs of the tuning half are used, see `halves.py`.
Both words of a pair are cut into pieces of up to three letters, in all possible ways, and
expectation maximisation estimates

    P(meant piece -> typed piece) = (expected uses + k * share by hand) / (pieces meant + k)

Pieces meant are counted in the meant words. The share by hand comes from
`slip_costs.slips_by_hand`, which knows the keys. A longer piece is kept if it is used often enough
and costs clearly less than the shorter pieces that it consists of.
"""

import argparse
import collections
import math
import pathlib

from tff_keyboard_app.keyboard import slip_costs
from tff_keyboard_app.keyboard.languages import LANGUAGES
from tff_keyboard_app.keyboard.slip_costs import END, LONGEST_PIECE, START, SlipCosts
from tff_keyboard_app.keyboard.spelling import read_pairs
from tff_keyboard_lab.tools import halves

OUT = pathlib.Path(slip_costs.__file__).parent / "slips"
_BAND = 3  # letters that two words may be apart
_CONTEXT = 3  # letters kept beside what differs
_ROUNDS = 6
_PRIOR = 20.0  # weight of the shares by hand, in pieces meant
_MISSING = 15.0  # pieces meant, added to those of longer pieces, of which few are seen
_MIN_USES = 1.2
_MIN_GAIN = 0.4
_MIN_CHANGE = 0.25  # of a cost by its default, to be written down

Piece = tuple[str, str]  # the intended and the typed letters


def trimmed(meant: str, typed: str) -> Piece:
    """Marks the ends of both words, and removes most of the letters that they share there."""
    meant, typed = f"{START}{meant}{END}", f"{START}{typed}{END}"
    shorter = min(len(meant), len(typed))
    head = next((i for i in range(shorter) if meant[i] != typed[i]), shorter)
    tail = next(
        (i for i in range(shorter - head) if meant[-1 - i] != typed[-1 - i]), shorter - head
    )
    head, tail = max(0, head - _CONTEXT), max(0, tail - _CONTEXT)
    return meant[head : len(meant) - tail], typed[head : len(typed) - tail]


def pieces_of(meant: str, typed: str) -> list[tuple[int, int, int, int, Piece]]:
    """Returns `(i, j, i + p, j + q, piece)` for all pieces, sorted by their beginnings."""
    pieces = []
    for i in range(len(meant) + 1):
        for j in range(max(0, i - _BAND), min(len(typed), i + _BAND) + 1):
            for p in range(min(LONGEST_PIECE, len(meant) - i) + 1):
                for q in range(min(LONGEST_PIECE, len(typed) - j) + 1):
                    if p + q and abs(i + p - j - q) <= _BAND:
                        piece = meant[i : i + p], typed[j : j + q]
                        if _may_be_piece(*piece):
                            pieces.append((i, j, i + p, j + q, piece))
    return pieces


def _may_be_piece(meant: str, typed: str) -> bool:
    """Checks if `typed` may stand for a piece of a meant word, with the marks of start and end."""
    if meant == typed:
        return len(meant) == 1
    if START in meant + typed and not (meant[:1] == typed[:1] == START):
        return False
    if END in meant + typed and not (meant[-1:] == typed[-1:] == END):
        return False
    if not meant:
        return len(typed) == 1
    return bool(typed) or len(meant) == 1


def expected_uses(
    cut: list[list[tuple[int, int, int, int, Piece]]],
    ends: list[tuple[int, int]],
    shares: dict[Piece, float],
) -> dict[Piece, float]:
    """Returns the expected number of uses of each piece, over all ways to cut the pairs."""
    uses: dict[Piece, float] = collections.defaultdict(float)
    for pieces, end in zip(cut, ends, strict=True):
        forward: dict[tuple[int, int], float] = {(0, 0): 1.0}
        steps = []
        for i, j, k, m, piece in pieces:
            share = 1.0 if piece[0] == piece[1] else shares.get(piece, 0.0)
            before = forward.get((i, j), 0.0)
            if share and before:
                forward[k, m] = forward.get((k, m), 0.0) + before * share
                steps.append((i, j, k, m, piece, share))
        total = forward.get(end, 0.0)
        if not total:
            continue
        backward: dict[tuple[int, int], float] = {end: 1.0 / total}
        for i, j, k, m, piece, share in reversed(steps):
            after = backward.get((k, m), 0.0)
            if after:
                backward[i, j] = backward.get((i, j), 0.0) + after * share
                if piece[0] != piece[1]:
                    uses[piece] += forward[i, j] * share * after
    return uses


def learn(pairs: list[tuple[str, str]], language: str) -> dict[Piece, float]:
    """Returns `(meant, typed)` -> cost, with defaults, learned from pairs `(typed, meant)`."""
    by_hand = slip_costs.slips_by_hand(LANGUAGES[language])
    letters = sorted({*LANGUAGES[language].letters, "'"})
    shares = _single_shares(by_hand, letters)
    prior = dict(shares)
    meant_pieces: collections.Counter[str] = collections.Counter()
    for _, meant in pairs:
        marked = f"{START}{meant}{END}"
        for size in range(LONGEST_PIECE + 1):
            for i in range(len(marked) - size + 1):
                meant_pieces[marked[i : i + size]] += 1
    trimmed_pairs = [trimmed(meant, typed) for typed, meant in pairs]
    cut = [pieces_of(*pair) for pair in trimmed_pairs]
    ends = [(len(meant), len(typed)) for meant, typed in trimmed_pairs]
    for pieces in cut:  # longer pieces begin with little
        for *_, piece in pieces:
            if piece not in shares and piece[0] != piece[1]:
                shares[piece] = math.exp(-3.0 - 2.0 * max(map(len, piece)))
    for turn in range(_ROUNDS):
        uses = expected_uses(cut, ends, shares)
        min_uses = 0.0 if turn < _ROUNDS // 2 else _MIN_USES
        shares = {
            piece: (uses[piece] + _PRIOR * prior[piece]) / (meant_pieces[piece[0]] + _PRIOR)
            for piece in prior
        } | {
            piece: count / (meant_pieces[piece[0]] + _MISSING)
            for piece, count in uses.items()
            if piece not in prior and count > min_uses
        }
    first = max(1, sum(typed[:1] != meant[:1] for typed, meant in pairs))
    places = sum(len(meant) for _, meant in pairs)
    rate_first, rate = first / len(pairs), (len(pairs) - first) / (places - len(pairs))
    return _costs_to_write(shares, prior, by_hand, max(0.0, -math.log(rate_first / rate)))


def _single_shares(by_hand: dict[Piece, float], letters: list[str]) -> dict[Piece, float]:
    """Returns the shares by hand of single letters, doubled letters and swapped letters."""
    shares: dict[Piece, float] = {}
    for a in letters:
        shares[a, ""] = by_hand.get((a, ""), by_hand[slip_costs.ANY_LEFT_OUT, ""])
        shares["", a] = by_hand[slip_costs.ANY_ADDED, ""]
        for b in letters:
            if a != b:
                shares[a, b] = by_hand.get((a, b), by_hand[slip_costs.ANY_CHANGE, ""])
                shares[a + b, b + a] = by_hand[slip_costs.ANY_SWAP, ""]
    doubles = [piece for a in letters for piece in ((a * 2, a), (a, a * 2))]
    shares |= {piece: by_hand[piece] for piece in doubles if piece in by_hand}
    return {piece: math.exp(-cost) for piece, cost in shares.items()}


def _costs_to_write(
    shares: dict[Piece, float], prior: dict[Piece, float], by_hand: dict[Piece, float], first: float
) -> dict[Piece, float]:
    """Returns the costs that are written: pieces that differ enough from the shorter ones."""
    costs = {piece: -math.log(share) for piece, share in shares.items()}
    table = {(name, ""): cost for (name, typed), cost in by_hand.items() if len(name) > 3}
    table[slip_costs.FIRST_LETTER, ""] = first
    single = {piece: cost for piece, cost in costs.items() if piece in prior and len(piece[0]) <= 1}
    for size in (1, 2, 3):
        shorter = dict(table)
        for piece, cost in sorted(costs.items()):
            if max(map(len, piece)) != size:
                continue
            default = _cost_by(shorter, *piece)
            gain = _MIN_CHANGE if piece in single else _MIN_GAIN
            if cost < default - gain or (piece in prior and cost > default + gain):
                table[piece] = cost
    return table


def _cost_by(table: dict[Piece, float], meant: str, typed: str) -> float:
    """Returns the cost of a piece that is made of the shorter pieces of a table."""
    meant, typed = meant.strip(START + END), typed.strip(START + END)
    costs = SlipCosts(table | {(slip_costs.FIRST_LETTER, ""): 0.0}, {*meant, *typed})
    return float(costs.costs(typed, costs.coded([meant]))[0])


def main() -> None:
    """Learns the costs and writes the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=pathlib.Path, action="append", required=True)
    parser.add_argument("--language", default="en")
    parser.add_argument("--out", type=pathlib.Path)
    flags = parser.parse_args()
    pairs = {
        (pair.typed.lower(), pair.meant.lower())
        for path in flags.pairs
        for pair in read_pairs(path)
        if halves.is_in(pair.typed, "tuning")
        and pair.meant.replace("'", "").isalpha()
        and pair.typed.replace("'", "").isalpha()
    }
    table = learn(sorted(pairs), flags.language)
    out = flags.out or OUT / f"{flags.language}.tsv"
    lines = [f"{meant}\t{typed}\t{cost:.2f}" for (meant, typed), cost in sorted(table.items())]
    names = ", ".join(path.name for path in flags.pairs)
    head = [
        f"# meant, typed, cost; learned by tools/learn_slips.py of {len(pairs):,} pairs of the",
        f"# tuning halves of {names}; sources and licences: docs/phone/spelling.md",
    ]
    out.write_text("\n".join([*head, *lines]) + "\n", "utf-8")
    print(f"{out}: {len(lines):,} lines.")


if __name__ == "__main__":
    main()
