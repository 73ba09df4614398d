r"""Compares caps of weights as multiples of the median: gain of liars, loss of honest text.

    python -m tff_keyboard_lab.benchmarks.attacks.weight_cap simulate FILE.tsv.gz ...
    python -m tff_keyboard_lab.benchmarks.attacks.weight_cap attack MULTIPLE \
        --config=configs/demo.toml ...
    python -m tff_keyboard_lab.benchmarks.attacks.weight_cap shares configs/demo.toml 1 2 3

`simulate` draws cohorts of 20 users of each file (`user<TAB>text`), of whom a tenth claims a
million tokens, and follows the median as `weight_cap.py` does. `attack` runs `tff-keyboard attack`
with that multiple instead of 2. `shares` prints the attackers' share of the places in cohorts, and
of the weight, in a training of a config with `weight_lie` and these seeds. It trains nothing.
"""

import collections
import gzip
import pathlib
import sys
from collections.abc import Sequence

import numpy as np

from tff_keyboard.command_line import cli
from tff_keyboard_lab.commands import attack

MULTIPLES = (1.0, 1.5, 2.0, 3.0)
MAX_EXAMPLES = 256  # messages of one visit
COHORT, LIARS, ROUNDS, WARM_UP, SEED = 20, 0.1, 2000, 100, 1
CLAIM = 1e6  # tokens


def tokens_per_visit(path: pathlib.Path) -> np.ndarray:
    """Returns the mean tokens, [users], that each user brings to a round.

    Ends of messages are included.
    """
    lengths = collections.defaultdict(list)
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            user, _, text = line.rstrip("\n").partition("\t")
            lengths[user].append(len(text.split()) + 1)
    return np.array([min(len(each), MAX_EXAMPLES) * np.mean(each) for each in lengths.values()])


def simulate(tokens: np.ndarray, multiple: float, liars: float) -> dict[str, float]:
    """Returns shares over many rounds.

    Args:
      tokens: [users] tokens that each user brings.
      multiple: Cap in units of the median claim.
      liars: Share of a cohort that claims `CLAIM`.

    Returns:
      `liars`, their share of all weight; `heavy`, the weight of a liar divided by that of an honest
      user in the tenth with most text; `kept`, the share of honest tokens that count.
    """
    generator = np.random.default_rng(SEED)
    heaviest = np.quantile(tokens, 0.9)
    median = 1.0
    totals: collections.Counter[str] = collections.Counter()
    for number in range(ROUNDS):
        brought = tokens[generator.choice(len(tokens), COHORT, replace=False)]
        lies = generator.random(COHORT) < liars
        claims = np.where(lies, CLAIM, brought)
        weights = np.minimum(claims, multiple * median)
        if number >= WARM_UP:
            heavy = ~lies & (brought >= heaviest)
            totals["all"] += weights.sum()
            totals["liars"] += weights[lies].sum()
            totals["num_liars"] += lies.sum()
            totals["heavy"] += weights[heavy].sum()
            totals["num_heavy"] += heavy.sum()
            totals["kept"] += weights[~lies].sum()
            totals["brought"] += brought[~lies].sum()
        median = max(1.0, median * np.exp(np.mean(claims > median) - 0.5))
    a_liar = totals["liars"] / max(totals["num_liars"], 1)
    return {
        "liars": totals["liars"] / totals["all"],
        "heavy": a_liar / (totals["heavy"] / totals["num_heavy"]),
        "kept": totals["kept"] / totals["brought"],
    }


def liar_shares(path: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the attackers' share of places and of weight in each round, [rounds] each.

    Raises `ConfigError` if clients are not weighted by their tokens.
    """
    import tensorflow as tf

    from tff_keyboard.aggregators.guards import weight_cap
    from tff_keyboard.algorithms.cohorts import share_of_cohorts
    from tff_keyboard.config import config_file
    from tff_keyboard.data.store.client_store import ClientStore
    from tff_keyboard.storage.errors import ConfigError
    from tff_keyboard.training.build import build_cohorts
    from tff_keyboard_lab.attacks.attackers import is_attacker

    config = config_file.load(path, [f"train.seed={seed}"])
    weighting = config.aggregation.client_weighting
    if weighting != "tokens":
        raise ConfigError(f"`aggregation.client_weighting` must be 'tokens', got '{weighting}'.")
    clients = build_cohorts(config, ClientStore(config.data.store))
    share = share_of_cohorts(config.train, LIARS)

    def client(batches, tokens):
        targets = np.concatenate([batch[:, 1:].ravel() for batch in batches])
        data = tf.data.Dataset.from_tensors({"y": targets})
        return tokens, bool(is_attacker(data, share, seed))

    median, seats, weights = weight_cap.FIRST_MEDIAN, [], []
    for round_num in range(1, config.train.rounds + 1):
        cohort, _ = clients.round_input(
            round_num, lambda batches, tokens: list(map(client, batches, tokens))
        )
        tokens, lies = (np.array(column) for column in zip(*cohort, strict=True))
        claims = np.where(lies, CLAIM, tokens)
        counted = np.minimum(claims, weight_cap.MULTIPLE * median)
        seats.append(lies.mean())
        weights.append(counted[lies].sum() / counted.sum())
        median = max(1.0, median * np.exp(np.mean(claims > median) - 0.5))
    return np.array(seats), np.array(weights)


def main(arguments: Sequence[str]) -> int:
    """Prints the table, or runs the task."""
    command, *operands = arguments or [""]
    if command == "simulate" and operands:
        for name in operands:
            tokens = tokens_per_visit(pathlib.Path(name))
            for multiple in MULTIPLES:
                lied, honest = simulate(tokens, multiple, LIARS), simulate(tokens, multiple, 0.0)
                print(
                    f"{name}: cap {multiple:g} medians, liars have {lied['liars']:.1%} of the "
                    f"weight, a liar {lied['heavy']:.2f} times the weight of a heavy typist; "
                    f"without liars {honest['kept']:.1%} of the tokens count"
                )
        return 0
    if command == "shares" and len(operands) > 1:
        for seed in map(int, operands[1:]):
            seats, weights = liar_shares(operands[0], seed)
            print(
                f"{operands[0]}, seed {seed}: attackers have {seats.mean():.1%} of the places and "
                f"{weights.mean():.1%} of the weight, {weights.max():.1%} in the worst round"
            )
        return 0
    if command == "attack" and len(operands) > 1:
        from tff_keyboard.aggregators.guards import weight_cap

        weight_cap.MULTIPLE = float(operands[0])
        return cli.launch(attack, operands[1:])
    print(__doc__)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
