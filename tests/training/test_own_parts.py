"""Training with the user's own parts: results, resume, and errors that leave nothing behind."""

import json
import shutil
import textwrap

import numpy as np
import pytest

from tasks.evaluate import evaluate as evaluate_task
from tasks.train import train as train_task
from tests.support import own_parts_page
from tests.support.fakes import tiny_config
from tff_keyboard import config as config_lib
from tff_keyboard.command_line import cli
from tff_keyboard.privacy.claims.statement import privacy_statement
from tff_keyboard.privacy.ledger import ledger
from tff_keyboard.storage import part_reference
from tff_keyboard.storage.errors import ConfigError, RunDirectoryError
from tff_keyboard.storage.run_directory import RunDirectory
from tff_keyboard.training.federated import train_federated

SOURCE = """
import tensorflow as tf
import tensorflow_federated as tff


def mean():
    return tff.aggregators.MeanFactory(no_nan_division=True)


def plain_mean():
    return tff.aggregators.UnweightedMeanFactory()


def sgd(learning_rate: float = 1.0):
    return tff.learning.optimizers.build_sgdm(learning_rate)


def fed_avg(model_fn, aggregator, server_optimizer, learning_rate: float = 0.5):
    return tff.learning.algorithms.build_weighted_fed_avg(
        model_fn,
        client_optimizer_fn=tff.learning.optimizers.build_sgdm(learning_rate),
        server_optimizer_fn=server_optimizer,
        model_aggregator=aggregator,
        loop_implementation=tff.learning.LoopImplementation.DATASET_ITERATOR,
    )


def wrong_kind(model_fn, learning_rate: float = 0.5):
    return tff.learning.algorithms.build_fed_sgd


def around(inner):
    return inner


around.keeps_sensitivity = True


def raises(limit: int = 3):
    raise ValueError(f"limit {limit}\\nis bad")


def number():
    return 3


def work(model_fn, learning_rate: float = 0.5):
    return tff.learning.templates.build_model_delta_client_work(
        model_fn,
        tff.learning.optimizers.build_sgdm(learning_rate),
        client_weighting=tff.learning.ClientWeighting.NUM_EXAMPLES,
        loop_implementation=tff.learning.LoopImplementation.DATASET_ITERATOR,
    )


def number_option(limit: int = 3, other=None):
    return tff.aggregators.MeanFactory()


def other_state(model_fn, aggregator, server_optimizer, learning_rate: float = 0.5):
    process = fed_avg(model_fn, aggregator, server_optimizer, learning_rate)

    @tff.federated_computation(process.next.type_signature.parameter)
    def next_fn(state, client_data):
        metrics = process.next(state, client_data).metrics
        return tff.learning.templates.LearningProcessOutput(metrics, metrics)

    return tff.learning.templates.LearningProcess(
        process.initialize, next_fn, process.get_model_weights, process.set_model_weights
    )


def growing_state(model_fn, learning_rate: float = 0.5):
    client_work = work(model_fn, learning_rate)

    history = tff.TensorType(tf.float32.as_numpy_dtype, [None])

    @tff.tensorflow.computation
    def first():
        return tf.zeros([tf.random.uniform([], 1, 2, tf.int32)])

    @tff.federated_computation
    def init_fn():
        return tff.federated_eval(first, tff.SERVER)

    @tff.tensorflow.computation(history)
    def longer(values):
        return tf.concat([values, [1.0]], 0)

    server = init_fn.type_signature.result
    parameter = client_work.next.type_signature.parameter

    @tff.federated_computation(server, parameter[1], parameter[2])
    def next_fn(state, weights, data):
        output = client_work.next(client_work.initialize(), weights, data)
        return tff.templates.MeasuredProcessOutput(
            tff.federated_map(longer, state), output.result, output.measurements
        )

    return tff.learning.templates.ClientWorkProcess(init_fn, next_fn)


class NanGradient(tf.keras.Model):
    # Finite logits, and the gradient of a square root at 0.
    def __init__(self, vocabulary_size):
        super().__init__()
        self.table = tf.keras.layers.Embedding(vocabulary_size, vocabulary_size, "zeros")

    def call(self, ids, training=None):
        return tf.sqrt(tf.nn.relu(self.table(ids)))


class OtherResult(tff.aggregators.WeightedAggregationFactory):
    def create(self, value_type, weight_type):
        @tff.federated_computation()
        def init_fn():
            return tff.federated_value(0, tff.SERVER)

        @tff.federated_computation(
            init_fn.type_signature.result,
            tff.FederatedType(value_type, tff.CLIENTS),
            tff.FederatedType(weight_type, tff.CLIENTS),
        )
        def next_fn(state, value, weight):
            total = tff.federated_sum(weight)
            return tff.templates.MeasuredProcessOutput(state, total, state)

        return tff.templates.AggregationProcess(init_fn, next_fn)


class SameLength(tff.aggregators.UnweightedAggregationFactory):
    def create(self, value_type):
        mean = tff.aggregators.UnweightedMeanFactory().create(value_type)

        @tff.tensorflow.computation(value_type)
        def scaled(update):
            length = tf.linalg.global_norm(tf.nest.flatten(update))
            return tf.nest.map_structure(lambda x: tf.math.divide_no_nan(0.5 * x, length), update)

        @tff.federated_computation(mean.next.type_signature.parameter)
        def next_fn(state, value):
            return mean.next(state, tff.federated_map(scaled, value))

        return tff.templates.AggregationProcess(mean.initialize, next_fn)


class NanMean(tff.aggregators.UnweightedAggregationFactory):
    def create(self, value_type):
        mean = tff.aggregators.UnweightedMeanFactory().create(value_type)

        @tff.tensorflow.computation(value_type)
        def nan(update):
            return tf.nest.map_structure(lambda x: x * float("nan"), update)

        @tff.federated_computation(mean.next.type_signature.parameter)
        def next_fn(state, value):
            output = mean.next(state, value)
            result = tff.federated_map(nan, output.result)
            return tff.templates.MeasuredProcessOutput(output.state, result, output.measurements)

        return tff.templates.AggregationProcess(mean.initialize, next_fn)


class NanOptimizer(tff.learning.optimizers.Optimizer):
    def initialize(self, specs):
        return ()

    def next(self, state, weights, gradients):
        return state, tf.nest.map_structure(lambda x: x * float("nan"), weights)


class OtherValue(tff.aggregators.UnweightedAggregationFactory):
    def create(self, value_type):
        return tff.aggregators.SumFactory().create(tff.TensorType(tf.float32.as_numpy_dtype))


class FailsInRounds(tf.keras.Model):
    # An assertion guards the logits. It holds until the first update.
    def __init__(self, vocabulary_size):
        super().__init__()
        self.table = tf.keras.layers.Embedding(vocabulary_size, vocabulary_size, "zeros")
        self.bias = self.add_weight("bias", [vocabulary_size], initializer="zeros")

    def call(self, ids, training=None):
        with tf.control_dependencies([tf.debugging.assert_less(tf.abs(self.bias), 1e-9)]):
            return self.table(ids) + self.bias


class Late(tff.aggregators.WeightedAggregationFactory):
    def create(self, value_type, weight_type):
        raise KeyError("late")


def shuffles(model_fn, learning_rate: float = 0.5):
    inner = work(model_fn, learning_rate)
    state, weights, data = inner.next.type_signature.parameter

    @tff.tensorflow.computation(data.member)
    def shuffled(dataset):
        return dataset.shuffle(1000)

    @tff.federated_computation(state, weights, data)
    def next_fn(state, weights, data):
        return inner.next(state, weights, tff.federated_map(shuffled, data))

    return tff.learning.templates.ClientWorkProcess(inner.initialize, next_fn)


shuffles.keeps_sensitivity = True


def draws(inner):
    class Draws(tff.aggregators.WeightedAggregationFactory):
        def create(self, value_type, weight_type):
            process = inner.create(value_type, weight_type)

            @tff.tensorflow.computation(value_type)
            def noised(update):
                return tf.nest.map_structure(lambda x: x + tf.random.normal(x.shape), update)

            @tff.federated_computation(process.next.type_signature.parameter)
            def next_fn(state, value, weight):
                return process.next(state, tff.federated_map(noised, value), weight)

            return tff.templates.AggregationProcess(process.initialize, next_fn)

    return Draws()


draws.keeps_sensitivity = True
"""


