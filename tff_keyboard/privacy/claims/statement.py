"""What may be claimed of a run, in words and figures, from its ledger alone.

The report follows the points a reader needs to compare guarantees (Ponomareva et al. 2023,
section 5.3, https://arxiv.org/abs/2303.00654): unit, adjacency, mechanism, sampling assumption,
accounting, parameters, and what is not covered.
"""

import dataclasses
import math
import pathlib
from collections.abc import Sequence

from tff_keyboard.privacy.accounting import accounting
from tff_keyboard.privacy.claims.guarantee import (
    Lists,
    guarantee_of,
    total_guarantee,
    unclaimed,
)
from tff_keyboard.privacy.ledger import people
from tff_keyboard.privacy.ledger.ledger import Round, read_ledger
from tff_keyboard.privacy.ledger.ledger_header import CHECK_IN, Ancestor, LedgerHeader
from tff_keyboard.privacy.ledger.list_releases import lists_of
from tff_keyboard.privacy.mechanisms import noise_key
from tff_keyboard.privacy.mechanisms.mechanism import Gaussian
from tff_keyboard.storage.run_directory import RunDirectory

# Ponomareva et al. 2023, section 5.2: up to 1 strong, up to 10 reasonable, above it weak or none.
REASONABLE_EPSILON = 10
NO_PROTECTION_EPSILON = 100

_MECHANISMS = {
    "gaussian": "Gaussian mechanism, fixed clip norm, fresh noise every round",
    "gaussian_adaptive": "Gaussian mechanism, clip norm follows a noisy quantile",
    "tree": "DP-FTRL: tree aggregation, fixed clip norm",
    "tree_adaptive": "DP-FTRL: tree aggregation, clip norm follows a noisy quantile at restarts",
    "blt": "DP-FTRL: buffered linear Toeplitz noise, fixed clip norm",
    "banded": "DP-FTRL: banded matrix factorisation, fixed clip norm",
}
_REHEARSED = (
    "Not covered: people of the general corpus. Their messages are rehearsed by any number of "
    "clients a round, and no noise is measured by what one of them may change."
)
_SOURCES = {
    noise_key.SECRET: "AES-256, key from a secret outside the run directory and the run's nonce",
    noise_key.NONCE: "AES-256, key from the run's nonce, which lies in the run directory",
    noise_key.FIXED_NONCE: "simulation: AES-256, key from a nonce fixed in the config",
    "": "none",
}


def privacy_statement(path: pathlib.Path) -> str:
    """What may be claimed of a run, as text for a terminal.

    Args:
      path: Ledger of the run, `privacy_ledger.jsonl`.

    Raises:
      RunDirectoryError: There is no ledger, or it is damaged.
    """
    header, rounds = read_ledger(path)
    guarantee = guarantee_of(header, len(rounds))
    lists = lists_of(path.parent)
    total = total_guarantee(header, len(rounds), lists)
    of_lists = [
        f"{n}: clip norm {one.clip_norm:g}, noise multiplier {one.noise_multiplier:g}"
        for one, n in lists
    ]
    rows = [
        ("initial model", _initial_model(header)),
        ("unit", _unit(header)),
        ("adjacency", guarantee.adjacency),
        ("mechanism", _mechanism(header)),
        ("noise multiplier", f"{header.noise_multiplier:g}"),
        ("noise", _SOURCES[header.noise_source]),
        ("clip norm", _clip_norms(header, rounds)),
        ("rounds released", f"{len(rounds)}"),
        *(("word lists released", words) for words in of_lists),
        ("sampling", _sampling(header)),
        ("accounting", guarantee.method),
        ("rho (zCDP)", "-" if guarantee.rho is None else _figure(guarantee.rho)),
        *_epsilons(guarantee, total),
    ]
    width = max(len(name) for name, _ in rows)
    lines = [f"{name:<{width}}  {value}" for name, value in rows]
    refused = [*_refusal(header), *_projection(header, len(rounds), lists)]
    caveats = _caveats(header, guarantee)
    if RunDirectory(path.parent).rehearsed_people.exists():
        caveats.append(f"* {_REHEARSED}")
    return "\n".join([*refused, *lines, "", *caveats])


