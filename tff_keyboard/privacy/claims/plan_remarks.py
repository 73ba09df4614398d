"""The assumptions of a plan, and the epsilon of a run that is resumed, in words for a terminal."""

import pathlib

from tff_keyboard.privacy.claims.claim import claim_of
from tff_keyboard.privacy.claims.delta_rule import delta_caveats
from tff_keyboard.privacy.claims.epsilon_text import epsilon_in_words
from tff_keyboard.privacy.claims.statement import (
    REHEARSED,
    missing_claims,
    server_rows,
    unchecked_caveats,
    validation_caveats,
)
from tff_keyboard.privacy.ledger.ledger import read_ledger
from tff_keyboard.privacy.ledger.ledger_header import CHECK_IN, LedgerHeader
from tff_keyboard.privacy.mechanisms import noise_key
from tff_keyboard.storage.errors import UsageError
from tff_keyboard.storage.run_directory import RunDirectory


def plan_remarks(
    header: LedgerHeader, *, store_clients: int | None = None, rehearses: bool = False
) -> list[str]:
    """Returns one paragraph for each assumption of a plan.

    Args:
      header: `planning.planned_header` of the config.
      store_clients: Number of train clients in the client store. None if the store does not exist,
        so that the origin of the vocabulary is unknown.
      rehearses: Whether clients train on a general corpus, too (`fine_tuning.general_store`).
    """
    delta = header.delta + header.vocabulary_delta
    remarks = [f"* {line.strip()}" for line in missing_claims(header)]
    if header.selected_per_round != header.clients_per_round:
        remarks.append(
            f"* Each round selects {header.selected_per_round} clients (`train.over_selection`) "
            f"and divides by {header.clients_per_round}. The selected clients count for epsilon."
        )
    remarks += [f"* {words}" for words in (_sampling(header), _earlier_runs(header)) if words]
    remarks += [f"* {name[0].upper()}{name[1:]}: {text}." for name, text in server_rows(header)]
    if header.noise_cohort_size:
        remarks.append(
            f"* PROJECTION: epsilon and error hold for a federation with "
            f"{header.noise_cohort_size} clients per round from a population of "
            f"{header.projected.population}. The released models of the run itself have a larger "
            "epsilon, which its statement gives."
        )
    if header.noise_source == noise_key.FIXED_NONCE:
        remarks.append(
            "* SIMULATION: `aggregation.privacy.fixed_nonce` is set, so there is no guarantee."
        )
    if store_clients is not None and header.population not in (0, store_clients):
        remarks.append(
            f"* The store has {store_clients} train clients, but the plan is for a population of "
            f"{header.population}. A run on this store has another epsilon: plan it with "
            f"--population={store_clients}."
        )
    if rehearses:
        remarks.append(f"* {REHEARSED}")
    caveats = [*unchecked_caveats(header), *validation_caveats(header)]
    remarks += [f"* {caveat}" for caveat in caveats]
    remarks.append(f"* {_vocabulary(header, store_clients is not None)}")
    return remarks + [f"* {caveat}" for caveat in delta_caveats(header, delta)]


def _sampling(header: LedgerHeader) -> str:
    """Returns the assumption about how clients are sampled."""
    if header.amplifies:
        return (
            "The guarantee of `gaussian` holds only if the sampled clients of each round stay "
            "secret."
        )
    if header.sampling == CHECK_IN:
        return "Devices check in by themselves: no amplification by sampling."
    if not header.secret_cohorts:
        return (
            "Cohorts follow from `train.seed`, which is not secret, because "
            "`aggregation.privacy.fixed_nonce` is set: no amplification by sampling."
        )
    return (
        f"`train.min_separation_rounds` = {header.min_separation_rounds}: cohorts are not uniform "
        "draws, so there is no amplification by sampling."
    )


def _earlier_runs(header: LedgerHeader) -> str:
    runs = [
        f"{one.model} ({one.rounds} rounds, {one.people} clients)"
        for one, _ in header.private_ancestors
    ]
    return f"Epsilon includes the earlier runs on these clients: {', '.join(runs)}." if runs else ""


def _vocabulary(header: LedgerHeader, has_store: bool) -> str:
    if header.vocabulary_rho:
        return (
            f"Epsilon includes the choice of the vocabulary: rho {header.vocabulary_rho:.4g}, "
            f"delta {header.vocabulary_delta:g}."
        )
    if has_store:
        return "Not included: the vocabulary of the store, which was not chosen privately."
    return (
        "Not included: the vocabulary. `data.store` does not exist yet. If it is prepared with "
        "`data.vocabulary_epsilon`, the statement of the run will include the price of this choice."
    )


def resumed_line(ledger_path: pathlib.Path, rounds: int) -> str:
    """Returns the epsilon of a run after it is resumed with `train.rounds` = `rounds`.

    The run keeps the mechanism and the noise of its ledger. Rounds that it repeats after its
    checkpoint cost nothing more.

    Args:
      ledger_path: The ledger of the run.
      rounds: Total number of rounds, at least the number that was released.

    Raises:
      UsageError: If the run has released more rounds, or is of sums of devices.
      RunDirectoryError: If there is no ledger, or it is damaged.
    """
    header, released = read_ledger(ledger_path)
    if header.is_of_sums:
        raise UsageError(
            f"--rounds is for trainings, but {ledger_path.parent} is an evaluation on devices or a "
            "search for words, whose epsilon does not depend on the number of groups. Leave "
            "--rounds out."
        )
    if rounds < len(released):
        raise UsageError(
            f"--rounds must be >= {len(released)}, the rounds that {ledger_path.parent} has "
            f"released, got {rounds}."
        )
    total = claim_of(RunDirectory(ledger_path.parent), header, rounds)
    if total is None:
        return f"Resumed with `train.rounds` = {rounds}: NO CLAIM."
    words = epsilon_in_words(total.epsilon, is_released=rounds > 0)
    projection = " (projection)" if header.noise_cohort_size else ""
    line = (
        f"Resumed with `train.rounds` = {rounds}: epsilon{projection} {words}, delta "
        f"{total.delta:g} ({total.adjacency}; {total.method})."
    )
    return " ".join([line, *unchecked_caveats(header)])