@pytest.fixture(name="file")
def _file(tmp_path):
    part_reference._load.cache_clear()
    path = tmp_path / "mine.py"
    path.write_text(textwrap.dedent(SOURCE))
    return path


def weights(run):
    with np.load(RunDirectory(run).weights) as arrays:
        return dict(arrays)


def assert_same_weights(run, other):
    for name, values in weights(run).items():
        np.testing.assert_array_equal(values, weights(other)[name], err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize(
    "own, shipped",
    [
        (["aggregation.rule.type={}:mean"], ["aggregation.protection.type=off"]),
        (
            ["server={{type='{}:sgd', learning_rate=0.5}}"],
            ["server={type='fedavg', learning_rate=0.5}"],
        ),
    ],
    ids=["aggregator", "server optimizer"],
)
def test_own_part_equals_the_shipped_one(store, file, tmp_path, own, shipped):
    own = [override.format(file) for override in own]
    train_federated(tiny_config(store, "aggregation.protection.type=off", *own), tmp_path / "own")
    train_federated(
        tiny_config(store, "aggregation.protection.type=off", *shipped), tmp_path / "shipped"
    )
    assert_same_weights(tmp_path / "own", tmp_path / "shipped")
    ((key, source),) = RunDirectory(tmp_path / "own").own_parts().items()
    assert key in ("aggregation.rule.type", "server.type")
    assert source["reference"].startswith(f"{file}:")
    assert not (tmp_path / "shipped" / "own_parts.json").exists()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["fed_avg", "work"], ids=["learning process", "client work"])
