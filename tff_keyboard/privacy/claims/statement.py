"""The privacy statement of a run, in words and figures, from its ledger alone.

The report contains the points that are needed to compare guarantees (Ponomareva et al. 2023,
section 5.3, https://arxiv.org/abs/2303.00654): unit, adjacency, mechanism, sampling assumption,
accounting, parameters, and exclusions.
"""

import math
import pathlib
from collections.abc import Sequence

from tff_keyboard.parts.own_part import PROMISES, SENSITIVITY_PROMISE
from tff_keyboard.privacy.accounting.guarantee import Guarantee
from tff_keyboard.privacy.claims.claim import claim_of
from tff_keyboard.privacy.claims.delta_rule import delta_caveats
from tff_keyboard.privacy.claims.epsilon_text import REASONABLE_EPSILON, epsilon_in_words, figure
from tff_keyboard.privacy.claims.guarantee import guarantee_of, total_guarantee, unclaimed
from tff_keyboard.privacy.claims.own_rehearsal import rehearsed_own_clients
from tff_keyboard.privacy.ledger import client_digests
from tff_keyboard.privacy.ledger.ledger import Round, read_ledger
from tff_keyboard.privacy.ledger.ledger_header import CHECK_IN, EVALUATION, Ancestor, LedgerHeader
from tff_keyboard.privacy.mechanisms import noise_key, sum_grid
from tff_keyboard.storage.errors import printable
from tff_keyboard.storage.part_reference import is_reference
from tff_keyboard.storage.run_directory import RunDirectory

# Ponomareva et al. 2023, section 5.2: up to 1 strong, up to 10 reasonable, above 10 weak or none.

_SECRET_COHORTS = (
    "Epsilon assumes that the sampled clients of each round stay secret. For an observer who knows "
    "the rounds of a client, from files or from watching devices, it is much larger. Files about "
    "cohorts have mode 0600. Do not publish them: noise_nonce, withheld_metrics.jsonl, "
    "timings.csv, tensorboard, checkpoints."
)
REHEARSED = (
    "Not covered: the clients of the general corpus. Any number of clients per round rehearses "
    "their messages, and the noise is not calibrated to them."
)
_CUT_CORPUS = (
    'The clients are equal parts of one text (`data.source` = "text"), which `prepare` cut. A '
    "person whose text is in several parts is protected less than epsilon says."
)
_SOURCES = {
    noise_key.SECRET: "AES-256; the key comes from the nonce and a secret outside the directory",
    noise_key.NONCE: "AES-256; the key comes from the run's nonce, which is in the run directory",
    noise_key.FIXED_NONCE: "simulation: AES-256; the key comes from a nonce in the config",
    "": "none",
}


def privacy_statement(path: pathlib.Path) -> str:
    """Returns the privacy statement of a run, as text for a terminal.

        print(privacy_statement(pathlib.Path("runs/sms/privacy_ledger.jsonl")))

    Args:
      path: Ledger of the run, `privacy_ledger.jsonl`.

    Raises:
      RunDirectoryError: If there is no ledger, or it is damaged.
    """
    header, rounds = read_ledger(path)
    guarantee = guarantee_of(header, len(rounds))
    run = RunDirectory(path.parent)
    total = claim_of(run, header, len(rounds))
    rows = [
        *([] if header.is_of_sums else [("initial model", _initial_model(header))]),
        ("unit", _unit(header)),
        ("adjacency", guarantee.adjacency),
        ("mechanism", _mechanism(header)),
        ("noise multiplier", f"{header.noise_multiplier:g}"),
        ("noise", _SOURCES[header.noise_source]),
        ("clip norm", _clip_norms(header, rounds)),
        ("rounds released", f"{len(rounds)}"),
        ("sampling", _sampling(header)),
        *server_rows(header),
        ("accounting", guarantee.method),
        ("rho (zCDP)", "-" if guarantee.rho is None else figure(guarantee.rho)),
        *_epsilons(guarantee, total, is_released=bool(rounds)),
    ]
    width = max(len(name) for name, _ in rows)
    lines = [f"{name:<{width}}  {printable(value, max_characters=None)}" for name, value in rows]
    refused = [*missing_claims(header), *_projection(header, len(rounds))]
    if rehearsed := rehearsed_own_clients(run, header):
        refused.insert(0, f"NO CLAIM: {rehearsed}. The figures below do not cover this.\n")
    caveats = _caveats(header, guarantee, delta=(total or guarantee).delta)
    caveats += [f"* {one}" for one in (*unchecked_caveats(header), *validation_caveats(header))]
    if run.data_card_path.exists() and _is_cut_corpus(run):
        caveats.append(f"* {_CUT_CORPUS}")
    if run.rehearsed_client_digests.exists():
        caveats.append(f"* {REHEARSED}")
    return "\n".join([*refused, *lines, "", *caveats])


