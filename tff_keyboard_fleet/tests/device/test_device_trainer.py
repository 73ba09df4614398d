"""A device trains the same weights as a client of a simulation."""

import dataclasses
import pathlib
import subprocess

import numpy as np
import pytest

from tests.support.console import ROOT
from tests.support.keyboard import export_fakes
from tests.support.keyboard.export_fakes import export
from tff_keyboard.data.vocabulary import BOS, EOS
from tff_keyboard.storage.errors import ExportError
from tff_keyboard_fleet.device import trainer as trainers
from tff_keyboard_fleet.device import training_process
from tff_keyboard_fleet.device.training_process import Job
from tff_keyboard_fleet.tests.device.test_device import make_plan
from tff_keyboard_fleet.wire import messages, weights
from tff_keyboard_fleet.wire.plan import Codec, SecureSums
from tff_keyboard_lab.benchmarks.phone import libcifg
from tflite_export.export.export_options import ExportOptions
from tflite_export.format import vocabulary_file

TEXTS = ["See you later, DINNER keys!", "ok", "good-bye later keys " * 9, "unheard of"]


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    folder = tmp_path_factory.mktemp("graph")
    run = export_fakes.save_run(folder / "run")
    return export(run, folder / "k.tflite", ExportOptions(trainable=True, pack=True)).paths.model


@pytest.fixture(scope="module")
def vocabulary():
    return vocabulary_file.sorted_vocabulary(export_fakes.vocabulary())


@pytest.fixture(scope="module")
def initial(graph):
    """Returns float weights that differ from those of the file."""
    found = trainers.LiteRtTrainer(graph).finish()
    return found + np.random.default_rng(0).normal(0, 0.01, found.shape).astype(np.float32)


@pytest.fixture
def plan(vocabulary, initial):
    return make_plan(
        vocabulary=vocabulary.fingerprint,
        parameters=initial.size,
        learning_rate=0.05,
        epochs=2,
        max_targets=6,
    )


def simulated(initial, vocabulary, plan):
    """Trains with plain SGD in TensorFlow, in the order typed, on sequences of `client_batches`."""
    import tensorflow as tf

    from tff_keyboard.data.batches import client_batches
    from tff_keyboard.data.text.python_tokenizer import PythonTokenizer
    from tflite_export.format.signatures import WEIGHT_NAMES
    from tflite_export.graphs.trainable import loss_and_gradients

    row = {word: i for i, word in enumerate(vocabulary.words)}
    tokens = PythonTokenizer(vocabulary.rules).tokenize(TEXTS)
    shapes = [v.shape.as_list() for v in export_fakes.model().trainable_variables]
    values = dict(zip(WEIGHT_NAMES, weights.to_arrays(initial, shapes), strict=True))
    values = {name: tf.Variable(value) for name, value in values.items()}
    total = targets = 0
    for _ in range(plan.epochs):
        for words in tokens:
            ids = np.array([row.get(word, 3) for word in words])
            [[sequence]] = client_batches(
                [ids],
                batch_size=1,
                max_length=plan.max_targets,
                max_examples=0,
                epochs=1,
                seed=[0],
                long_messages="truncate",
            )
            loss, gradients = loss_and_gradients(values, tf.constant(sequence))
            total += float(loss) * (len(sequence) - 1)
            targets += len(sequence) - 1
            for name, value in values.items():
                value.assign_sub(plan.learning_rate * gradients[name])
    trained = weights.to_vector([values[name].numpy() for name in WEIGHT_NAMES])
    return trained - initial, targets, total / targets


def test_the_delta_is_that_of_plain_sgd(graph, initial, vocabulary, plan):
    trained = trainers.train(trainers.LiteRtTrainer(graph), lambda: initial, TEXTS, plan)
    delta, targets, loss = simulated(initial, vocabulary, plan)
    np.testing.assert_allclose(trained.delta, delta, atol=2e-6)
    assert np.abs(delta).max() > 0.02
    assert trained.weight == targets
    assert trained.loss == pytest.approx(loss, rel=1e-5)


def test_weight_loss_and_clip_are_the_plans(graph, initial, plan):
    def train(**changes):
        changed = dataclasses.replace(plan, **changes)
        return trainers.train(trainers.LiteRtTrainer(graph), lambda: initial, TEXTS, changed)

    free, clipped = train(weighting="examples"), train(weighting="uniform", clip=0.01)
    assert free.weight == free.steps == plan.epochs * len(TEXTS)
    assert clipped.weight == 1
    norm = np.linalg.norm(free.delta)
    np.testing.assert_allclose(clipped.delta, free.delta * 0.01 / norm, rtol=1e-4, atol=1e-9)
    assert train(loss="after_training").loss < free.loss
    assert train(loss="after_training").delta.tobytes() == free.delta.tobytes()


def test_untrainable_texts_weights_and_rates_are_errors(graph, initial, plan):
    trainer = trainers.LiteRtTrainer(graph)
    with pytest.raises(ExportError, match="no words"):
        trainers.train(trainer, lambda: initial, ["", "?!"], plan)
    with pytest.raises(ValueError, match="numbers"):
        trainers.train(trainer, lambda: initial[1:], TEXTS, plan)
    with pytest.raises(ExportError, match="diverged"):
        trainers.train(
            trainer, lambda: initial, TEXTS, dataclasses.replace(plan, learning_rate=1e30)
        )


@pytest.fixture
def job(tmp_path, graph, initial, plan):
    (tmp_path / "plan").write_bytes(plan.to_bytes())
    (tmp_path / "model").write_bytes(weights.to_bytes(initial))
    return Job(
        plan=str(tmp_path / "plan"),
        graph=str(graph),
        model=str(tmp_path / "model"),
        upload=str(tmp_path / "upload"),
        assignment="seat 1",
        texts=TEXTS,
    )


