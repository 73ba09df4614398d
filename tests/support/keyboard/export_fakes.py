"""A small CIFG with structure, saved as a run leaves it, and the CIFG's equations in NumPy."""

import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np

from tff_keyboard.data.vocabulary import NUM_SPECIAL, SPECIAL_WORDS, NormalisationRules, Vocabulary
from tff_keyboard.models import NextWordModel, build_model
from tff_keyboard.models.saved_model import save_model
from tflite_export.export import export as exporting
from tflite_export.export.export_result import ExportResult
from tflite_export.export.trained_run import TrainedRun
from tflite_export.graphs.cifg_weights import CifgWeights
from tflite_export.graphs.quantization import quantize_rows
from tflite_export.graphs.trainable import joined_weights

UNITS, DIM = 24, 8

# By frequency, not in order, so that a mistake between the two orders shows.
WORDS = (
    "you", "i", "the", "to", "a", "are", "is", "coming", "home", "for", "dinner", "tonight", "will",
    "call", "when", "there", "can", "we", "meet", "tomorrow", "morning", "thank", "so", "much",
    "don't", "forget", "keys", "please", "see", "later", "late", "la", "come", "can't", "😀",
    "7:30", "ok", "good-bye", "é", "straße",
)  # fmt: skip

# As many of each.
LANGUAGE_WORDS = {
    "en": WORDS,
    "de": (
        "ich", "du", "das", "ist", "nicht", "wir", "und", "haus", "straße", "größe", "schön", "für",
        "kommst", "heute", "morgen", "übermorgen", "zum", "essen", "nach", "hause", "rufe", "dich",
        "an", "wenn", "da", "bin", "bis", "später", "danke", "bitte", "gut", "tag", "abend",
        "geht's", "wie", "wo", "mit", "ja", "nein", "äpfel",
    ),
    "tr": (
        "ben", "sen", "bu", "bir", "ve", "için", "çok", "ne", "var", "yok", "istiyorum", "ışık",
        "ışıklar", "eve", "akşam", "yemeğe", "geliyor", "musun", "oraya", "varınca", "seni",
        "ararım", "iyi", "günler", "görüşürüz", "teşekkürler", "lütfen", "nasılsın", "evet",
        "hayır", "şimdi", "sonra", "yarın", "bugün", "güzel", "kadar", "daha", "en", "gibi",
        "ankara'da",
    ),
    "es": (
        "yo", "tú", "él", "no", "que", "de", "la", "el", "en", "y", "está", "esta", "mañana",
        "español", "qué", "cómo", "vienes", "a", "cenar", "casa", "noche", "te", "llamaré",
        "cuando", "llegue", "gracias", "hola", "también", "más", "muy", "bien", "todo", "aquí",
        "ahora", "sí", "por", "favor", "después", "único", "pingüino",
    ),
    "nl": (
        "ik", "jij", "het", "de", "een", "één", "niet", "en", "is", "dat", "kom", "je", "vanavond",
        "thuis", "eten", "bel", "zodra", "in", "belgië", "ben", "ijs", "ijsje", "ijsland", "zo'n",
        "foto's", "geïnteresseerd", "coördinatie", "financiële", "dank", "bedankt", "goed", "dag",
        "avond", "morgen", "ja", "nee", "waar", "hoe", "met", "ijskast",
    ),
    "pt": (
        "eu", "tu", "não", "que", "de", "o", "a", "à", "em", "e", "está", "vens", "jantar", "casa",
        "hoje", "noite", "ligo-te", "amanhã", "quando", "lá", "chegar", "obrigado", "olá", "também",
        "mais", "muito", "bem", "tudo", "aqui", "agora", "sim", "por", "favor", "depois", "ação",
        "você", "avô", "relações", "útil", "três",
    ),
}  # fmt: skip

SENTENCES = (
    "are you coming home for dinner tonight",
    "i will call you when i get there",
    "can we meet tomorrow morning",
    "thank you so much",
    "don't forget the keys please",
    "see you later ok",
)


def vocabulary(language: str = "en") -> Vocabulary:
    words = (*SPECIAL_WORDS, *LANGUAGE_WORDS[language])
    return Vocabulary(words, NormalisationRules(language=language))


def model(seed: int = 1) -> NextWordModel:
    """Weights larger than at initialisation: states move, and the best word is clearly best."""
    built = build_model(
        "cifg", vocabulary_size=len(vocabulary()), seed=seed, units=UNITS, embedding_size=DIM
    )
    random = np.random.default_rng(seed)
    for variable in built.trainable_variables:
        # A stronger recurrence is chaotic: float32 itself is off after 300 words.
        scales = {"embedding": 1.0, "recurrent_kernel": 0.25}
        name = variable.name.split(":")[0].rsplit("/", 1)[-1]
        scale = scales.get(name, 0.6)
        variable.assign(random.normal(0.0, scale, variable.shape))
    # Long special rows: they win wherever nothing keeps them out.
    table = built.embedding.numpy()
    table[:NUM_SPECIAL] *= 3.0
    built.embedding.assign(table)
    return built


