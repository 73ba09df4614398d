"""The first line of a privacy ledger: what does not change during a run and the statement needs."""

import dataclasses

from tff_keyboard.privacy.mechanisms.mechanism import Mechanism

CHECK_IN = "check_in"  # `LedgerHeader.sampling`: devices come by themselves
NO_PEOPLE = "none"  # `Ancestor.people`: nobody is in both


@dataclasses.dataclass(frozen=True, kw_only=True)
class Ancestor:
    """One run behind an initial model."""

    model: str  # the path as the config names it
    people: str  # how its people overlap with ours: "same", "some", "none" or "unknown"
    rounds: int = 0  # rounds that it released, as its ledger says; 0 without one
    # Header of its ledger, without its ancestors; None: it claims no privacy, or nobody knows
    header: "LedgerHeader | None" = None

    @property
    def shares_people(self) -> bool:
        """Whether people may be in both; what is not known counts as shared."""
        return self.people != NO_PEOPLE


@dataclasses.dataclass(frozen=True, kw_only=True)
class LedgerHeader:
    """What does not change during a run and the statement needs."""

    mechanism: Mechanism  # mechanism with the coefficients that the run began with
    aggregator: str
    noise_multiplier: float  # noise standard deviation / sensitivity of one client
    clip_norm: float  # L2 bound on one client's delta (the first one where it adapts)
    delta: float
    population: int
    clients_per_round: int  # the report goal; the fixed denominator of the mean
    selected_per_round: int  # people drawn a round, with over-selection
    sampling: str  # "fixed_size", "poisson" or `CHECK_IN`
    # Whether every cohort is a uniform draw from the whole population: a minimum separation above 1
    # or a deterministic schedule makes it false
    uniform_sampling: bool
    # Whether cohorts were drawn by a key that is kept secret, not by the config's seed alone
    secret_cohorts: bool
    min_separation_rounds: int  # a person who joins round i joins none before i + this
    max_participations: int  # rounds a person joins at most; 0 means what the separation allows
    # Origin of the key: `noise_key.SECRET`, `NONCE` or `FIXED_NONCE`; "" where there is no noise
    noise_source: str = ""
    key_id: str = ""  # `NoiseKey.key_id`; "" where there is no noise
    # 0, or the clients a round of the larger federation whose noise was simulated: every epsilon of
    # this ledger is then a projection
    noise_cohort_size: int = 0
    records_participation: bool = False  # whether the separation holds across runs on the store
    store_sha256: str = ""  # SHA-256 of the client store
    initial_model: str = ""  # `model.initial_model`; "" is random weights
    ancestors: tuple[Ancestor, ...] = ()  # the runs behind the initial model (`lineage.py`)
    vocabulary_sha256: str = ""  # SHA-256 of the vocabulary's rows and rules
    vocabulary_rho: float = 0.0  # zCDP of choosing it; 0: it was not chosen privately
    vocabulary_delta: float = 0.0  # the chance that a word of one person alone got in, where it was
    # Words of the vocabulary that have a form with capitals, which an export ships
    truecase_forms: int = 0

    @property
    def amplifies(self) -> bool:
        """Whether sampling may count: who was drawn is as good as uniform to all but the server."""
        return self.uniform_sampling and self.secret_cohorts

    @property
    def projected(self) -> "LedgerHeader":
        """That of the larger federation, as if it had been run; itself where none is simulated."""
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
        """That of what was really released, with its own, smaller noise."""
        size = self.noise_cohort_size or self.clients_per_round
        noise = self.noise_multiplier * self.clients_per_round / size
        return dataclasses.replace(self, noise_multiplier=noise, noise_cohort_size=0)