def _projection(header: LedgerHeader, rounds: int, lists: Lists) -> list[str]:
    """The first lines of a statement about a federation that was only simulated."""
    if not header.noise_cohort_size:
        return []
    before = [
        dataclasses.replace(one, header=one.header and one.header.unprojected)
        for one in header.ancestors
    ]
    released = dataclasses.replace(header.unprojected, ancestors=tuple(before))
    real = total_guarantee(released, rounds, lists)
    larger = header.projected
    return [
        f"PROJECTION: epsilon below is that of a federation with {header.noise_cohort_size} "
        f"clients a round among {larger.population} people, whose noise was simulated with "
        f"{header.clients_per_round} clients. What this run released has "
        f"{'no epsilon' if real is None else f'epsilon {epsilon_in_words(real.epsilon)}'}.\n"
    ]


def _refusal(header: LedgerHeader) -> list[str]:
    """The first lines of a statement that claims nothing."""
    return [
        f"NO CLAIM: the initial model '{one.model}' {_why(one)}. The figures below are what this "
        "run took alone, on top of what that model may already give away.\n"
        for one in unclaimed(header.ancestors)
    ]


def _why(one: Ancestor) -> str:
    if one.people == people.UNKNOWN:
        return "is of unknown origin: it may have been trained on these people without privacy"
    share = "all" if one.people == people.SAME else "some"
    return f"was trained without privacy on {share} of these people"


def _initial_model(header: LedgerHeader) -> str:
    if not header.initial_model:
        return "random weights"
    words = []
    for one in header.ancestors:
        if not one.shares_people:
            words.append(f"{one.model} (other people)")
        elif one.header is None:
            words.append(f"{one.model} (no privacy, {one.people} people)")
        else:
            words.append(f"{one.model} (private, {one.rounds} rounds, {one.people} people)")
    return ", from ".join(words)


def _epsilons(
    alone: accounting.Guarantee, total: accounting.Guarantee | None
) -> list[tuple[str, str]]:
    """Rows of epsilon and delta; of the run alone where other releases count beside it."""
    if total is None:
        return [("epsilon", "NO CLAIM"), ("of this run alone", epsilon_in_words(alone.epsilon))]
    name = "epsilon (projection)" if "PROJECTION" in total.method else "epsilon"
    rows = [(name, epsilon_in_words(total.epsilon)), ("delta", f"{total.delta:g}")]
    if total != alone:
        rows.append(("composed by", f"{total.method} ({total.adjacency})"))
        rows.append(("of this run alone", epsilon_in_words(alone.epsilon)))
    return rows


def _mechanism(header: LedgerHeader) -> str:
    mechanism = header.mechanism
    text = _MECHANISMS[mechanism.name]
    if isinstance(mechanism, Gaussian) and mechanism.is_discrete:
        text = f"discrete {text}; sums of integers"
    if header.aggregator == "private_fedatt":
        return f"{text}, on the private FedAtt record (docs/privacy/private_fedatt.md)"
    return text


def _clip_norms(header: LedgerHeader, rounds: Sequence[Round]) -> str:
    norms = [entry["clip_norm"] for entry in rounds if "clip_norm" in entry]
    if header.mechanism.is_adaptive and norms:
        return f"{norms[0]:.4g} at first, {norms[-1]:.4g} at last (relative noise is the same)"
    return f"{header.clip_norm:g}"


def _unit(header: LedgerHeader) -> str:
    if header.sampling == CHECK_IN:
        return "one device key: everything one device ever contributes under it"
    return "one person: everything one client ever contributes"


def _sampling(header: LedgerHeader) -> str:
    if not header.mechanism.is_independent:
        most = header.max_participations
        limit = f", at most {most} rounds" if most else ""
        return (
            f"none assumed; a person joins again {header.min_separation_rounds} rounds later "
            f"at the earliest{limit}, as {_enforcer(header)}; {_across_runs(header)}"
        )
    if not header.amplifies:
        why = "are not uniform draws"
        if header.sampling == CHECK_IN:
            why = "are whoever checked in"
        if header.uniform_sampling:
            why = "follow from `train.seed`, which is no secret"
        return f"cohorts {why}: no amplification by sampling is claimed"
    drawn = f"{header.selected_per_round} of {header.population} people a round"
    if header.sampling == "poisson":
        return f"Poisson, {drawn} expected: every person tossed independently, in secret"
    return f"fixed size, {drawn}, uniformly without replacement, by the run's secret key"


