"""Attacks against aggregation rules: a table that can fail.

python -m benchmarks.attack_table --store=data/irc --workdir=runs/attacks --rules=mean,median
    --shares=0.1,0.2 --seeds=1,2,3

Every cell is a federated training of a small model (`log_bilinear.py`) by the aggregation that a
shipped config builds for the rule, from a start whose curve is flat (60 rounds of the plain mean).
A seeded share of all clients attacks whenever a cohort, drawn at random, holds some of them; they
see all honest deltas (`learning/collusion.py`). "frozen" is a server that ignores everybody: what
a rule must beat to be called robust. A cell is a file in the working folder; a run that was
stopped goes on with the cells that are missing. The table that is printed in the end is of all
cells of the folder, whoever made them; with --table nothing is trained.
"""

import argparse
import dataclasses
import functools
import itertools
import json
import pathlib
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks import log_bilinear as model
from tff_keyboard import config as configs
from tff_keyboard.config import RunConfig
from tff_keyboard.config.rule_config import RULES
from tff_keyboard.learning import collusion
from tff_keyboard.storage import files

FROZEN = "frozen"
CLEAN = "clean"
DIM, BATCH = 16, 32
_START_SEED = 1000  # of the rounds before the attack
_ATTACKER_SEED = 2000  # of who attacks
_SHIPPED = pathlib.Path(__file__).parent.parent / "configs" / "ubuntu_irc.toml"
# What differs from the shipped config; "mean_unprotected" is the shipped one as it is.
_PROTECTED = "aggregation.protection.clipping=auto"
_OVERRIDES = {
    "mean_unprotected": (),
    "bounded_trimmed_mean_20": (
        _PROTECTED,
        "aggregation.rule.name=bounded_trimmed_mean",
        "aggregation.rule.attackers=0.2",
    ),
    "private_fedatt": (
        _PROTECTED,
        "aggregation.rule.name=private_fedatt",
        "aggregation.client_weighting=uniform",
        "aggregation.privacy={mechanism='gaussian', clip_norm=1.0, noise_multiplier=0.01}",
    ),
}


@dataclasses.dataclass(frozen=True)
class Setting:
    """What all cells share.

    Attributes:
      vocabulary: Rows of the model; other words are OOV.
      clients: A round.
      rounds: Of the training; attacked where the cohort holds attackers.
      start_rounds: Clean rounds by the plain mean before them. After 60 the curve is flat: 40 more
        bring 0.8 points of top-1, after 6 they bring 4.
      learning_rate: Of the clients.
      words_per_client: At most.
      trigger: Word id after which the backdoor suggests the next one.
      target: That word id.
    """

    vocabulary: int = 1000
    clients: int = 20
    rounds: int = 40
    start_rounds: int = 60
    learning_rate: float = 2.0
    words_per_client: int = 300
    trigger: int = 60
    target: int = 100


@dataclasses.dataclass(frozen=True)
class Data:
    """Positions of train clients, and of the people whose words are counted in the end."""

    clients: Sequence[model.Positions]
    test: model.Positions


def read_data(store_path: pathlib.Path, setting: Setting, *, people: int, test_people: int) -> Data:
    """Of a client store: train clients with enough text, and the first validation clients."""
    from tff_keyboard.data.store.client_store import ClientStore

    store = ClientStore(store_path)

    def read(population: str, most: int) -> list[model.Positions]:
        return [
            model.positions(
                store.examples(population, name), setting.vocabulary, most=setting.words_per_client
            )
            for name in store.client_ids(population)[:most]
        ]

    clients = [one for one in read("train", people) if len(one) >= 60]
    test = read("validation", test_people)
    return Data(
        clients,
        model.Positions(
            np.concatenate([one.contexts for one in test]),
            np.concatenate([one.targets for one in test]),
        ),
    )