def test_a_child_writes_the_upload(job, graph, initial, plan):
    done = training_process.run_in_child(job, seconds=60)
    trained = trainers.train(trainers.LiteRtTrainer(graph), lambda: initial, TEXTS, plan)
    body = pathlib.Path(job.upload).read_bytes()
    header, payload = messages.unpack_upload(body)
    assert (header.assignment, header.weight) == ("seat 1", trained.weight)
    assert header.shape == [initial.size]
    assert payload == weights.to_bytes(trained.delta)
    assert done.upload_bytes == len(body)
    assert pathlib.Path(job.upload).stat().st_mode & 0o077 == 0


def masked(plan, **changes):
    sums = SecureSums(clip_norm=1.0, step=2.0**-20, bits=32, degree=6, threshold=4)
    codec = Codec(name=messages.MASKED)
    return dataclasses.replace(plan, codec=codec, secure_sums=sums, **changes)


@pytest.mark.parametrize(
    "texts, changes",
    [
        (["?!"], {}),  # no words
        (TEXTS, {"learning_rate": 1e30}),
        (TEXTS, {"epochs": 0}),
        (TEXTS, {"max_targets": 0}),
    ],
)
def test_in_a_secure_sum_a_device_that_cannot_train_sends_zeros(job, plan, texts, changes):
    pathlib.Path(job.plan).write_bytes(masked(plan, **changes).to_bytes())
    done = training_process.do(dataclasses.replace(job, texts=texts))
    header, payload = messages.unpack_upload(pathlib.Path(job.upload).read_bytes())
    assert (done.steps, header.weight, header.loss) == (0, 1.0, 0.0)
    assert payload == bytes(4 * plan.parameters)


def test_weights_that_fail_on_one_word_do_not_reveal_who_typed_it(
    job, graph, initial, plan, vocabulary
):
    """The gates compute infinity minus infinity only for "dinner".

    If a device dropped out for that reason, the server would learn with one request that its user
    typed the word.
    """
    shapes = [v.shape.as_list() for v in export_fakes.model().trainable_variables]
    embedding, kernel, *others, projection = map(np.array, weights.to_arrays(initial, shapes))
    embedding[:, :2] = projection[:, :2] = 0
    embedding[vocabulary.words.index("dinner"), :2] = 3e38, -3e38
    kernel[:2] = 3e38
    trap = weights.to_vector([embedding, kernel, *others, projection])
    pathlib.Path(job.model).write_bytes(weights.to_bytes(trap))
    pathlib.Path(job.plan).write_bytes(masked(plan, learning_rate=0.0).to_bytes())
    uploads, steps = set(), []
    for text in ("see you later keys", "dinner keys later"):
        steps.append(training_process.do(dataclasses.replace(job, texts=[text])).steps)
        uploads.add(pathlib.Path(job.upload).read_bytes())
    assert len(uploads) == 1
    assert steps == [plan.epochs, 0]


def test_weights_that_do_not_fit_the_plan_fail_for_any_text(job, plan):
    wrong = dataclasses.replace(plan, parameters=plan.parameters - 1)
    pathlib.Path(job.plan).write_bytes(wrong.to_bytes())
    for texts in (TEXTS, []):
        with pytest.raises(ExportError, match=f"the plan has {wrong.parameters}"):
            training_process.do(dataclasses.replace(job, texts=texts))


def test_child_errors_are_one_line_without_text(job, plan):
    wrong = dataclasses.replace(plan, vocabulary="0" * 64)
    pathlib.Path(job.plan).write_bytes(wrong.to_bytes())
    with pytest.raises(ExportError, match="its vocabulary differs from the plan") as error:
        training_process.run_in_child(job, seconds=60)
    assert "later" not in str(error.value)
    with pytest.raises(ExportError, match="did not end within 0 s"):
        training_process.run_in_child(job, seconds=0.01)


@pytest.mark.slow
@pytest.mark.skipif(not libcifg.compiler(), reason="no C++ compiler")
def test_libcifg_trains_the_same(job, graph, initial, plan, tmp_path):
    library = libcifg.make("libcifg.so", tmp_path)
    done = training_process.run_in_child(dataclasses.replace(job, library=str(library)), seconds=60)
    trained = trainers.train(trainers.LiteRtTrainer(graph), lambda: initial, TEXTS, plan)
    _, payload = messages.unpack_upload(pathlib.Path(job.upload).read_bytes())
    np.testing.assert_allclose(weights.from_bytes(payload), trained.delta, atol=1e-5)
    assert done.loss == pytest.approx(trained.loss, rel=1e-5)


@pytest.mark.slow
@pytest.mark.skipif(not libcifg.compiler(), reason="no C++ compiler")
def test_a_native_device_takes_less_than_30_mb(tmp_path):
    model = ROOT / "models" / "base" / "keyboard.tflite"
    lines = ["see you tomorrow at the station", "i will be there at seven o'clock " * 5] * 10
    command = [libcifg.make("train", tmp_path), model, "0.05"]
    said = subprocess.run(
        command, input="\n".join(lines), capture_output=True, text=True, check=True
    )
    steps, loss, _, memory = said.stdout.split(", ")
    trainer = trainers.LiteRtTrainer(model)
    ids = [[BOS, *trainer.ids(line), EOS][:21] for line in lines]
    losses = [trainer.train(sequence, 0.05) for sequence in ids]
    assert steps == "20 steps"
    assert float(loss.split()[1]) == pytest.approx(np.mean(losses), rel=1e-5)
    assert int(memory.split()[0]) < 30_000