def test_own_client_algorithm_trains(store, file, tmp_path, name):
    client = [f"client={{type='{file}:{name}', batch_size=4, max_examples=8}}"]
    shipped = "client={type='fedavg', batch_size=4, max_examples=8, gradient_clip_norm=0.0}"
    train_federated(tiny_config(store, *client), tmp_path / "own")
    train_federated(tiny_config(store, shipped), tmp_path / "shipped")
    for name, values in weights(tmp_path / "own").items():  # TFF's own loop adds in another order
        expected = weights(tmp_path / "shipped")[name]
        np.testing.assert_allclose(values, expected, rtol=1e-3, atol=1e-5, err_msg=name)


@pytest.mark.slow
def test_resumes_to_the_same_bits_and_refuses_another_source(store, file, tmp_path):
    own = [f"aggregation.rule.type={file}:plain_mean", "aggregation.client_weighting=uniform"]
    train_federated(tiny_config(store, *own), tmp_path / "whole")
    train_federated(tiny_config(store, *own, "train.rounds=2"), tmp_path / "parts")
    shutil.copytree(tmp_path / "parts", tmp_path / "changed")
    train_federated(tiny_config(store, *own), tmp_path / "parts")
    assert_same_weights(tmp_path / "whole", tmp_path / "parts")
    file.write_text(file.read_text() + "\n# another version\n")
    part_reference._load.cache_clear()
    with pytest.raises(RunDirectoryError, match=r"source of `aggregation.rule.type` = .* changed"):
        train_federated(tiny_config(store, *own), tmp_path / "changed")
    file.unlink()  # the run can still be read
    config = config_lib.load_of_run(RunDirectory(tmp_path / "whole").config_path)
    assert config.aggregation.rule.type == f"{file}:plain_mean"
    part_reference._load.cache_clear()
    assert cli.launch(evaluate_task, [str(tmp_path / "whole")]) == cli.OK


@pytest.mark.parametrize(
    "override, words",
    [
        ("aggregation.rule.type={}:raises", "line 40 raised ValueError: limit 3"),
        ("aggregation.rule.type={}:number", "must return a factory of `tff.aggregators`, got int"),
        ("aggregation.rule.type={}:Late", r"line \d+ raised KeyError: 'late'"),
        ("aggregation.rule.type={}:OtherResult", "must return an update of the type <float"),
        ("aggregation.rule.type={}:OtherValue", "must take an update of the type <float"),
        ("client.type={}:other_state", r"line \d+ raised TemplateStateNotAssignableError"),
        ("server.type={}:number", "must return a `tff.learning.optimizers.Optimizer`, got int"),
        ("client.type={}:growing_state", r"state with the type float32\[\?\]"),
        ("client.type={}:wrong_kind", "or `ClientWorkProcess`, got function"),
        ("client.type={}:raises", "`client.type` = .* raised ValueError"),
    ],
)
def test_bad_part_is_one_line_and_leaves_no_run(store, file, tmp_path, override, words):
    with pytest.raises(ConfigError, match=words) as error:
        train_federated(tiny_config(store, override.format(file)), tmp_path / "run")
    assert "\n" not in str(error.value)
    assert not (tmp_path / "run").exists()


