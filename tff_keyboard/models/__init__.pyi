from tff_keyboard.algorithms.variable_model import build_model_fn
from tff_keyboard.models.cifg import Cifg
from tff_keyboard.models.gru import Gru
from tff_keyboard.models.layers.dropout import Dropout
from tff_keyboard.models.lstm2 import Lstm2
from tff_keyboard.models.model_factory import build_model
from tff_keyboard.models.next_word_model import NextWordModel
from tff_keyboard.models.recurrent_model import RecurrentModel
from tff_keyboard.models.saved_model import load_model, save_model
from tff_keyboard.models.si_cifg import SiCifg
from tff_keyboard.models.transformer import Transformer
from tff_keyboard.parts.model import MODELS

__all__ = [
    "MODELS",
    "Cifg",
    "Dropout",
    "Gru",
    "Lstm2",
    "NextWordModel",
    "RecurrentModel",
    "SiCifg",
    "Transformer",
    "build_model",
    "build_model_fn",
    "load_model",
    "save_model",
]
