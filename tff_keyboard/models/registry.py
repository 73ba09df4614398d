"""The models that a config can name."""

from collections.abc import Callable

from tff_keyboard.models.cifg import Cifg
from tff_keyboard.models.gru import Gru
from tff_keyboard.models.lstm2 import Lstm2
from tff_keyboard.models.next_word_model import NextWordModel

MODELS: dict[str, Callable[..., NextWordModel]] = {"cifg": Cifg, "gru": Gru, "lstm2": Lstm2}
"""Name in configs -> class.

>>> sorted(MODELS)
['cifg', 'gru', 'lstm2']
"""


def build_model(name: str, *, vocabulary_size: int, seed: int | None, **options) -> NextWordModel:
    """Builds a model whose initial weights depend only on the arguments.

        model = build_model("gru", vocabulary_size=10_000, seed=1, units=300, tied=True)

    Args:
      name: A key of `MODELS`.
      vocabulary_size: Rows of the output table, including special ids.
      seed: Seed of the initial weights; None for zeros, if the weights are assigned later.
      **options: Options of the model's class, such as "units", "embedding_size", "tied", "dropout".

    Raises:
      ValueError: If the name or an option is unknown, or an option is out of range.
    """
    if name not in MODELS:
        raise ValueError(f"`model.type` must be one of {sorted(MODELS)}, got {name!r}.")
    try:
        return MODELS[name](vocabulary_size=vocabulary_size, seed=seed, **options)
    except TypeError as error:
        if "unexpected keyword argument" not in str(error):
            raise
        option = str(error).rsplit("'", 2)[1]
        raise ValueError(f"`model.{option}` is not an option of {name!r}. Leave it out.") from None