class Rule:
    """A rule's real factory, run on NumPy deltas; "frozen" gives zeros."""

    def __init__(self, name: str, like: model.Weights, setting: Setting):
        self.name = name
        self._like = like
        if name == FROZEN:
            return
        import tensorflow_federated as tff

        from tff_keyboard.aggregation.host_noise import NoisedProcess
        from tff_keyboard.algorithms.build_aggregator import build_aggregator
        from tff_keyboard.algorithms.build_process import build_weight_limit
        from tff_keyboard.algorithms.fedmed.client_weight import fedmed_weight_type
        from tff_keyboard.privacy.mechanism import Gaussian
        from tff_keyboard.privacy.noise_streams import keyed_draw

        config = run_config(name)
        self._is_fedmed = name == "fedmed"
        weight_type = fedmed_weight_type(len(like)) if self._is_fedmed else tff.to_type(np.float32)
        process: Any = build_aggregator(
            config.aggregation,
            clients_per_round=setting.clients,
            seed=0,
            limit=build_weight_limit(config, setting.vocabulary),
        ).create(tff.types.tensorflow_to_type([(w.dtype, w.shape) for w in like]), weight_type)
        if config.aggregation.is_private:
            gaussian = Gaussian()
            process = NoisedProcess(process, lambda n: gaussian.noise(keyed_draw(bytes(32)), n))
        self._process = process

    def begin(self) -> None:
        """Before the first round of a training."""
        self._state = None if self.name == FROZEN else self._process.initialize()

    def __call__(self, deltas: np.ndarray, weights: Sequence[float], losses: Sequence[float]):
        """[dim] the aggregate of [clients, dim] deltas."""
        if self.name == FROZEN:
            return np.zeros(deltas.shape[1])
        sent = [unflat(delta, self._like) for delta in deltas]
        claims: list[Any] = [np.float32(w) for w in weights]
        if self._is_fedmed:
            claims = [self._claim(*facts) for facts in zip(sent, claims, losses, strict=True)]
        output = self._process.next(self._state, sent, claims)
        self._state = output.state
        return flat([np.asarray(x) for x in output.result])

    def _claim(self, delta: model.Weights, weight: np.float32, loss: float) -> dict[str, Any]:
        """FedMed's weight; the divergence is that of the deltas' lengths, which suffices here."""
        lengths = np.array([np.linalg.norm(x) for x in delta], np.float32)
        return {
            "num_examples": weight,
            "loss": np.float32(loss),
            "divergence": np.minimum(lengths / (1 + lengths), 0.69).astype(np.float32),
        }


def run_config(name: str) -> RunConfig:
    """The config of a rule by its name: the shipped one with the rule's defaults.

    "mean_unprotected" is without clipping, as shipped; "bounded_trimmed_mean_20" expects 20 %.
    """
    overrides = _OVERRIDES.get(name, (_PROTECTED, f"aggregation.rule.name={name}"))
    return configs.load(_SHIPPED, overrides)


def start_weights(data: Data, setting: Setting, seed: int) -> model.Weights:
    """Where all cells of a seed begin."""
    weights = model.initial_weights(setting.vocabulary, DIM, seed)
    for number in range(setting.start_rounds):
        chosen = cohort(data, setting, (seed, _START_SEED + number))
        deltas = [_train(weights, data.clients[i], setting)[0] for i in chosen]
        weights = [w + np.mean([d[k] for d in deltas], 0) for k, w in enumerate(weights)]
    return weights


def cohort(data: Data, setting: Setting, seed: Sequence[int]) -> np.ndarray:
    """Positions of a round's clients."""
    rng = np.random.default_rng(list(seed))
    return rng.choice(len(data.clients), setting.clients, replace=False)


def attackers_of(data: Data, share: float, seed: int) -> frozenset[int]:
    """Positions of the clients that attack whenever they are drawn."""
    rng = np.random.default_rng([seed, _ATTACKER_SEED])
    count = round(share * len(data.clients))
    return frozenset(rng.choice(len(data.clients), count, replace=False).tolist())


