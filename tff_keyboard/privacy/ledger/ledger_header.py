"""The first line of a privacy ledger: the constants of a run that its statement needs."""

import dataclasses
from typing import Final, Literal

from tff_keyboard.parts.privacy_mechanism import NoiseMultiplier
from tff_keyboard.parts.tables import Table
from tff_keyboard.privacy.mechanisms.mechanism import Mechanism
from tff_keyboard.storage import checks

# Values of `LedgerHeader.sampling`
FIXED_SIZE: Final = "fixed_size"  # the server draws cohorts of fixed size without replacement
CHECK_IN: Final = "check_in"  # devices check in by themselves
# Values of `LedgerHeader.aggregator`: sums of devices that evaluate models, or look for new words
EVALUATION, NEW_WORDS = "evaluation", "new words"
NO_CLIENTS = "none"  # `Ancestor.people`: no client is in both runs


@dataclasses.dataclass(frozen=True, kw_only=True)
class Ancestor:
    """An earlier run that contributed to an initial model."""

    model: str  # the path in the config
    people: str  # overlap of its clients with ours: "same", "some", "none" or "unknown"
    rounds: int = 0  # released rounds according to its ledger; 0 without a ledger
    # Header of its ledger, without its ancestors; None if it has no guarantee or is unknown
    header: "LedgerHeader | None" = None
    last_content: str = ""  # tag of the data of its last round, if its noise depends on tags
    run_id: str = ""  # `origin.json` of the run; "" for runs of earlier versions
    rehearses: bool = False  # whether its clients trained on a general corpus, without noise
    # Whether metrics of its validation clients chose its model, without noise
    validates: bool = False
    # Whether our clients may be among its validation clients; `header` is then None
    validates_ours: bool = False
    same_store: bool = False  # whether the run that records it was trained on the same client store

    @property
    def shares_clients(self) -> bool:
        """Whether clients may be in both runs. An unknown overlap counts as shared."""
        return self.people != NO_CLIENTS or self.validates_ours


@dataclasses.dataclass(frozen=True, kw_only=True)
class LedgerHeader(Table):
    """The constants of a run that its privacy statement needs. Numbers out of range are refused."""

    mechanism: Mechanism  # with the coefficients from the run's start
    aggregator: str
    noise_multiplier: NoiseMultiplier  # noise standard deviation / sensitivity of one client
    clip_norm: checks.Positive  # L2 bound on one client's update (the first one if it adapts)
    delta: checks.OpenShare
    population: checks.FromZero  # 0 if devices check in
    clients_per_round: checks.FromOne  # the report goal; the fixed denominator of the mean
    selected_per_round: checks.FromOne  # clients drawn per round, with over-selection
    sampling: Literal["fixed_size", "check_in"]
    # Whether every cohort is drawn uniformly from the whole population. Not if there is a minimum
    # separation above 1 or a deterministic schedule
    uniform_sampling: bool
    # Whether cohorts were drawn with a secret key, not only with the config's seed
    secret_cohorts: bool
    min_separation_rounds: checks.FromOne  # a client that joins round i joins none before i + this
    # Origin of the key, as in `noise_key.py`; "" without noise
    noise_source: Literal["", "secret", "nonce", "fixed nonce"] = ""
    key_id: str = ""  # `NoiseKey.key_id`; "" without noise
    # 0, or the clients per round of a larger federation whose noise was simulated. Every epsilon of
    # this ledger is then a projection.
    noise_cohort_size: checks.FromZero = 0
    run_id: str = ""  # `origin.json` of the run; "" for runs of earlier versions
    # SHA-256 of the client store, in runs of version 0.2.0. A reader of the ledger could test
    # guesses of a client's text with it, so it is "" now
    store_sha256: str = ""
    initial_model: str = ""  # `model.initial_model`; "" for random weights
    ancestors: tuple[Ancestor, ...] = ()  # the runs that led to the initial model (`lineage.py`)
    vocabulary_sha256: str = ""  # SHA-256 of the vocabulary's rows and rules
    vocabulary_choice: str = ""  # random id of its private choice; "" in earlier versions
    vocabulary_rho: checks.NotNegative = 0.0  # zCDP of its choice; 0 if it was not chosen privately
    vocabulary_delta: checks.Fraction = 0.0  # bound on releasing a word of only one client
    # Number of words with a capitalised form, which an export contains
    truecase_forms: checks.FromZero = 0
    # Own parts of the config that declare their sensitivity, as "key = reference"
    unchecked_parts: tuple[str, ...] = ()
    # Whether devices masked their updates, so that the server got only the sum of each round. Runs
    # that were started by earlier versions do not say so
    secure_sums: bool = False
    # Whether a program changes the work of the clients, such as `attack`: then nothing says that an
    # update depends on one client only
    changes_client_work: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sampling == FIXED_SIZE:
            self.require(
                self.selected_per_round <= self.population,
                "selected_per_round",
                f"must be at most `population` = {self.population}",
            )

    @property
    def is_of_sums(self) -> bool:
        """Whether sums of devices were released, and no model."""
        return self.aggregator in (EVALUATION, NEW_WORDS)

    @property
    def private_ancestors(self) -> list[tuple[Ancestor, "LedgerHeader"]]:
        """The earlier private runs that may share clients with this one, with their headers."""
        return [
            (one, one.header)
            for one in self.ancestors
            if one.shares_clients and one.header is not None
        ]

    @property
    def amplifies(self) -> bool:
        """Whether sampling amplifies privacy: cohorts look uniform to all but the server."""
        return self.uniform_sampling and self.secret_cohorts

    @property
    def projected(self) -> "LedgerHeader":
        """Header of the simulated larger federation, or `self` if none is simulated."""
        size = self.noise_cohort_size
        if not size:
            return self
        factor = size / self.clients_per_round
        return dataclasses.replace(
            self,
            clients_per_round=size,
            selected_per_round=round(self.selected_per_round * factor),
            population=round(self.population * factor),
            noise_cohort_size=0,
        )

    @property
    def unprojected(self) -> "LedgerHeader":
        """Header of the real release, with its own, smaller noise, as have its earlier runs."""
        size = self.noise_cohort_size or self.clients_per_round
        noise = self.noise_multiplier * self.clients_per_round / size
        ancestors = tuple(
            dataclasses.replace(one, header=one.header and one.header.unprojected)
            for one in self.ancestors
        )
        return dataclasses.replace(
            self, noise_multiplier=noise, noise_cohort_size=0, ancestors=ancestors
        )