def test_unknown_option_lists_the_options_alone(store, file):
    rule = f"aggregation.rule={{type='{file}:number_option', x=1}}"
    with pytest.raises(ConfigError, match=r"`aggregation.rule.x`. Known: `type`, `limit`\.$"):
        tiny_config(store, rule)


@pytest.mark.slow
def test_an_aggregator_with_a_global_norm_trains(store, file, tmp_path):
    # TensorFlow wants the parts of a global norm on the device of the update.
    config = tiny_config(
        store,
        f"aggregation.rule.type={file}:SameLength",
        "server={type='fedavg', learning_rate=1.0}",
        "train.rounds=1",
    )
    train_federated(config, tmp_path / "run")
    assert all(np.isfinite(values).all() for values in weights(tmp_path / "run").values())


@pytest.mark.slow
def test_a_model_that_fails_in_a_round_is_one_line(store, file, tmp_path):
    config = tiny_config(store, f"model={{type='{file}:FailsInRounds'}}")
    with pytest.raises(ConfigError, match=r"In a round with .*FailsInRounds.* assertion") as error:
        train_federated(config, tmp_path / "run")
    assert "\n" not in str(error.value)
    assert not RunDirectory(tmp_path / "run").model.exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("aggregation.rule={{type='{}:NanMean'}}", "but their aggregate was not. The likely cause"),
        ("server={{type='{}:NanOptimizer'}}", "weights of the model are NaN or infinite"),
        ("model={{type='{}:NanGradient'}}", "update of each client was NaN or infinite"),
    ],
)
def test_results_that_are_never_finite_end_with_exit_code_4(
    store, file, tmp_path, capsys, table, words
):
    table = table.format(file)
    arguments = [
        "--config=configs/demo.toml",
        f"--store={store}",
        f"--workdir={tmp_path / 'run'}",
        f"--set={table}",
        "--set=train.clients_per_round=3",
        "--set=train.rounds=2",
    ]
    assert cli.launch(train_task, arguments) == 4
    error = capsys.readouterr().err.splitlines()[-1]
    assert words in error
    assert f"`{table.split('=')[0]}.type` = '{file}:Nan" in error
    assert not RunDirectory(tmp_path / "run").model.exists()


def test_command_ends_with_exit_code_2(store, file, tmp_path, capsys):
    arguments = [
        "--config=configs/demo.toml",
        f"--store={store}",
        f"--workdir={tmp_path / 'run'}",
        f"--set=aggregation.rule.type={file}:raises",
        "--set=train.clients_per_round=3",
    ]
    assert cli.launch(train_task, arguments) == 2
    assert "raised ValueError: limit 3" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


PRIVATE = (
    "aggregation.client_weighting=uniform",
    "aggregation.privacy={type='gaussian', clip_norm=0.5, noise_multiplier=0.0}",
    "train.rounds=2",
)


@pytest.mark.slow
def test_declared_aggregator_gets_the_noise_and_a_statement(store, file, tmp_path):
    own = f"aggregation.rule.type={file}:around"
    train_federated(tiny_config(store, *PRIVATE, own), tmp_path / "own")
    train_federated(tiny_config(store, *PRIVATE), tmp_path / "shipped")
    assert_same_weights(tmp_path / "own", tmp_path / "shipped")
    noise = "aggregation.privacy.noise_multiplier=1.0"
    train_federated(tiny_config(store, *PRIVATE, own, noise), tmp_path / "noisy")
    text = privacy_statement(RunDirectory(tmp_path / "noisy").privacy_ledger)
    assert f"the user's own part, aggregation.rule.type = {file}:around, keeps" in text
    assert "NO CLAIM" not in text
    later = tiny_config(
        store, *PRIVATE, noise, f"model.initial_model={tmp_path / 'noisy'}", "train.rounds=1"
    )
    train_federated(later, tmp_path / "later")
    text = privacy_statement(RunDirectory(tmp_path / "later").privacy_ledger)
    assert f"own part of the earlier run {tmp_path / 'noisy'}, aggregation.rule.type" in text
    difference = weights(tmp_path / "noisy")["embedding"] - weights(tmp_path / "own")["embedding"]
    assert np.std(difference) > 0.01  # 1.0 x 0.5 / 3 clients in two rounds


