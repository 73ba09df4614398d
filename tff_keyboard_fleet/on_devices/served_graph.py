"""The graph of served rounds: the packed, trainable export of a run's initial model."""

import pathlib
import tempfile
from collections.abc import Sequence

from tff_keyboard.data.vocabulary import Vocabulary
from tff_keyboard.models import NextWordModel
from tflite_export.export.export import export
from tflite_export.export.export_options import ExportOptions
from tflite_export.export.trained_run import TrainedRun
from tflite_export.format import vocabulary_file

_ANY_SIZE = 2**31


def build(directory: pathlib.Path, model: NextWordModel, vocabulary: Vocabulary) -> bytes:
    """Returns the bytes of the file.

    Accuracy is not checked, because the model is not trained yet.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "graph.tflite"
        options = ExportOptions(trainable=True, pack=True, max_bytes=_ANY_SIZE)
        export(TrainedRun(directory, model, vocabulary), path, options)
        return path.read_bytes()


def rows(vocabulary: Vocabulary) -> Sequence[int]:
    """Returns the row of the vocabulary for each row of the file's word table."""
    return vocabulary_file.sorted_rows(vocabulary)