def _enforcer(header: LedgerHeader) -> str:
    if header.sampling == CHECK_IN:
        return "the round server enforces for each device key (a new key is a new device)"
    return "the cohort sampler enforces"


def _across_runs(header: LedgerHeader) -> str:
    if header.records_participation:
        return "across runs, too, by the record beside the store"
    return "within this run only"


def _figure(value: float) -> str:
    if math.isinf(value):
        return "infinite: no guarantee"
    return f"{value:.2f}" if value >= 0.1 or not value else f"{value:.2g}"


def epsilon_in_words(value: float) -> str:
    """Epsilon, with what it is worth where that is little."""
    if math.isinf(value) or value <= REASONABLE_EPSILON:
        return _figure(value)
    if value <= NO_PROTECTION_EPSILON:
        return f"{_figure(value)}: weak, hardly a guarantee"
    return f"{_figure(value)}: no protection at all"


def _caveats(header: LedgerHeader, guarantee: accounting.Guarantee) -> list[str]:
    caveats = []
    if math.isinf(guarantee.epsilon):
        caveats.append("The noise multiplier is 0: deltas were clipped, nothing is private.")
    elif guarantee.epsilon > REASONABLE_EPSILON:
        caveats.append(
            f"An epsilon above {REASONABLE_EPSILON} says little: one person's text may make an "
            f"outcome e^{guarantee.epsilon:.0f} times as likely, and whoever sees the models may "
            "tell with near certainty whether that person took part. Use more noise, more people a "
            "round or fewer rounds; tff-keyboard privacy --target-epsilon plans a run."
        )
    if header.mechanism.is_independent and header.amplifies:
        caveats += _sampling_caveats(header)
    caveats += _noise_caveats(header)
    caveats += _coverage(header)
    return [f"* {caveat}" for caveat in caveats]


def _sampling_caveats(header: LedgerHeader) -> list[str]:
    caveats = [
        "Epsilon assumes that nobody learns who was drawn when, from files or by watching devices; "
        "for whoever knows a person's rounds it is far larger. What tells of cohorts has mode 0600 "
        "and is not to be published: noise_nonce, withheld_metrics.jsonl, timings.csv, "
        "tensorboard, checkpoints, the participation record."
    ]
    if header.sampling == "poisson":
        caveats.append(
            "Poisson sampling is an assumption: our cohort sampler draws a fixed number of people. "
            "For what it does, set `aggregation.privacy.sampling` = 'fixed_size'."
        )
    return caveats


def _coverage(header: LedgerHeader) -> list[str]:
    vocabulary = (
        "The vocabulary was not chosen privately: that a word is in it may be due to one person "
        "(price: unbounded). tff-keyboard prepare --vocabulary-epsilon chooses it privately."
    )
    if header.truecase_forms:
        vocabulary += (
            f" Nor were the {header.truecase_forms} forms with capitals in truecase.txt, which an "
            "export ships."
        )
    if header.vocabulary_rho:
        vocabulary = (
            f"The vocabulary is counted: rho {header.vocabulary_rho:.4g}, and a word of one person "
            f"alone got in with chance {header.vocabulary_delta:g} at most."
        )
    metrics = (
        "Metrics: losses and counts of training are withheld (withheld_metrics.jsonl, not to be "
        "published); metrics.jsonl has what is noised, public or about other people."
    )
    return [
        "Covered: the sequence of released models (and clip norms). Not covered: choices made "
        "after looking at results (tuning: each further run on these people costs what it costs, "
        "see tff-keyboard privacy RUN RUN...), and people of validation and held-out text.",
        vocabulary,
        metrics,
    ]


def _noise_caveats(header: LedgerHeader) -> list[str]:
    if header.noise_source == noise_key.FIXED_NONCE:
        return [
            "SIMULATION: the nonce of the noise is fixed in the config, so whoever has the config "
            "and the data can make the noise again. Reproducible, and no guarantee to anybody."
        ]
    if header.noise_source == noise_key.NONCE:
        return [
            "Whoever has the run directory's noise_nonce can remove the noise and tell who was "
            "drawn. Release the model, not the directory; for a deployment keep a secret outside "
            "it (docs/privacy.md)."
        ]
    return []