def _is_cut_corpus(run: RunDirectory) -> bool:
    return bool(run.data_card().get("options", {}).get("source") == "text")


def unchecked_caveats(header: LedgerHeader) -> list[str]:
    """Returns a sentence for each own part of this run, and of earlier runs on its clients."""
    runs = [("", header)]
    runs += [
        (f" of the earlier run {printable(one.model)}", earlier)
        for one, earlier in header.private_ancestors
    ]
    return [
        f"The figures hold only if the user's own part{of_run}, {printable(part)}, "
        f"{PROMISES.get(part.partition(' = ')[0], SENSITIVITY_PROMISE)}, which nobody has checked."
        for of_run, header_of_run in runs
        for part in header_of_run.unchecked_parts
    ]


def validation_caveats(header: LedgerHeader) -> list[str]:
    """Returns a sentence for each earlier run of a run with devices whose model validation chose.

    The unit of the statement is the text under a device key. Nobody can tell whether its owner was
    a client of validation, whose text chose the initial model without noise.
    """
    if header.sampling != CHECK_IN:
        return []
    return [
        f"Not covered: the text of validation clients of the earlier run {printable(one.model)}, "
        "which chose the initial model, also if the owner of a device typed it. With "
        '`train.final_model` = "last", no validation chooses a model.'
        for one in header.ancestors
        if one.validates
    ]


def labels_of(header: LedgerHeader) -> tuple[str, ...]:
    """Returns what a table must say next to an epsilon: why it is not a plain guarantee."""
    headers = [header, *(earlier for _, earlier in header.private_ancestors)]
    labels = []
    if any(one.noise_source == noise_key.FIXED_NONCE for one in headers):
        labels.append("simulation: no guarantee")
    if any(one.noise_cohort_size for one in headers):
        labels.append("projection")
    if unchecked_caveats(header):
        labels.append("own part, not checked")
    return tuple(labels)


def _projection(header: LedgerHeader, rounds: int) -> list[str]:
    """Returns the first lines of a statement about a simulated federation, otherwise []."""
    if not header.noise_cohort_size:
        return []
    real = total_guarantee(header.unprojected, rounds)
    larger = header.projected
    return [
        f"PROJECTION: the epsilon below holds for a federation with {header.noise_cohort_size} "
        f"clients per round from a population of {larger.population}. This run simulated its noise "
        f"with {header.clients_per_round} clients. The released models of this run have "
        f"{'no epsilon' if real is None else f'epsilon {_of_released(real, rounds)}'}.\n"
    ]


def _of_released(guarantee: Guarantee, rounds: int) -> str:
    return epsilon_in_words(guarantee.epsilon, is_released=rounds > 0)


def missing_claims(header: LedgerHeader) -> list[str]:
    """Returns the first lines of a statement without a guarantee."""
    lines = []
    if header.changes_client_work:
        lines.append(
            "NO CLAIM: a program changes the work of the clients of this run, such as `attack`. An "
            "update may depend on the text of other clients, so one client may change a sum by "
            "more than the figures below assume.\n"
        )
    return lines + [
        f"NO CLAIM: the initial model '{printable(one.model)}' {_why(one, header)}. The figures "
        "below are the privacy cost of this run alone. The initial model may reveal more.\n"
        for one in unclaimed(header)
    ]


def _why(ancestor: Ancestor, header: LedgerHeader) -> str:
    """Returns the reason why the guarantee does not cover an earlier model: "is ...", "was ..."."""
    if ancestor.header is not None:
        if ancestor.header.changes_client_work:
            return "is of a run whose client work a program changed, such as `attack`"
        if ancestor.header.noise_source == noise_key.FIXED_NONCE != header.noise_source:
            return "is of a simulation: its noise can be computed from its config"
        return "is of a projection: its noise was simulated for a larger federation"
    if ancestor.people == client_digests.UNKNOWN and is_reference(ancestor.model):
        return (
            "is code of yours, which may load weights that were trained on these clients. If it "
            "draws them, set its attribute `draws_initial_weights` = True (docs/own_parts.md)"
        )
    if ancestor.people == client_digests.UNKNOWN and not ancestor.validates_ours:
        return "has an unknown origin: it may have been trained on these clients without privacy"
    if ancestor.validates_ours:
        return "was chosen by validation on clients that may be among these clients"
    share = "all" if ancestor.people == client_digests.SAME else "some"
    return f"was trained without privacy on {share} of these clients"


