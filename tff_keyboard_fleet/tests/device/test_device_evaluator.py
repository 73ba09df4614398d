"""A device counts the sums of `compare`, on its newest messages."""

import dataclasses
import pathlib

import numpy as np
import pytest

from tests.support.keyboard import export_fakes
from tests.support.keyboard.export_fakes import export
from tff_keyboard.data.text.python_tokenizer import PythonTokenizer
from tff_keyboard.evaluation.counts import predictor_evaluation
from tff_keyboard.evaluation.counts.typed_text import TypedText
from tff_keyboard.models.saved_model import weights_by_name
from tff_keyboard.predictors.keras_predictor import KerasPredictor
from tff_keyboard.storage.errors import ExportError
from tff_keyboard_fleet.device import evaluator, training_process
from tff_keyboard_fleet.device.trainer import LiteRtTrainer
from tff_keyboard_fleet.device.training_process import Job
from tff_keyboard_fleet.on_devices.served_files import wire_order
from tff_keyboard_fleet.tests.device.test_device import make_plan
from tff_keyboard_fleet.wire import evaluation_sums, messages, weights
from tff_keyboard_fleet.wire.plan import Evaluation
from tflite_export.export.export_options import ExportOptions
from tflite_export.format import vocabulary_file

OLDER = ["Blorp is coming home", "blorp, blorp the keys", ""]
NEWER = ["See you later, DINNER keys!", "ok", "blorp will call you tomorrow morning", "?!"]
MAX_TARGETS = 6


@pytest.fixture(scope="module")
def models():
    return [export_fakes.model(seed) for seed in (1, 2)]


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    folder = tmp_path_factory.mktemp("graph")
    run = export_fakes.save_run(folder / "run")
    return export(run, folder / "k.tflite", ExportOptions(trainable=True, pack=True)).paths.model


@pytest.fixture(scope="module")
def vectors(models):
    rows = vocabulary_file.sorted_rows(export_fakes.vocabulary())
    found = []
    for model in models:
        values = weights_by_name(model)
        order = wire_order({name: value.shape for name, value in values.items()}, rows)
        found.append(weights.to_vector(list(values.values()))[order])
    return found


@pytest.fixture
def few_targets(monkeypatch):
    """Lets short texts be counted, of which a test can say what they count."""
    monkeypatch.setattr(evaluator, "MIN_TARGETS", 1)


@pytest.fixture
def plan(vectors):
    evaluation = Evaluation(models=["a" * 64, "b" * 64], max_words=15, own_words=0.2)
    return make_plan(
        vocabulary=vocabulary_file.sorted_vocabulary(export_fakes.vocabulary()).fingerprint,
        parameters=vectors[0].size,
        weighting="uniform",
        max_targets=MAX_TARGETS,
        evaluation=evaluation,
    )


def expected_sums(predictor):
    """The sums of the newest messages, by the code of `compare` with a Keras model."""
    tokenize = PythonTokenizer(export_fakes.vocabulary().rules).tokenize
    older, newer = ([words for words in tokenize(texts) if words] for texts in (OLDER, NEWER))
    text = TypedText("device", ("device",), (newer,), before=(older,))
    counts = predictor_evaluation.evaluate(predictor, text, max_length=MAX_TARGETS)
    return {name: values[0] for name, values in counts.sums.items()}


@pytest.mark.usefixtures("few_targets")
def test_the_sums_are_those_of_compare(graph, vectors, models, plan):
    trainer = LiteRtTrainer(graph)
    readers = [lambda vector=vector: vector for vector in vectors]
    vector, count = evaluator.evaluate(trainer, readers, OLDER + NEWER, plan)
    assert count == len(NEWER) + 1  # 14 targets of 15, and a message without words
    actual = evaluation_sums.from_vectors(vector[np.newaxis], 2, True, 15)
    for model, (alone, own) in zip(models, actual, strict=True):
        expected = expected_sums(KerasPredictor(model, export_fakes.vocabulary()))
        assert expected["tokens"] == 14
        for name, values in alone.items():
            assert values[0] == pytest.approx(expected[name], rel=1e-4), name
        # "blorp" was typed twice before, so the second count knows it.
        assert own["oov_hits_at_3"][0] >= 1
        assert own["nll"][0] != pytest.approx(alone["nll"][0], rel=1e-3)
    assert actual[0][0]["nll"][0] != pytest.approx(actual[1][0]["nll"][0], rel=1e-3)