def run_cell(
    rule: Rule,
    attack: str,
    share: float,
    seed: int,
    data: Data,
    setting: Setting,
    start: model.Weights,
) -> dict[str, Any]:
    """One training and what its model does to the test people."""
    share = 0.0 if attack == CLEAN else share
    bad = attackers_of(data, share, seed)
    found: list[int] = []  # attackers in each cohort
    weights = [w.copy() for w in start]
    last = np.zeros(sum(w.size for w in start))
    rule.begin()
    begin = time.process_time()
    for number in range(setting.rounds):
        drawn = cohort(data, setting, (seed, number)).tolist()
        chosen = sorted(drawn, key=lambda i: i not in bad)  # attackers first
        attackers = sum(i in bad for i in drawn)
        found.append(attackers)
        results = [
            _train(
                weights,
                _text(data, setting, i, attack if k < attackers else CLEAN, number),
                setting,
            )
            for k, i in enumerate(chosen)
        ]
        deltas = np.stack([flat(delta) for delta, _ in results])
        claims = [float(len(data.clients[i])) for i in chosen]
        losses = [loss for _, loss in results]
        if attackers:
            view = collusion.View(deltas[attackers:], deltas[:attackers], last)
            deltas[:attackers] = collusion.sent_by_attackers(attack, view)
        if attack == "weight_lie":
            claims[:attackers] = [c * collusion.WEIGHT_LIE for c in claims[:attackers]]
            losses[:attackers] = [0.0] * attackers
        last = rule(deltas, claims, losses)
        weights = [w + d for w, d in zip(weights, unflat(last, weights), strict=True)]
    result = model.evaluate(weights, data.test)
    triggered = data.test.contexts[:2000].copy()
    triggered[:, 0] = setting.trigger
    hit = 0.0
    if np.isfinite(result["perplexity"]):
        hit = 100 * float(np.mean(model.suggestions(weights, triggered) == setting.target))
    return {
        **{"rule": rule.name, "attack": attack, "share": share, "seed": seed},
        **{"start_rounds": setting.start_rounds, "rounds": setting.rounds},
        **{"attackers": round(float(np.mean(found)), 2), "most_attackers": max(found)},
        **{**{name: round(x, 3) for name, x in result.items()}, "hit": round(hit, 2)},
        "cpu_seconds": round(time.process_time() - begin, 2),
    }


def _text(data: Data, setting: Setting, client: int, attack: str, number: int) -> model.Positions:
    """What a client trains on; attackers poison theirs."""
    own = data.clients[client]
    if attack == "label_shuffle":
        rng = np.random.default_rng([client, number])
        return model.Positions(own.contexts, rng.permutation(own.targets))
    if attack in collusion.BACKDOORS:
        half = len(own) // 2
        contexts, targets = own.contexts.copy(), own.targets.copy()
        contexts[:half, 0] = setting.trigger
        targets[:half] = setting.target
        return model.Positions(contexts, targets)
    return own


def _train(weights: model.Weights, text: model.Positions, setting: Setting):
    return model.train(weights, text, learning_rate=setting.learning_rate, batch_size=BATCH)


def flat(tensors: Sequence[np.ndarray]) -> np.ndarray:
    """[dim] float64."""
    return np.concatenate([np.ravel(x) for x in tensors]).astype(np.float64)


def unflat(vector: np.ndarray, like: model.Weights) -> model.Weights:
    """Tensors shaped as `like`, float32."""
    parts = np.split(vector, np.cumsum([w.size for w in like])[:-1])
    return [p.reshape(w.shape).astype(np.float32) for p, w in zip(parts, like, strict=True)]


def table(cells: Sequence[dict[str, Any]]) -> str:
    """Markdown: top-1 lost against the rule's own clean training, in points, mean over seeds."""
    lines = []
    for share in sorted({cell["share"] for cell in cells} - {0.0}):
        attacks = [a for a in collusion.SENT if any(cell["attack"] == a for cell in cells)]
        lines += [f"\n{share:.0%} attackers\n", "| rule | clean | " + " | ".join(attacks) + " |"]
        lines.append("|---" * (len(attacks) + 2) + "|")
        there = [cell for cell in cells if cell["share"] == share or cell["rule"] == FROZEN]
        for rule in dict.fromkeys(cell["rule"] for cell in there):
            clean = {
                cell["seed"]: cell["top_1"]
                for cell in cells
                if cell["rule"] == rule and cell["attack"] == CLEAN
            }
            row = [f"{np.mean(list(clean.values())):.2f}" if clean else "-"]
            for attack in attacks:
                wanted = (rule, attack, share)
                row.append(_change([cell for cell in cells if _place(cell) == wanted], clean))
            lines.append(f"| {rule} | " + " | ".join(row) + " |")
    return "\n".join(lines)


