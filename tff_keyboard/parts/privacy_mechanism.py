"""The base classes of the mechanisms of differential privacy in configs.

Each module of `privacy/registry/` defines one mechanism, with two classes:

    class TreeConfig(MechanismConfig):   the options, `type = "tree"`
    class Tree(Mechanism):               the mechanism of a run: its noise and its privacy cost,
                                         with all numbers resolved, `name = "tree"`

The module imports no TensorFlow, and SciPy only in its functions, because reading a config imports
it.
"""

import dataclasses
import re
from typing import Annotated, Any, ClassVar, TypeAlias

from tff_keyboard.parts.registry import Registry
from tff_keyboard.parts.tables import Table
from tff_keyboard.storage import checks

# Outside of it the accounting leaves the range of floats, or has no meaning.
NOISE_MULTIPLIERS = checks.Range(
    "0, or in 1e-6..1e9", lambda value: value == 0 or 1e-6 <= value <= 1e9
)
NoiseMultiplier: TypeAlias = Annotated[float, NOISE_MULTIPLIERS]

MECHANISMS = Registry("tff_keyboard.privacy.registry")


@dataclasses.dataclass(frozen=True, kw_only=True)
class PrivacyOptions(Table, path="aggregation.privacy"):
    """The options of a mechanism, or of training without one."""

    REGISTRY: ClassVar[Registry] = MECHANISMS

    type: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class MechanismConfig(PrivacyOptions):
    """The keys of all mechanisms.

    Class attributes are properties, which other tables ask for:

    - `is_discrete`: whether the sum and the noise are integers.
    - `is_adaptive`: whether the clip norm follows a quantile.
    - `is_compared`: whether a plan compares it with the other mechanisms.

    Attributes:
      type: Name of the mechanism.
      clip_norm: Bound on the L2 norm of a client's whole update, in units of the model's weights.
        With private FedAtt it bounds each layer instead. In the mechanisms with an adaptive bound,
        this is the bound of the first round.
      noise_multiplier: Standard deviation of one draw of noise, divided by the clip norm. Has no
        unit. With 0, updates are clipped, but there is no noise and no guarantee.
      delta: Delta of the (epsilon, delta) guarantee. It should be at most
        1 / (10 x number of clients); otherwise the plan and the statement print a remark.
      noise_secret: Where the secret part of the noise key is: "env:NAME" or "file:PATH", outside
        the run directory. "" means that there is no secret part.
      fixed_nonce: 32 hexadecimal digits that replace the random nonce of the run and make its noise
        reproducible. For experiments only: the privacy statement then says "simulation".
      noise_cohort_size: Number of clients per round in a larger federation whose noise is
        simulated; 0 simulates none. The noise of the mean then has standard deviation
        noise_multiplier x clip_norm / noise_cohort_size. The resulting epsilon is a PROJECTION, and
        is labelled so: it holds for the larger federation, which has proportionally more users.
        Requires the rule "mean", a fixed clip norm, and a value of at least
        `train.clients_per_round`.
    """

    is_adaptive: ClassVar[bool] = False
    is_compared: ClassVar[bool] = True

    type: str
    clip_norm: checks.Positive = 1.0
    noise_multiplier: NoiseMultiplier = 0.0
    delta: checks.OpenShare = 1e-6
    noise_secret: str = ""
    fixed_nonce: str = ""
    noise_cohort_size: checks.FromZero = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        named = not self.noise_secret or bool(re.fullmatch("(env|file):.+", self.noise_secret))
        self.require(named, "noise_secret", "must be 'env:NAME' or 'file:PATH'")
        is_nonce = not self.fixed_nonce or bool(re.fullmatch("[0-9a-f]{32}", self.fixed_nonce))
        self.require(is_nonce, "fixed_nonce", "must be 32 hexadecimal digits")

    @property
    def is_discrete(self) -> bool:
        """Whether the sum and the noise are integers."""
        return False

    def own_options(self) -> dict[str, Any]:
        """Returns the options that not all mechanisms have."""
        shared = {field.name for field in dataclasses.fields(MechanismConfig)}
        return {key: value for key, value in self.arguments().items() if key not in shared}

    def mechanism(
        self, *, rounds: int, min_separation_rounds: int = 1, momentum: float = 0.0
    ) -> Any:
        """Returns the `Mechanism` for a schedule.

        Args:
          rounds: Rounds of the run, >= 1.
          min_separation_rounds: A client that joins round i joins no round before
            i + min_separation_rounds; >= 1.
          momentum: Momentum of the server, for which the coefficients of correlated noise are
            optimised.

        Raises:
          ValueError: If an argument is out of range.
        """
        raise NotImplementedError


def mechanism_configs() -> dict[str, type[Any]]:
    """Returns name -> subclass of `MechanismConfig` of all mechanisms."""
    return {name: one for name, one in MECHANISMS.items() if issubclass(one, MechanismConfig)}