@pytest.mark.slow
@pytest.mark.parametrize(
    ("part", "is_repeatable"),
    [
        ("aggregation.rule.type={}:around", True),
        ("aggregation.rule.type={}:draws", False),
        ("client={{type='{}:shuffles', batch_size=2, max_examples=8}}", False),
    ],
)
def test_a_round_that_is_repeated_with_another_sum_has_other_noise(
    store, file, tmp_path, part, is_repeatable
):
    """A run directory is restored from a backup that was made before its first round."""
    more = ["aggregation.privacy.noise_multiplier=1.0", "server={type='fedavg', learning_rate=1.0}"]
    config = tiny_config(store, *PRIVATE, part.format(file), *more, "train.rounds=1")
    train_federated(config, tmp_path / "first")
    first = RunDirectory(tmp_path / "first")
    again = tmp_path / "again"
    shutil.copytree(first.path, again)
    for name in ("checkpoints", "model", "tensorboard"):
        shutil.rmtree(again / name)
    for path in (*again.glob("*metrics*"), again / "timings.csv"):
        path.unlink()
    ledger_lines = first.privacy_ledger.read_text().splitlines(keepends=True)
    (again / "privacy_ledger.jsonl").write_text(ledger_lines[0])
    train_federated(config, again)
    difference = np.concatenate(
        [(values - weights(again)[name]).ravel() for name, values in weights(first.path).items()]
    )
    tags = [
        json.loads(RunDirectory(path).privacy_ledger.read_text().splitlines()[1])["content"]
        for path in (first.path, again)
    ]
    if is_repeatable:
        assert tags[0] == tags[1]
        assert not difference.any()
    else:
        assert tags[0] != tags[1]
        one_release = 1.0 * 0.5 / 3  # noise multiplier, clip norm, clients
        assert np.std(difference) == pytest.approx(2**0.5 * one_release, rel=0.15)


@pytest.mark.slow
def test_a_round_with_another_sum_is_not_released_after_a_kill(store, file, tmp_path):
    """Its line of the ledger is on disk, so another release would cost more."""
    noise = "aggregation.privacy.noise_multiplier=1.0"
    own = f"aggregation.rule.type={file}:draws"
    config = tiny_config(store, *PRIVATE, own, noise, "train.rounds=1")
    train_federated(config, tmp_path / "run")
    run = RunDirectory(tmp_path / "run")
    for directory in (run.checkpoints, run.model):
        shutil.rmtree(directory)
    run.metrics_jsonl.write_text("")
    with pytest.raises(RunDirectoryError, match="was released before with other data"):
        train_federated(config, run.path)


@pytest.mark.slow
def test_parts_of_the_page_train_together(store, tmp_path):
    part_reference._load.cache_clear()
    file = tmp_path / "my_parts.py"
    file.write_text(own_parts_page.code())
    config = tiny_config(
        store,
        f"aggregation.rule={{type='{file}:clipped_mean', norm=0.5}}",
        f"client={{type='{file}:fed_prox', batch_size=4, max_examples=8}}",
        "train.rounds=1",
    )
    row = train_federated(config, tmp_path / "run")
    assert row["tokens"] > 0
    assert {*RunDirectory(tmp_path / "run").own_parts()} == {"aggregation.rule.type", "client.type"}


@pytest.mark.slow
def test_noise_depends_on_the_source_of_a_part(store, file, tmp_path):
    """Runs of other code with the same nonce have other noise."""
    rule = f"aggregation.rule.type={file}:around"
    noise = [
        "aggregation.privacy.noise_multiplier=1.0",
        f"aggregation.privacy.fixed_nonce={'7' * 32}",
    ]
    run_config = tiny_config(store, *PRIVATE, rule, *noise, "train.rounds=1")
    keys = []
    for name in ("first", "same", "changed"):
        if name == "changed":
            file.write_text(file.read_text() + "\n# changed\n")
            part_reference._load.cache_clear()
        train_federated(run_config, tmp_path / name)
        header, _ = ledger.read_ledger(RunDirectory(tmp_path / name).privacy_ledger)
        keys.append(header.key_id)
    assert keys[0] == keys[1] != keys[2]
