"""The base class of next-word models in configs: their options.

Each module of `models/registry/` defines one model:

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class GruConfig(PaperModel):
        factory: ClassVar[str] = "tff_keyboard.models.gru:Gru"

        type: Literal["gru"] = "gru"
        units: FromOne = 300

`factory` names the code that imports TensorFlow, as text, so that reading a config does not import
it. A model with little code may have it in the same module, in `build`.
"""

import dataclasses
from typing import Any, ClassVar

from tff_keyboard.parts import calls
from tff_keyboard.parts.registry import Registry
from tff_keyboard.parts.tables import Table

DRAWS_INITIAL_WEIGHTS = "draws_initial_weights"  # attribute of a user's own model

MODELS = Registry("tff_keyboard.models.registry")
"""Name in configs -> class of the options.

>>> sorted(MODELS)
['cifg', 'gru', 'lstm2', 'si_cifg', 'transformer']
"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelOptions(Table, path="model"):
    """The options of a next-word model.

    The class attribute `factory` is the "module:class" of its `NextWordModel`, for `build`.

    Attributes:
      initial_model: Directory of a saved model, or a run directory, whose weights the training
        starts from. Words are matched by their spelling; words that the saved model does not know
        start with random vectors. With "", all initial weights are random and depend on
        `train.seed`.
    """

    REGISTRY: ClassVar[Registry] = MODELS

    factory: ClassVar[str] = ""
    type: str
    initial_model: str = ""

    @property
    def name(self) -> str:
        """The name of the model for `tff_keyboard.models.build_model`."""
        return self.type

    @property
    def unknown_weights(self) -> str:
        """A user's own model that may load its initial weights; "" if they are drawn."""
        return ""

    def arguments(self) -> dict[str, Any]:
        """Returns keyword arguments for `tff_keyboard.models.build_model`."""
        options = super().arguments()
        return {name: value for name, value in options.items() if name != "initial_model"}

    def build(self, *, vocabulary_size: int, seed: int | None) -> Any:
        """Builds the `NextWordModel`; see `tff_keyboard.models.build_model`."""
        run = {"vocabulary_size": vocabulary_size, "seed": seed}
        return calls.call(self.factory, self.arguments(), run)