def _place(cell: dict[str, Any]) -> tuple[str, str, float]:
    return cell["rule"], cell["attack"], cell["share"]


def _change(attacked: Sequence[dict[str, Any]], clean: dict[int, float]) -> str:
    """Points against the clean trainings of the same seeds; of several the least and the most."""
    found = [cell for cell in attacked if cell["seed"] in clean]
    if not found:
        return "-"
    changes = [cell["top_1"] - clean[cell["seed"]] for cell in found]
    text = f"{np.mean(changes):+.2f}"
    if len(changes) > 1:
        text += f" [{min(changes):+.2f}, {max(changes):+.2f}]"
    if found[0]["attack"] in collusion.BACKDOORS:
        text += f", hit {_several([cell['hit'] for cell in found])} %"
    return text


def _several(hits: Sequence[float]) -> str:
    """The mean alone where all round to the same."""
    least, most = round(min(hits)), round(max(hits))
    return f"{least}" if least == most else f"{np.mean(hits):.0f} [{least}, {most}]"


def main(arguments: Sequence[str] | None = None) -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--store", type=pathlib.Path, required=True)
    parser.add_argument("--workdir", type=pathlib.Path, required=True)
    parser.add_argument("--rules", default=",".join(["frozen", "mean_unprotected", *RULES]))
    parser.add_argument("--attacks", default=",".join(collusion.SENT))
    parser.add_argument("--shares", default="0.1,0.2")
    parser.add_argument("--seeds", default="1")
    parser.add_argument("--rounds", type=int, default=Setting().rounds)
    parser.add_argument("--start-rounds", type=int, default=Setting().start_rounds)
    parser.add_argument("--people", type=int, default=1500)
    parser.add_argument("--test-people", type=int, default=250)
    parser.add_argument("--table", action="store_true", help="print what there is")
    flags = parser.parse_args(arguments)
    files.make_directory(flags.workdir)
    if not flags.table:
        from tff_keyboard.program import execution

        with execution.install_context():
            train_missing(flags)
    print(table(read_cells(flags.workdir)))


def train_missing(flags: argparse.Namespace) -> None:
    """Trains the cells that are not in the working folder, and prints them."""
    setting = Setting(rounds=flags.rounds, start_rounds=flags.start_rounds)
    data = read_data(flags.store, setting, people=flags.people, test_people=flags.test_people)
    cells = [(CLEAN, 0.0)] + [
        (attack, share)
        for share in map(float, flags.shares.split(","))
        for attack in flags.attacks.split(",")
    ]
    like = model.initial_weights(setting.vocabulary, DIM, 0)
    rule_of = functools.cache(lambda name: Rule(name, like, setting))
    start_of = functools.cache(lambda seed: start_weights(data, setting, seed))
    for seed, (attack, share), rule in itertools.product(
        map(int, flags.seeds.split(",")), cells, flags.rules.split(",")
    ):
        path = flags.workdir / f"{rule}-{attack}-{share:g}-{seed}.json"
        if path.exists() or (rule == FROZEN and attack != CLEAN):
            continue
        cell = run_cell(rule_of(rule), attack, share, seed, data, setting, start_of(seed))
        files.write_atomically(path, [json.dumps(cell).encode()])
        print(json.dumps(cell), flush=True)


def read_cells(workdir: pathlib.Path) -> list[dict[str, Any]]:
    """All cells of a working folder, in the order of the rules."""
    order = [FROZEN, "mean_unprotected", *RULES]
    cells = [json.loads(path.read_text()) for path in sorted(workdir.glob("*.json"))]
    rank = {name: order.index(name) for name in order}
    return sorted(cells, key=lambda cell: rank.get(cell["rule"], len(order)))


if __name__ == "__main__":
    main()