def save_run(directory: pathlib.Path, seed: int = 1, language: str = "en") -> pathlib.Path:
    """A run directory with nothing but its model."""
    save_model(directory / "model", model(seed), vocabulary(language))
    return directory


def map_matrices(weights: CifgWeights, change: Callable[[np.ndarray], np.ndarray]) -> CifgWeights:
    """The same weights with `change` applied to every matrix; biases stay."""
    return CifgWeights(
        embedding=change(weights.embedding),
        kernels=tuple(map(change, weights.kernels)),
        recurrent_kernels=tuple(map(change, weights.recurrent_kernels)),
        biases=weights.biases,
        projection=change(weights.projection),
    )


def stored_weights(weights: CifgWeights) -> dict[str, np.ndarray]:
    """The initial values as a trainable file holds them: large matrices rounded by rows."""
    return {
        name: quantize_rows(value).dequantized() if value.ndim == 2 and value.size >= 256 else value
        for name, value in joined_weights(weights).items()
    }


def export(run_dir: pathlib.Path, *arguments: Any, **options: Any) -> ExportResult:
    """`tflite_export.export.export`, of a run that is opened here."""
    return exporting.export(TrainedRun.load(run_dir), *arguments, **options)


def texts(people: int = 6, messages: int = 40) -> dict[str, list[list[str]]]:
    """Person -> messages -> words; sentences above with words swapped in, OOV among them."""
    random = np.random.default_rng(0)
    found: dict[str, list[list[str]]] = {}
    for person in range(people):
        found[f"person {person}"] = []
        for _ in range(messages):
            words = str(random.choice(SENTENCES)).split()
            words[random.integers(len(words))] = str(random.choice([*WORDS, "unheard"]))
            found[f"person {person}"].append(words)
    return found


class NumpyCifg:
    """The equations of Hard et al. 2018 in float64."""

    def __init__(self, weights: CifgWeights):
        self.embedding = weights.embedding.astype(np.float64)
        self.kernel = np.concatenate(weights.kernels, axis=1).astype(np.float64)
        self.recurrent = np.concatenate(weights.recurrent_kernels, axis=1).astype(np.float64)
        self.bias = np.concatenate(weights.biases).astype(np.float64)
        self.projection = weights.projection.astype(np.float64)

    def states(self, ids) -> tuple[np.ndarray, np.ndarray]:
        """(c [time, units], h [time, dim]) after each id, from zeros."""
        units, dim = self.projection.shape
        c, h = np.zeros(units), np.zeros(dim)
        cells, hidden = [], []
        for word_id in ids:
            z = self.embedding[word_id] @ self.kernel + h @ self.recurrent + self.bias
            i, g, o = _sigmoid(z[:units]), np.tanh(z[units : 2 * units]), _sigmoid(z[2 * units :])
            c = (1.0 - i) * c + i * g
            h = (o * np.tanh(c)) @ self.projection
            cells.append(c)
            hidden.append(h)
        return np.array(cells), np.array(hidden)

    def logits(self, ids) -> np.ndarray:
        """[time, vocabulary]."""
        return self.states(ids)[1] @ self.embedding.T


def _sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


class Sized:
    """A model of any size whose best words are clearly best, as those of a trained one are.

    Rows of the table have norms of very different length, so that the scores of few words stand out
    from the many.

    Attributes:
      vocabulary: Words of two to four letters.
      model: A CIFG.
      texts: 1,000 words of 5 people and a few more, the frequent words more often.
    """

    def __init__(self, rows: int, units: int, dim: int):
        random = np.random.default_rng(1)
        letters = "abcdefghijklmnopqrstuvwxyz"
        made_up = {"".join(random.choice(list(letters), 4)) for _ in range(2 * rows)}
        words = random.permutation(sorted(made_up))[: rows - NUM_SPECIAL]
        self.vocabulary = Vocabulary((*SPECIAL_WORDS, *map(str, words)), NormalisationRules())
        self.model = build_model(
            "cifg", vocabulary_size=rows, seed=1, units=units, embedding_size=dim
        )
        table = random.normal(0.0, 1.0, [rows, dim])
        norms = np.minimum(np.exp(random.normal(0.0, 0.6, [rows, 1])), 4.0)
        table *= norms * 3.0 / np.sqrt(dim)
        self.model.embedding.assign(table)
        for name in ("kernel", "recurrent_kernel", "projection"):
            variable = getattr(self.model, name)
            scale = 1.0 / np.sqrt(variable.shape[0])
            variable.assign(random.normal(0.0, scale, variable.shape))
        ranks = np.minimum(random.zipf(1.3, [5, 34, 6]), rows - NUM_SPECIAL) - 1
        self.texts = {
            f"person {number}": [[str(words[rank]) for rank in message] for message in person]
            for number, person in enumerate(ranks)
        }

    def save(self, directory: pathlib.Path) -> pathlib.Path:
        """A run directory with nothing but this model."""
        save_model(directory / "model", self.model, self.vocabulary)
        return directory
