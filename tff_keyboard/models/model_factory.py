"""Builds a next-word model from its name and options."""

from tff_keyboard.models.keras_next_word_model import build_user_model
from tff_keyboard.models.next_word_model import NextWordModel
from tff_keyboard.parts.model import MODELS
from tff_keyboard.storage import part_reference


def build_model(name: str, *, vocabulary_size: int, seed: int | None, **options) -> NextWordModel:
    """Builds a model whose initial weights depend only on the arguments.

        model = build_model("gru", vocabulary_size=10_000, seed=1, units=300, tied=True)
        model = build_model("my_models.py:my_model", vocabulary_size=10_000, seed=1)

    Args:
      name: A key of `MODELS`, or `file.py:function` or `module:function`: a user's function that
        returns a Keras model; see `models/keras_next_word_model.py`.
      vocabulary_size: Rows of the output table, including special ids.
      seed: Seed of the initial weights; None for zeros, if the weights are assigned later.
      **options: Options of the model, such as "units", "embedding_size", "tied", "dropout",
        or arguments of the user's function.

    Raises:
      ValueError: If the name or an option is unknown, an option is out of range, or a user's model
        cannot be used.
    """
    if part_reference.is_reference(name):
        return build_user_model(name, vocabulary_size=vocabulary_size, seed=seed, options=options)
    if name not in MODELS:
        raise ValueError(f"`model.type` must be one of {sorted(MODELS)}, got {name!r}.")
    try:
        return MODELS[name](**options).build(vocabulary_size=vocabulary_size, seed=seed)
    except TypeError as error:
        if "unexpected keyword argument" not in str(error):
            raise
        option = str(error).rsplit("'", 2)[1]
        raise ValueError(f"`model.{option}` is not an option of {name!r}. Leave it out.") from None
