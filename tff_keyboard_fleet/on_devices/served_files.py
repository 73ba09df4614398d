"""The files that a server of rounds publishes: the graph of a run, and weights in its order."""

import pathlib
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from tff_keyboard.data.vocabulary import Vocabulary
from tff_keyboard.host import progress
from tff_keyboard.models import NextWordModel
from tff_keyboard.storage import files

SERVER_KEY = "server_key.pem"
GRAPH = "graph.tflite"
TABLE = "embedding"  # the variable whose rows are words


class TrainingGraphBuilder(Protocol):
    """Builds the file that devices train, and says in which order its rows are."""

    def build(self, directory: pathlib.Path, model: NextWordModel, vocabulary: Vocabulary) -> bytes:
        """Returns the packed, trainable file of the model of a run. Called once for each run."""

    def rows(self, vocabulary: Vocabulary) -> Sequence[int]:
        """Returns the row of the vocabulary for each row of the file's word table."""


def wire_order(shapes: Mapping[str, Sequence[int]], rows: Sequence[int]) -> np.ndarray:
    """Returns, for each number on the wire, its index in the vector of a model's weights.

    Args:
      shapes: Shapes of the trainable variables by name, in order.
      rows: Row of the word table, `embedding`, for each row on the wire.

    >>> wire_order({"embedding": [3, 2], "bias": [1]}, [0, 2, 1]).tolist()
    [0, 1, 4, 5, 2, 3, 6]
    """
    parts, start = [], 0
    for name, shape in shapes.items():
        size = int(np.prod(shape))
        indices = np.arange(start, start + size).reshape(shape)
        parts.append((indices[list(rows)] if name == TABLE else indices).reshape(-1))
        start += size
    return np.concatenate(parts)


def graph_of_run(
    graph: TrainingGraphBuilder,
    path: pathlib.Path,
    directory: pathlib.Path,
    model: NextWordModel,
    vocabulary: Vocabulary,
) -> bytes:
    """Returns the graph of a run, which is built at its first start and kept at `path`.

    `directory` is the run of the model, or its folder.
    """
    if not path.exists():
        progress.step("writing the training graph for devices")
        files.write_atomically(path, [graph.build(directory, model, vocabulary)])
    return files.read_bytes(path)
