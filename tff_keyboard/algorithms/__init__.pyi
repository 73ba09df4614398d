from tff_keyboard.algorithms.client_packing.local_context import local_context
from tff_keyboard.algorithms.composition import with_initial_weights
from tff_keyboard.algorithms.fed_avg import build_fed_avg
from tff_keyboard.algorithms.fed_sgd import build_fed_sgd
from tff_keyboard.algorithms.fedmed.process import build_fedmed
from tff_keyboard.algorithms.rounds.noised import with_noise

__all__ = [
    "build_fed_avg",
    "build_fed_sgd",
    "build_fedmed",
    "local_context",
    "with_initial_weights",
    "with_noise",
]