def _initial_model(header: LedgerHeader) -> str:
    """Returns the line "initial model": the earlier models, the nearest one first."""
    if not header.ancestors:
        users_models = [part for part in header.unchecked_parts if part.startswith("model.type")]
        return (
            f"weights drawn by {users_models[0].partition(' = ')[2]}"
            if users_models
            else "random weights"
        )
    descriptions = []
    for ancestor in header.ancestors:
        if not ancestor.shares_clients:
            descriptions.append(f"{ancestor.model} (other clients)")
        elif ancestor.validates_ours:
            descriptions.append(f"{ancestor.model} (chosen by validation on these clients)")
        elif ancestor.header is None:
            descriptions.append(f"{ancestor.model} (no privacy, {ancestor.people} clients)")
        else:
            descriptions.append(
                f"{ancestor.model} (private, {ancestor.rounds} rounds, {ancestor.people} clients)"
            )
    return ", from ".join(descriptions)


def _epsilons(
    alone: Guarantee, total: Guarantee | None, *, is_released: bool
) -> list[tuple[str, str]]:
    """Returns the rows with epsilon and delta, also for the run alone if other releases count."""
    if total is None:
        return [
            ("epsilon", "NO CLAIM"),
            ("epsilon of this run alone", epsilon_in_words(alone.epsilon, is_released=is_released)),
        ]
    name = "epsilon (projection)" if "PROJECTION" in total.method else "epsilon"
    words = epsilon_in_words(total.epsilon, is_released=is_released)
    rows = [(name, words), ("delta", f"{total.delta:g}")]
    if total != alone:
        rows.append(("composed by", f"{total.method} ({total.adjacency})"))
        words = epsilon_in_words(alone.epsilon, is_released=is_released)
        rows.append(("epsilon of this run alone", words))
    return rows


def _mechanism(header: LedgerHeader) -> str:
    text = header.mechanism.description
    if header.aggregator == "private_fedatt":
        return f"{text}, on the private FedAtt record (docs/privacy/private_fedatt.md)"
    return text


def _clip_norms(header: LedgerHeader, rounds: Sequence[Round]) -> str:
    norms = [entry["clip_norm"] for entry in rounds if "clip_norm" in entry]
    if header.mechanism.is_adaptive and norms:
        return (
            f"{norms[0]:.4g} in the first round, {norms[-1]:.4g} in the last (same relative noise)"
        )
    return f"{header.clip_norm:g}"


def _unit(header: LedgerHeader) -> str:
    if header.sampling == CHECK_IN:
        return "one device key: all contributions under this key"
    return "one client: all contributions of the client in all rounds"


def _sampling(header: LedgerHeader) -> str:
    """Returns the line "sampling": the scheme, and whether it amplifies the guarantee."""
    if not header.mechanism.is_independent:
        enforcer = "the cohort sampler enforces this"
        if header.sampling == CHECK_IN:
            enforcer = (
                "the round server enforces this for each device key (a new key is a new device)"
            )
        return (
            f"none assumed; a client takes part again after at least "
            f"{header.min_separation_rounds} rounds; {enforcer}, only within this run"
        )
    if not header.amplifies:
        why = "are not uniform draws"
        if header.sampling == CHECK_IN:
            why = "are the devices that checked in"
        if header.uniform_sampling:
            why = "follow from `train.seed`, which is not secret"
        return f"cohorts {why}: no amplification by sampling is claimed"
    drawn = f"{header.selected_per_round} of {header.population} clients per round"
    return f"fixed size, {drawn}, uniformly without replacement, with the run's secret key"


def server_rows(header: LedgerHeader) -> list[tuple[str, str]]:
    """Returns the rows about the server of a run with devices, as `(name, text)`; otherwise [].

    The server adds the noise, so the guarantee is no protection from it. With secure sums, the rows
    also give the bound on rounding (`mechanisms/sum_grid.py`).
    """
    if header.sampling != CHECK_IN:
        return []
    upload, grid = "update", ""
    if header.is_of_sums:
        upload = "upload"
    else:
        step = sum_grid.sum_step(
            clip_norm=header.clip_norm,
            noise_multiplier=header.noise_multiplier,
            is_discrete=header.mechanism.is_discrete,
        )
        grid = f", to multiples of {step:.3g}"
    if not header.secure_sums:
        return [("the server sees", f"the {upload} of each device, before it adds the noise")]
    return [
        (
            "the server sees",
            f"the exact sum of the {upload}s of a round, before it adds the noise; no single "
            f"{upload} (secure sums)",
        ),
        (
            "rounding",
            f"towards zero{grid}, and sums do not wrap: adds 0 to the sensitivity, so epsilon is "
            "the same as without secure sums",
        ),
    ]


