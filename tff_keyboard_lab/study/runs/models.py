"""The models of a study without a config: baselines, and hybrids of an arm's runs.

They are made from the text of the control's train clients. Their evaluations are stored in the
study's folder, under a digest of everything that they are made from.
"""

import functools
import hashlib
import pathlib

from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.evaluation import run_evaluation
from tff_keyboard.evaluation.model_specs import baselines
from tff_keyboard.evaluation.model_specs.named_predictor import NamedPredictor
from tff_keyboard.evaluation.results.result import Evaluation, ModelFacts
from tff_keyboard.models.saved_model import load_model
from tff_keyboard.predictors.keras_predictor import KerasPredictor
from tff_keyboard.predictors.predictor import Predictor
from tff_keyboard.storage import files
from tff_keyboard_lab.study.plan.plan import Run
from tff_keyboard_lab.study.plan.study_file import Model, Study
from tff_keyboard_lab.study.runs.evaluator import StudyEvaluator

_DIGEST_LETTERS = 12


class Models:
    """The models of a study.

    Raises:
      UsageError: If a model needs an n-gram that cannot exist.
    """

    def __init__(self, study: Study, evaluator: StudyEvaluator, store: str, folder: pathlib.Path):
        self._study = study
        self._evaluator = evaluator
        self._path = store
        self._folder = folder
        self._specs = {m.name: baselines.read_spec(m.model) for m in study.models}

    @functools.cached_property
    def _store(self) -> ClientStore:
        """The store, opened once, and only if the study has models."""
        return ClientStore(self._path)

    def of_run(self, run: Run) -> dict[str, dict[str, Evaluation]]:
        """Returns name -> population -> evaluation of the models that belong to a finished run.

        A hybrid belongs to every run of its arm. A baseline has no seed and belongs to every run of
        the control, so that it is compared with each of them.
        """
        if run.point:
            return {}
        return {
            model.name: self._evaluations(model, run if model.arm else None)
            for model in self._study.models
            if (model.arm or self._study.control) == run.arm
        }

    def _evaluations(self, model: Model, run: Run | None) -> dict[str, Evaluation]:
        """Evaluates a baseline, or a hybrid with the network of `run`, unless it is on disk."""
        store = self._store
        inputs = [model.model, store.card_hash]
        source = model.model
        if run is not None:
            source = source.replace(f"{{{model.arm}}}", str(run.path))
            inputs.append(run_evaluation.weights_digest(run.path))
            inputs.append(f"n-grams of {baselines.MIN_CLIENTS} people")
        digest = hashlib.sha256("\n".join(inputs).encode()).hexdigest()[:_DIGEST_LETTERS]

        def open_model() -> Predictor:
            text = baselines.read_train_text(store)
            spec = self._specs[model.name]
            if run is None:
                return baselines.open_baseline(source, model.name, spec, text, store).predictor
            network = KerasPredictor(*load_model(run.path))
            network_model = NamedPredictor(model.name, "keras", network, {}, source)
            return baselines.join_hybrid(network_model, spec, text, store).predictor

        files.make_directory(self._folder)
        return self._evaluator.evaluate(
            open_model,
            ModelFacts(name=model.name, source=source),
            lambda label: self._folder / f"{model.name}_{label}_{digest}.json",
        )
