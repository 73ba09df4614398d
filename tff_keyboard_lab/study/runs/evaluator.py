"""Evaluates the runs of a study on the same text, once for each set of weights.

The text is the control's: its store's clients and, for "general", the held-out clients of its
`fine_tuning.general_store`. So a general model, which was trained on another store, is judged on
the same clients as the models that were trained from it.
"""

import dataclasses
import pathlib
from collections.abc import Callable

from tff_keyboard import config as config_lib
from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.evaluation import run_evaluation
from tff_keyboard.evaluation.counts import typed_text
from tff_keyboard.evaluation.counts.typed_text import TypedText
from tff_keyboard.evaluation.results.result import Evaluation, ModelFacts
from tff_keyboard.models.saved_model import load_model
from tff_keyboard.predictors.keras_predictor import KerasPredictor
from tff_keyboard.predictors.predictor import Predictor
from tff_keyboard.storage.errors import ConfigError, DataError
from tff_keyboard.storage.run_directory import RunDirectory
from tff_keyboard_lab.study.plan.plan import Run
from tff_keyboard_lab.study.plan.study_file import Study


class StudyEvaluator:
    """Evaluates runs on the populations of a study: whole messages, as `evaluate` does.

    Raises:
      ConfigError: If the study has the population "general" and the control has no general store.
    """

    def __init__(self, study: Study, control: config_lib.RunConfig):
        self._texts = {name: _text(study, control, name) for name in study.populations}

    def evaluations(self, run: Run) -> dict[str, Evaluation]:
        """Returns population -> evaluation of the run.

        Stored evaluations are read from its directory.
        """
        directory = RunDirectory(run.path)
        digest = run_evaluation.weights_digest(run.path)
        return self.evaluate(
            lambda: KerasPredictor(*load_model(run.path)),
            ModelFacts(name=run.path.name, source=str(run.path)),
            lambda label: directory.evaluation_path(label, digest),
        )

    def evaluate(
        self,
        open_model: Callable[[], Predictor],
        facts: ModelFacts,
        cache_file: Callable[[str], pathlib.Path],
    ) -> dict[str, Evaluation]:
        """Returns population -> evaluation of a model.

        Args:
          open_model: Opens the model. It is not called if all evaluations are stored.
          facts: Facts about the model.
          cache_file: Returns the file that stores an evaluation, given a word for text and
            population.

        Raises:
          DataError: If the model has another vocabulary than the text.
        """
        predictor, evaluations = None, dict[str, Evaluation]()
        for name, (store, text) in self._texts.items():
            file = cache_file(f"{name}_whole_{store.card_hash[:8]}_{text.num_words}")
            evaluation = run_evaluation.read_cached_evaluation(file)
            if evaluation is None:
                predictor = predictor or open_model()
                if predictor.vocabulary != store.vocabulary:
                    raise DataError(
                        f"{facts.source} has a different vocabulary than "
                        f"{store.directory}. Use one vocabulary for all arms of a study "
                        "(`tff-keyboard merge-vocabulary`)."
                    )
                evaluation = run_evaluation.evaluate_named(predictor, facts, text, store=store)
                run_evaluation.write_evaluation(file, evaluation)
            evaluations[name] = evaluation
        return evaluations


def _text(study: Study, control: config_lib.RunConfig, name: str) -> tuple[ClientStore, TypedText]:
    """Returns the text on which a study evaluates a population, and its store."""
    store, population = control.data.store, name
    if name == "general":
        store, population = control.fine_tuning.general_store, "held_out"
        if not store:
            raise ConfigError(
                "The study has the population 'general', but its control has no "
                "`fine_tuning.general_store`. Set it, or leave the population out."
            )
    opened = ClientStore(store)
    text = typed_text.of_population(opened, population)
    text = typed_text.first_messages(text, study.max_messages)
    return opened, dataclasses.replace(text, name=name)