def _server_caveats(header: LedgerHeader) -> list[str]:
    """Returns the limits of the guarantee with respect to the server of a fleet."""
    if header.sampling != CHECK_IN:
        return []
    released = "sums" if header.is_of_sums else "models"
    text = (
        f"The guarantee is about readers of the released {released}. It is no protection from the "
        "server, which adds the noise."
    )
    if not header.secure_sums:
        return [f"{text} The server sees the upload of each device."]
    return [
        f"{text} The server learns the exact sum of each round, of at least as many devices as "
        "docs/fleet/threat_model.md says. The guarantee also needs a server that adds the noise, "
        "and devices that bound their uploads: nobody can check a masked upload."
    ]


def _caveats(header: LedgerHeader, guarantee: Guarantee, *, delta: float) -> list[str]:
    """Returns the limits of the guarantee, as lines that begin with "* "."""
    caveats = []
    if math.isinf(guarantee.epsilon):
        caveats.append("The noise multiplier is 0: updates were clipped, but there is no privacy.")
    elif guarantee.epsilon > REASONABLE_EPSILON:
        caveats.append(
            f"An epsilon above {REASONABLE_EPSILON} is a weak guarantee: the text of one client "
            f"can make an outcome e^{guarantee.epsilon:.0f} times as likely. A reader of the "
            "models could then tell almost with certainty whether the client took part. Use more "
            "noise, more clients per round or fewer rounds. tff-keyboard privacy --target-epsilon "
            "plans a run."
        )
    if header.noise_multiplier:
        caveats += delta_caveats(header, delta)
    headers = [header, *(earlier for _, earlier in header.private_ancestors)]
    if any(one.mechanism.is_independent and one.amplifies for one in headers):
        caveats.append(_SECRET_COHORTS)
    caveats += [*_noise_caveats(header), *_server_caveats(header)]
    caveats += _coverage(header)
    caveats += [
        f"The vocabulary of the earlier run {printable(one.model)} was not chosen privately."
        for one, earlier in header.private_ancestors
        if header.vocabulary_rho and not earlier.vocabulary_rho
    ]
    return [f"* {caveat}" for caveat in caveats]


def _coverage(header: LedgerHeader) -> list[str]:
    """Returns the outputs of the run that the guarantee covers, and those that it does not."""
    if header.aggregator == EVALUATION:
        return [
            "Covered: the sums of all groups, from which the table is computed. Not covered: the "
            "models that were evaluated, and other evaluations on these devices, each of which "
            "has its own cost."
        ]
    if header.is_of_sums:
        return [
            "Covered: the words, the prefixes and the counts of all rounds, with each later round "
            "that they decide. Not covered: the known vocabulary, and other searches on these "
            "devices, each of which has its own cost."
        ]
    vocabulary = (
        "The vocabulary was not chosen privately: a single client can be the reason why a word is "
        "in it, at an unbounded privacy cost. `data.vocabulary_epsilon` chooses it privately."
    )
    if header.truecase_forms:
        vocabulary += (
            f" The {header.truecase_forms} forms with capitals in truecase.txt, which an export "
            "ships, were not chosen privately either."
        )
    if header.vocabulary_rho:
        vocabulary = (
            f"The vocabulary is part of the accounting: rho {header.vocabulary_rho:.4g}. A word of "
            f"only one client entered it with probability at most {header.vocabulary_delta:g}."
        )
    metrics = (
        "Metrics: training losses and counts are in withheld_metrics.jsonl. Do not publish it. "
        "metrics.jsonl has only noised or public values, and values of other clients."
    )
    return [
        "Covered: the sequence of released models (and clip norms). Not covered: choices that were "
        "made after looking at results (each further run on these clients has its own cost, see "
        "tff-keyboard privacy RUN RUN...), and the clients of validation and held-out text.",
        vocabulary,
        metrics,
    ]


def _noise_caveats(header: LedgerHeader) -> list[str]:
    """Returns a warning if readers of the config or of the run can compute its noise."""
    if header.noise_source == noise_key.FIXED_NONCE:
        return [
            "SIMULATION: the nonce of the noise is fixed in the config, so anyone with the config "
            "and the data can compute the noise again. The run is reproducible, but there is no "
            "guarantee."
        ]
    if header.noise_source == noise_key.NONCE:
        return [
            "Anyone with the run directory's noise_nonce can remove the noise and compute the "
            "cohorts. Publish the model, not the directory. For a deployment, keep a secret "
            "outside of it (docs/privacy.md)."
        ]
    return []
