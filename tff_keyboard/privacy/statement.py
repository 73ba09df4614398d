"""What may be claimed of a run, in words and figures, from its ledger alone.

The report follows the points a reader needs to compare guarantees (Ponomareva et al. 2023,
section 5.3, https://arxiv.org/abs/2303.00654): unit, adjacency, mechanism, sampling assumption,
accounting, parameters, and what is not covered.
"""

import math
import pathlib

from tff_keyboard.privacy import accounting, noise_key
from tff_keyboard.privacy.ledger import SEED, LedgerHeader, read_ledger
from tff_keyboard.privacy.mechanism import TREES, Mechanism

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
_SOURCES = {
    noise_key.SECRET: "AES-256, key from a secret outside the run directory and the run's nonce",
    noise_key.NONCE: "AES-256, key from the run's nonce, which lies in the run directory",
    noise_key.FIXED_NONCE: "simulation: AES-256, key from a nonce fixed in the config",
    SEED: "Philox keyed by `train.seed` (an older version)",
    "": "none",
}


def guarantee_of(header: LedgerHeader, rounds: int) -> accounting.Guarantee:
    """(epsilon, delta) after `rounds` recorded rounds.

    Sampling is used only where the sampler meets it: a Gaussian run whose cohorts were not
    uniform draws is accounted as if every person joined as often as the separation allows.
    """
    noise = header.noise_multiplier
    mechanism = mechanism_of(header)
    matrix = mechanism.matrix()
    if matrix is not None:
        return accounting.matrix_gaussian(
            noise=matrix,
            noise_multiplier=noise,
            rounds=rounds,
            delta=header.delta,
            min_separation=header.min_separation_rounds,
            max_participations=header.max_participations,
        )
    if mechanism.name in TREES:
        return accounting.tree_gaussian(
            noise_multiplier=noise,
            rounds=rounds,
            delta=header.delta,
            min_separation=header.min_separation_rounds,
            max_participations=header.max_participations,
            restart_rounds=header.tree_restart_rounds,
        )
    if not header.uniform_sampling:
        most = -(-rounds // header.min_separation_rounds)
        if header.max_participations:
            most = min(most, header.max_participations)
        return accounting.unsampled_gaussian(
            noise_multiplier=noise, participations=most, delta=header.delta
        )
    if header.sampling == "poisson":
        return accounting.poisson_gaussian(
            noise_multiplier=noise,
            sampling_probability=header.selected_per_round / header.population,
            rounds=rounds,
            delta=header.delta,
        )
    return accounting.fixed_size_gaussian(
        noise_multiplier=noise,
        population=header.population,
        cohort=header.selected_per_round,
        rounds=rounds,
        delta=header.delta,
    )


def mechanism_of(header: LedgerHeader) -> Mechanism:
    """The mechanism a ledger records, with the coefficients the run began with."""
    return Mechanism(
        name=header.mechanism,
        restart_rounds=header.tree_restart_rounds,
        decays=header.decays,
        scales=header.scales,
        bands=header.bands,
    )


def privacy_statement(path: pathlib.Path) -> str:
    """The statement of the run whose ledger is at `path`, as text for a terminal.

    Raises:
      RunDirectoryError: There is no ledger, or it is damaged.
    """
    header, rounds = read_ledger(path)
    guarantee = guarantee_of(header, len(rounds))
    rows = [
        ("unit", "one person: everything one client ever contributes"),
        ("adjacency", guarantee.adjacency),
        ("mechanism", _mechanism(header)),
        ("noise multiplier", f"{header.noise_multiplier:g}"),
        ("noise", _SOURCES[header.noise_source]),
        ("clip norm", _clip_norms(header, rounds)),
        ("rounds released", f"{len(rounds)}"),
        ("sampling", _sampling(header)),
        ("accounting", guarantee.method),
        ("rho (zCDP)", "-" if guarantee.rho is None else _figure(guarantee.rho)),
        ("epsilon", _epsilon(guarantee.epsilon)),
        ("delta", f"{guarantee.delta:g}"),
    ]
    width = max(len(name) for name, _ in rows)
    lines = [f"{name:<{width}}  {value}" for name, value in rows]
    return "\n".join([*lines, "", *_caveats(header, guarantee)])


def _mechanism(header: LedgerHeader) -> str:
    text = _MECHANISMS[header.mechanism]
    if header.aggregator == "private_fedatt":
        return f"{text}, on the private FedAtt record (docs/private_fedatt.md)"
    return text


def _clip_norms(header: LedgerHeader, rounds: list[dict]) -> str:
    norms = [entry["clip_norm"] for entry in rounds if "clip_norm" in entry]
    if header.mechanism.endswith("_adaptive") and norms:
        return f"{norms[0]:.4g} at first, {norms[-1]:.4g} at last (relative noise is the same)"
    return f"{header.clip_norm:g}"


def _sampling(header: LedgerHeader) -> str:
    if not mechanism_of(header).is_independent:
        most = header.max_participations
        limit = f", at most {most} rounds" if most else ""
        return (
            f"none assumed; a person joins again {header.min_separation_rounds} rounds later "
            f"at the earliest{limit}, as the cohort sampler enforces"
        )
    if not header.uniform_sampling:
        return "cohorts are not uniform draws: no amplification by sampling is claimed"
    drawn = f"{header.selected_per_round} of {header.population} people a round"
    if header.sampling == "poisson":
        return f"Poisson, {drawn} expected: every person tossed independently"
    return f"fixed size, {drawn}, uniformly without replacement"


def _figure(value: float) -> str:
    return "infinite: no guarantee" if math.isinf(value) else f"{value:.2f}"


def _epsilon(value: float) -> str:
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
    if header.sampling == "poisson" and mechanism_of(header).is_independent:
        caveats.append(
            "Poisson sampling is an assumption: our cohort sampler draws a fixed number of people. "
            "For what it does, set `aggregation.privacy.sampling` = 'fixed_size'."
        )
    caveats += _noise_caveats(header)
    caveats.append(
        "Covered: the sequence of released models (and clip norms). Not covered: training metrics, "
        "counts of refused updates, the vocabulary, and choices made after looking at results."
    )
    return [f"* {caveat}" for caveat in caveats]


def _noise_caveats(header: LedgerHeader) -> list[str]:
    if header.noise_source == SEED:
        return [
            "Noise is a function of (seed, round) alone: release at most one run per seed. Two "
            "runs with one seed cancel their noise, and who knows the seed removes it."
        ]
    if header.noise_source == noise_key.FIXED_NONCE:
        return [
            "SIMULATION: the nonce of the noise is fixed in the config, so whoever has the config "
            "and the data can make the noise again. Reproducible, and no guarantee to anybody."
        ]
    if header.noise_source == noise_key.NONCE:
        return [
            "Whoever has the run directory's noise_nonce can remove the noise. Release the model, "
            "not the directory; for a deployment keep a secret outside it (docs/privacy.md)."
        ]
    return []
