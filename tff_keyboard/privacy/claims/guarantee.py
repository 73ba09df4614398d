"""(epsilon, delta) of a run, and of all releases about the same clients.

`guarantee_of` is the guarantee of one run, by its mechanism; `composed` is the guarantee of
several. Gaussian mechanisms without sampling compose exactly (Dong et al. 2019, Corollary 3.3: rho
adds up). If some are sampled, RDP curves add up (Mironov 2017, Proposition 1). The guarantee of a
run with cohorts of fixed size is about replacing a client, which changes an unsampled sum by twice
the clip norm: together with such a run, the rho of the others counts four times.
All of this also holds for adaptive choices: a later run may depend on the results of earlier ones.
"""

import dataclasses
import math
from collections.abc import Sequence

import dp_accounting
from dp_accounting import rdp

from tff_keyboard.privacy.accounting import accounting
from tff_keyboard.privacy.accounting.guarantee import Guarantee
from tff_keyboard.privacy.ledger.ledger_header import Ancestor, LedgerHeader
from tff_keyboard.privacy.mechanisms import noise_key


@dataclasses.dataclass(frozen=True)
class Release:
    """One release as recorded in a ledger.

    Attributes:
      header: The header.
      rounds: The number of rounds.
      last_content: The tag of the data of the last round, or "" if the noise does not depend on it.
      contents: The tags of all rounds, if they are known.
    """

    header: LedgerHeader
    rounds: int
    last_content: str = ""
    contents: tuple[str, ...] = ()

    @property
    def alone(self) -> LedgerHeader:
        """The header without its ancestors, because ancestors are stored without theirs.

        Also without the id of its run: the noise key identifies the releases.
        """
        return dataclasses.replace(self.header, ancestors=(), run_id="")

    def continues(self, earlier: "Release") -> bool:
        """Checks whether `earlier` has the first rounds of this release, and nothing else.

        Tags are chained, so the tag of a round identifies all rounds up to it. A fleet's run that
        was restored from a backup continues the backup, but not the lost rounds after it.
        """
        if not self.header.key_id or self.alone != earlier.alone or self.rounds < earlier.rounds:
            return False
        if not (self.last_content or earlier.last_content) or not earlier.rounds:
            return True
        if self.rounds == earlier.rounds:
            return self.last_content == earlier.last_content
        return self.contents[earlier.rounds - 1 : earlier.rounds] == (earlier.last_content,)


def guarantee_of(header: LedgerHeader, rounds: int) -> Guarantee:
    """Returns the guarantee after `rounds` recorded rounds of this run alone.

    Amplification by sampling is used only if the sampler meets its assumptions. A Gaussian run
    whose cohorts were not drawn uniformly with a secret key is accounted as if every client joined
    as often as the separation allows. If the noise of a larger cohort was simulated, the guarantee
    is about the larger federation, and `method` says so.
    """
    if header.noise_cohort_size:
        projected = guarantee_of(header.projected, rounds)
        method = f"PROJECTION to {header.noise_cohort_size} clients per round, {projected.method}"
        return dataclasses.replace(projected, method=method)
    noise = header.noise_multiplier
    if not _is_sampled(header):
        return header.mechanism.guarantee(
            noise_multiplier=noise,
            rounds=rounds,
            delta=header.delta,
            min_separation=header.min_separation_rounds,
        )
    return accounting.fixed_size_gaussian(
        noise_multiplier=noise,
        population=header.population,
        cohort=header.selected_per_round,
        rounds=rounds,
        delta=header.delta,
    )


def unclaimed(header: LedgerHeader) -> list[Ancestor]:
    """Returns the ancestors that may share clients with this run and have no guarantee for it.

    A simulation (`fixed_nonce`) has none, and a projection has none about its own models, so a real
    run cannot continue them. A run of the same kind can: its own label says what it is. A run whose
    client work a program changes has none, because the bound on one client may not hold.
    """
    return [
        one
        for one in header.ancestors
        if one.shares_clients
        and (
            one.header is None or one.header.changes_client_work or is_less_real(one.header, header)
        )
    ]


def is_less_real(one: LedgerHeader, other: LedgerHeader) -> bool:
    """Whether a run is a simulation or a projection, and the other run is not."""
    is_simulated = noise_key.FIXED_NONCE == one.noise_source != other.noise_source
    return is_simulated or bool(one.noise_cohort_size and not other.noise_cohort_size)


def history(header: LedgerHeader, rounds: int, contents: Sequence[str] = ()) -> list[Release]:
    """Returns the run and the earlier private runs that share clients, each once.

    Args:
      header: The header of the run's ledger.
      rounds: The number of its rounds.
      contents: The tags of the data of its rounds, if its noise depends on them.
    """
    before = [
        Release(earlier, one.rounds, one.last_content) for one, earlier in header.private_ancestors
    ]
    last_content = contents[-1] if contents else ""
    return distinct([Release(header, rounds, last_content, tuple(contents)), *before])


