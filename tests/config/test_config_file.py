"""TOML round trips, overrides, and what a person reads after a typo."""

import dataclasses
import pathlib
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tff_keyboard import config
from tff_keyboard.config.learning_config import ClientConfig, ServerConfig
from tff_keyboard.config.model_config import ModelConfig
from tff_keyboard.config.train_config import EvaluationConfig, ExecutionConfig, TrainConfig

POSITIVE = st.floats(1e-6, 1e6, allow_nan=False)
FRACTION = st.floats(0, 0.999)
COUNT = st.integers(1, 10**6)

RUNS = st.builds(
    config.RunConfig,
    model=st.one_of(
        st.just(ModelConfig()),
        st.builds(ModelConfig, name=st.just("gru"), units=COUNT, dropout=FRACTION),
    ),
    client=st.builds(ClientConfig, learning_rate=POSITIVE, momentum=FRACTION, batch_size=COUNT),
    server=st.builds(ServerConfig, optimizer=st.sampled_from(["sgd", "adam"]), epsilon=POSITIVE),
    train=st.builds(TrainConfig, rounds=COUNT, seed=COUNT, dropout_rate=FRACTION),
    evaluation=st.builds(EvaluationConfig, every=COUNT),
    execution=st.builds(ExecutionConfig, threads_per_worker=st.integers(0, 64)),
)


@settings(max_examples=60, deadline=None)
@given(RUNS)
def test_dump_and_loads_are_inverse(run):
    assert config.loads(config.dump(run)) == run


def test_empty_file_is_the_defaults():
    assert config.loads("") == config.RunConfig()


def test_overrides_apply_in_order_and_by_type():
    run = config.loads(
        "[train]\nrounds = 5\n",
        ["train.rounds=9", "client.learning_rate=2", "model.name=gru", "server.nesterov=false"],
    )
    assert run.train.rounds == 9
    assert run.client.learning_rate == 2.0
    assert isinstance(run.client.learning_rate, float)
    assert run.model.name == "gru"
    assert run.server.nesterov is False


@pytest.mark.parametrize(
    "text, overrides, words",
    [
        ("[train]\nclients_per_rond = 3", [], "Did you mean `train.clients_per_round`?"),
        ("[tran]\nrounds = 3", [], "Did you mean `train`?"),
        ("[train]\nrounds = 'many'", [], "`train.rounds` must be a whole number, got 'many'"),
        ("[train]\nrounds = true", [], "`train.rounds` must be a whole number"),
        ("[train]\nrounds = 0", [], "`train.rounds` must be >= 1, got 0"),
        ("[client]\nlearning_rate = nan", [], "`client.learning_rate` must be > 0"),
        ("train = 3", [], "`train` must be a section"),
        ("[train\n", [], "not valid TOML"),
        ("", ["train.rounds"], "must read `--set=section.key=value`"),
        ("", ["rounds=3"], "must read `--set=section.key=value`"),
        ("[model]\nname = 'cifg'\ntied = false", [], "`model.tied` must be true for 'cifg'"),
        ("[client]\nepochs = 2\n[train]\nalgorithm = 'fedsgd'", [], "FedSGD"),
    ],
)
def test_a_mistake_is_one_line_naming_the_way_out(text, overrides, words):
    with pytest.raises(config.ConfigError) as error:
        config.loads(text, overrides)
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_missing_file_is_named(tmp_path):
    with pytest.raises(config.ConfigError, match=r"nothing\.toml"):
        config.load(tmp_path / "nothing.toml")


def test_sections_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.RunConfig().train.rounds = 3


@pytest.mark.parametrize("path", sorted(pathlib.Path("configs").rglob("*.toml")), ids=str)
def test_every_shipped_config_loads(path):
    run = config.load(path)
    assert config.loads(config.dump(run)) == run


def test_reading_a_config_imports_no_tensorflow():
    code = (
        "import sys; from tff_keyboard import config; config.loads('');"
        "assert not {'tensorflow', 'tensorflow_federated'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