@pytest.mark.usefixtures("few_targets")
def test_models_are_counted_alone_without_own_words(graph, vectors, plan):
    trainer = LiteRtTrainer(graph)
    evaluation = dataclasses.replace(plan.evaluation, own_words=0.0)
    both, _ = evaluator.evaluate(trainer, [lambda: vectors[0]] * 2, NEWER, plan)
    alone, _ = evaluator.evaluate(
        trainer, [lambda: vectors[0]] * 2, NEWER, dataclasses.replace(plan, evaluation=evaluation)
    )
    names = evaluation_sums.columns(2, True)
    plain = [position for position, (_, is_own, _) in enumerate(names) if not is_own]
    np.testing.assert_array_equal(alone, both[plain])
    first, second = (alone[4:8], alone[8:12])
    np.testing.assert_array_equal(first, second)


# The newest: "?!" without words, then 6, 2 and 6 targets; before them "", 5 and 5.
@pytest.mark.parametrize("max_words, count", [(1, 2), (7, 2), (8, 3), (14, 5), (19, 6), (24, 7)])
def test_messages_are_counted_from_the_newest_up_to_the_bound(max_words, count):
    tokenize = PythonTokenizer(export_fakes.vocabulary().rules).tokenize
    words = tokenize(OLDER + NEWER)
    first = evaluator._first_counted(words, max_words, MAX_TARGETS)
    assert len(words) - first == count


@pytest.mark.parametrize(
    ("texts", "max_words", "count"),
    [
        (["", "?!"], 64, 0),
        (["see you"], 64, 3),
        (["see you"] * 10, 64, 30),
        (["see you"] * 30, 31, 30),  # a server cannot ask for fewer words
    ],
)
def test_too_few_words_are_not_counted(graph, vectors, plan, texts, max_words, count):
    evaluation = dataclasses.replace(plan.evaluation, max_words=max_words)
    few = dataclasses.replace(plan, evaluation=evaluation)
    with pytest.raises(ExportError, match=f"have {count} words and ends of messages .* than 32"):
        evaluator.evaluate(LiteRtTrainer(graph), [lambda: vectors[0]] * 2, texts, few)


def test_enough_words_are_counted(graph, vectors, plan):
    evaluation = dataclasses.replace(plan.evaluation, max_words=64)
    enough = dataclasses.replace(plan, evaluation=evaluation)
    models = [lambda: vectors[0]] * 2
    _, count = evaluator.evaluate(LiteRtTrainer(graph), models, ["see you"] * 11, enough)
    assert count == 11


@pytest.mark.usefixtures("few_targets")
def test_a_model_that_computes_nan_is_an_error(graph, vectors, plan):
    broken = np.full_like(vectors[0], np.nan)
    with pytest.raises(ExportError, match="not finite"):
        evaluator.evaluate(LiteRtTrainer(graph), [lambda: broken] * 2, NEWER, plan)


@pytest.mark.usefixtures("few_targets")
def test_the_process_writes_the_sums(graph, vectors, plan, tmp_path):
    (tmp_path / "plan").write_bytes(plan.to_bytes())
    for name, vector in zip(("one", "other"), vectors, strict=True):
        (tmp_path / name).write_bytes(weights.to_bytes(vector))
    job = Job(
        plan=str(tmp_path / "plan"),
        graph=str(graph),
        model=str(tmp_path / "one"),
        models=[str(tmp_path / "other")],
        upload=str(tmp_path / "upload"),
        assignment="seat",
        texts=OLDER + NEWER,
    )
    done = training_process.do(job)
    assert (done.steps, done.weight, done.loss) == (len(NEWER) + 1, 1.0, 0.0)
    header, payload = messages.unpack_upload(pathlib.Path(job.upload).read_bytes())
    assert header.shape == [plan.evaluation.size]
    readers = [lambda vector=vector: vector for vector in vectors]
    expected, _ = evaluator.evaluate(LiteRtTrainer(graph), readers, OLDER + NEWER, plan)
    np.testing.assert_allclose(weights.from_bytes(payload), expected, rtol=1e-6)