def distinct(releases: Sequence[Release]) -> list[Release]:
    """Returns each run once, with the largest number of rounds in any ledger.

    A run is identified by its whole header without its ancestors, and by the tags of its data if
    its noise depends on them. Another run with the same noise key is another release.
    """
    runs: list[Release] = []
    for release in releases:
        if any(run.continues(release) for run in runs):
            continue
        earlier = [number for number, run in enumerate(runs) if release.continues(run)]
        if earlier:
            runs[earlier[0]] = release
            for number in reversed(earlier[1:]):
                del runs[number]
        else:
            runs.append(release)
    return runs


def total_guarantee(header: LedgerHeader, rounds: int) -> Guarantee | None:
    """Returns the guarantee of the run and all earlier runs on its clients.

    Returns None if there is no guarantee.
    """
    if header.changes_client_work or unclaimed(header):
        return None
    return composed(history(header, rounds))


def composed(releases: Sequence[Release]) -> Guarantee:
    """Returns the joint guarantee of several runs on one population, including their vocabularies.

    A privately chosen vocabulary (`vocabulary_rho`, `vocabulary_delta` of the header) counts once
    for each choice, also if two choices had the same outcome. Delta is the smallest delta of the
    runs, plus the deltas of the vocabularies. Two runs with the same noise key have no guarantee,
    because their difference has no noise, unless the noise also depends on the data of the rounds.

    Args:
      releases: One or more, as returned by `distinct`.
    """
    headers = [release.header for release in releases]
    vocabularies = {
        (one.vocabulary_sha256, one.vocabulary_choice, one.vocabulary_rho, one.vocabulary_delta)
        for one in headers
        if one.vocabulary_rho
    }
    if len(releases) == 1 and not vocabularies:
        return guarantee_of(headers[0], releases[0].rounds)
    delta = min(one.delta for one in headers)
    parts = _Parts(delta)
    replaced = any(_is_sampled(one) for one in headers)
    for *_, rho, _ in vocabularies:
        parts.add_rho(rho, replaced)
    for release in releases:
        parts.add(release, replaced)
    keys = [one.header.key_id for one in releases if one.header.key_id and not one.last_content]
    if len(set(keys)) < len(keys):
        parts.add_rho(math.inf, replaced)
    guarantee = parts.guarantee(replaced)
    if any(one.noise_cohort_size for one in headers):
        guarantee = dataclasses.replace(guarantee, method=f"PROJECTION, {guarantee.method}")
    return dataclasses.replace(guarantee, delta=delta + sum(part for *_, part in vocabularies))


def _is_sampled(header: LedgerHeader) -> bool:
    return header.mechanism.is_independent and header.amplifies


class _Parts:
    """Sums of rho, and of sampled rounds that only RDP can add up."""

    def __init__(self, delta: float):
        self._delta = delta
        self._rho = 0.0
        self._method = accounting.EXACT_GAUSSIAN
        self._sampled: list[dp_accounting.DpEvent] = []

    def add_rho(self, rho: float, replaced: bool) -> None:
        """Adds a mechanism whose rho is about zeroing out the contributions of one client."""
        self._rho += 4 * rho if replaced else rho

    def add(self, release: Release, replaced: bool) -> None:
        """Adds the rounds of one run."""
        header, rounds = release.header.projected, release.rounds
        noise, selected = header.noise_multiplier, header.selected_per_round
        if not rounds:
            return
        if not noise:
            self._rho = math.inf
        elif not _is_sampled(header):
            guarantee = guarantee_of(header, rounds)
            assert guarantee.rho is not None
            self.add_rho(guarantee.rho, replaced)
            # Otherwise the total could be smaller than the figure of one of its parts
            if guarantee.method.endswith(accounting.RDP_CONVERSION):
                self._method = accounting.RDP_CONVERSION
        else:
            event = dp_accounting.GaussianDpEvent(noise / 2)
            one_round = dp_accounting.SampledWithoutReplacementDpEvent(
                header.population, selected, event
            )
            self._sampled.append(dp_accounting.SelfComposedDpEvent(one_round, rounds))

    def guarantee(self, replaced: bool) -> Guarantee:
        """Returns the joint guarantee of everything that was added, at the constructor's delta.

        If nothing that was added is sampled (or epsilon is infinite), rho adds up and
        `Guarantee.rho` is set. Otherwise RDP adds up, and `rho` is None. The deltas of vocabularies
        are not included.

        Args:
          replaced: Whether neighbours differ in one replaced client, instead of one client's
            contributions set to zero. Must be the value that `add` and `add_rho` got.
        """
        if math.isinf(self._rho) or not self._sampled:
            return Guarantee(
                epsilon=accounting.epsilon_of_zcdp(self._rho, self._delta, method=self._method),
                delta=self._delta,
                rho=self._rho,
                adjacency=accounting.REPLACE_ONE if replaced else accounting.ZERO_OUT_ONE,
                method=f"zCDP, composed, {self._method}",
            )
        relation = dp_accounting.NeighboringRelation.REPLACE_ONE
        accountant = rdp.RdpAccountant(neighboring_relation=relation)
        for event in self._sampled:
            accountant.compose(event)
        if self._rho:
            accountant.compose(dp_accounting.GaussianDpEvent(1 / math.sqrt(2 * self._rho)))
        return Guarantee(
            epsilon=accountant.get_epsilon(self._delta),
            delta=self._delta,
            adjacency=accounting.REPLACE_ONE,
            method="RDP, composed",
        )
