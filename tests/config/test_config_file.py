"""TOML round trips, overrides, and error messages after a typo."""

import dataclasses
import functools
import itertools
import pathlib
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import shipped_configs
from tests.support.examples import examples
from tff_keyboard import config
from tff_keyboard.aggregators.registry.fedatt import FedAttConfig
from tff_keyboard.aggregators.registry.fedmed import FedMedConfig
from tff_keyboard.aggregators.registry.mean import MeanConfig
from tff_keyboard.algorithms.optimizers.registry.fedadam import FedAdam
from tff_keyboard.algorithms.optimizers.registry.fedavgm import FedAvgM
from tff_keyboard.algorithms.registry.fedavg import FedAvgClient
from tff_keyboard.config.resume_policy import numerics_config
from tff_keyboard.config.sections.aggregation_config import (
    AggregationConfig,
    AutoProtection,
    NoClipping,
)
from tff_keyboard.config.sections.central_config import CentralAdam
from tff_keyboard.config.sections.execution_config import ExecutionConfig
from tff_keyboard.config.sections.fine_tuning_config import AveragingConfig
from tff_keyboard.config.sections.train_config import EvaluationConfig, TrainConfig
from tff_keyboard.models.registry.cifg import CifgConfig
from tff_keyboard.models.registry.gru import GruConfig
from tff_keyboard.parts.renamed_keys import RENAMED_KEYS
from tff_keyboard.parts.schedule import Cosine

POSITIVE = st.floats(1e-6, 1e6, allow_nan=False)
FRACTION = st.floats(0, 0.999)
COUNT = st.integers(1, 10**6)

RUNS = st.builds(
    config.RunConfig,
    model=st.one_of(st.just(CifgConfig()), st.builds(GruConfig, units=COUNT, dropout=FRACTION)),
    client=st.builds(FedAvgClient, learning_rate=POSITIVE, momentum=FRACTION, batch_size=COUNT),
    server=st.one_of(
        st.builds(FedAvgM, learning_rate=POSITIVE, momentum=FRACTION, nesterov=st.booleans()),
        st.builds(FedAdam, epsilon=POSITIVE),
    ),
    aggregation=st.builds(
        AggregationConfig,
        rule=st.one_of(
            st.builds(
                FedAttConfig, temperature=POSITIVE, layer_groups=st.just({"all": ["0", "1"]})
            ),
            st.builds(FedMedConfig, top_fraction=st.floats(0.01, 1)),
            st.just(MeanConfig()),
        ),
        protection=st.sampled_from([AutoProtection(), NoClipping(zeroing=True)]),
    ),
    train=st.builds(TrainConfig, rounds=COUNT, seed=COUNT, dropout_rate=FRACTION),
    evaluation=st.builds(EvaluationConfig, every=COUNT),
    execution=st.builds(ExecutionConfig, threads=st.integers(0, 64)),
)


@examples(60)
@given(RUNS)
def test_dump_and_loads_are_inverse(run):
    assert config.loads(config.dump(run)) == run


def test_empty_file_is_the_defaults():
    assert config.loads("") == config.RunConfig()


def test_overrides_are_typed_and_the_last_one_counts():
    run = config.loads(
        "[train]\nrounds = 5\n",
        [
            "train.rounds=9",
            "client.learning_rate=2",
            "model.type=gru",
            "server.nesterov=false",
            "aggregation.rule.temperature=3",
            "train.rounds=8",
            "aggregation.rule.type=fedatt",
        ],
    )
    assert run.train.rounds == 8
    table = config.loads("", ['aggregation={rule={type="fedatt"}}', "aggregation.rule.norm='1'"])
    assert table.aggregation.rule == FedAttConfig(norm="1")
    assert run.aggregation.rule == FedAttConfig(temperature=3.0)  # in either order
    assert run.client.learning_rate == 2.0
    assert isinstance(run.client.learning_rate, float)
    assert run.model.type == "gru"
    assert run.server.nesterov is False


@pytest.mark.parametrize(
    "text, overrides, words",
    [
        ("[train]\nclients_per_rond = 3", [], "Did you mean `train.clients_per_round`?"),
        ("[tran]\nrounds = 3", [], "Did you mean `train`?"),
        ("[train]\nrounds = 'many'", [], "`train.rounds` must be a whole number, got 'many'"),
        ("[train]\nrounds = true", [], "`train.rounds` must be a whole number"),
        ("[train]\nrounds = 0", [], "`train.rounds` must be >= 1, got 0"),
        ("[client]\nlearning_rate = nan", [], "`client.learning_rate` must be finite"),
        ("train = 3", [], "`train` must be a section"),
        ("[train\n", [], "not valid TOML"),
        ("", ["train.rounds"], "must have the form `--set=section.key=value`"),
        ("", ["rounds=3"], "`--set=section.key=value`. Did you mean train.rounds?"),
        ("", ["nothing=3"], "must have the form `--set=section.key=value`."),
        ("", ["model.type=[1]"], "`model.type` must be one of 'cifg'"),
        ("", ["server.type=[]"], "`server.type` must be one of"),
        ('[server]\ntype = ["fedadam"]', ["server.momentum=0.1"], "must be one of"),
        ("", ["fine_tuning.method.type={a=1}"], "`fine_tuning.method.type` must be one of"),
        ("", ["client.learning_rate=1e400"], "`client.learning_rate` must be finite, got inf"),
        ("[model]\ntype = 'cifg'\ntied = false", [], "it belongs to 'gru' or 'lstm2'"),
        (
            "[client]\nepochs = 2\ntype = 'fedsgd'",
            [],
            "`client.epochs` has no effect with `client.type` = 'fedsgd'",
        ),
        (
            "[aggregation]\nclient_weighting = 'uniform'\n[client]\ntype = 'fedsgd'",
            [],
            "the federated gradient is a mean over tokens",
        ),
        (
            "[aggregation.rule]\ntype = 'fedmed'\n[client]\ntype = 'fedsgd'",
            [],
            "requires local training losses",
        ),
        ("", ["train.rounds=3", "train.rounds.x=3"], "`rounds` is not a section"),
        ("base = 'x.toml'", [], "`base` is relative to a file"),
    ],
)
def test_error_is_one_line_with_the_way_out(text, overrides, words):
    with pytest.raises(config.ConfigError) as error:
        config.loads(text, overrides)
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_error_names_the_invalid_override():
    text = '[server]\ntype = "fedadam"'
    for overrides, origin in (
        (["train.rounds=abc"], "--set=train.rounds=abc: `train.rounds` must be"),
        (["train.seed=2", "train.rouns=3", "train.rounds=4"], "--set=train.rouns=3: Unknown key"),
        (["train.rounds=abc", "train.seed=x"], "here: `train."),  # no single override is the cause
    ):
        with pytest.raises(config.ConfigError) as error:
            config.loads(text, overrides, origin="here")
        assert str(error.value).startswith(origin)
    with pytest.raises(config.ConfigError, match=r"^here: Unknown key `train\.x`"):
        config.loads("[train]\nx = 3", ["train.rounds=4"], origin="here")


def test_config_of_a_run_may_be_from_another_version(tmp_path):
    path = tmp_path / "config.toml"
    path.write_text("[future]\nx = 1\n")
    for read in (config.load_of_run, lambda at: config.of_this_version(at.read_text(), str(at))):
        with pytest.raises(config.ConfigError, match=rf"^{path}: .*another version wrote it\. Use"):
            read(path)
    path.write_text("[train]\nseed = 3\n")
    separate = "execution.first_step=separate"  # as in versions before the key
    expected = config.load(path, ["train.rounds=7", separate])
    assert config.load_of_run(path, ["train.rounds=7"]) == expected
    assert config.of_this_version(path.read_text(), "") == config.dump(
        config.load(path, [separate])
    )
    with pytest.raises(config.ConfigError) as error:
        config.load_of_run(path, ["train.rounds=0"])
    assert "version" not in str(error.value)


def test_recorded_config_may_have_the_old_names_of_keys(tmp_path):
    path = tmp_path / "config.toml"
    path.write_text(
        "[data]\nvocabulary_words_per_person = 7\n[server.schedule]\nname = 'cosine'\n"
        "[fine_tuning.server]\nname = 'averaging'\n"
    )
    read = config.load_of_run(path)
    assert read.fine_tuning.server == AveragingConfig()
    assert read.data.vocabulary_words_per_client == 7
    assert isinstance(read.server.schedule, Cosine)
    assert config.of_this_version(path.read_text(), "") == config.dump(read)
    for text in ("data = 3", "[data]\nvocabulary_words_per_person = 'x'"):
        path.write_text(text)
        with pytest.raises(config.ConfigError, match="another version wrote it"):
            config.load_of_run(path)


@pytest.mark.parametrize(("make", "says"), [("mkdir", "Is a directory"), ("touch", "not UTF-8")])
def test_unreadable_file_is_reported(tmp_path, make, says):
    path = tmp_path / "c.toml"
    getattr(path, make)()
    if path.is_file():
        path.write_bytes(b"\xff")
    with pytest.raises(config.ConfigError, match=f"{path}: {says}"):
        config.load(path)


def test_missing_file_is_named(tmp_path):
    with pytest.raises(config.ConfigError, match=r"nothing\.toml"):
        config.load(tmp_path / "nothing.toml")


def written(folder, **files):
    for name, text in files.items():
        (folder / f"{name}.toml").write_text(text)
    return folder


def test_a_shipped_config_is_found_from_anywhere(tmp_path, monkeypatch):
    here = pathlib.Path(__file__).parents[2]
    expected = config.load(here / "configs" / "nus_sms.toml")
    monkeypatch.chdir(tmp_path)
    assert config.load("configs/nus_sms.toml") == expected
    own = tmp_path / "configs" / "nus_sms.toml"
    own.parent.mkdir()
    own.write_text("train = {rounds = 3}")  # a local file takes precedence
    assert config.load("configs/nus_sms.toml").train.rounds == 3


def test_file_inherits_from_its_base(tmp_path):
    (tmp_path / "inner").mkdir()
    written(tmp_path, ground="[train]\nrounds = 7\nseed = 3\n[server]\nlearning_rate = 0.5\n")
    written(tmp_path / "inner", middle='base = "../ground.toml"\n[train]\nrounds = 8\n')
    written(tmp_path, top='base = "inner/middle.toml"\n[train]\nclients_per_round = 4\n')
    run = config.load(tmp_path / "top.toml", ["train.seed=5"])
    train = run.train
    assert (train.rounds, train.seed, train.clients_per_round) == (8, 5, 4)
    assert run.server == FedAvgM(learning_rate=0.5)
    assert config.loads(config.dump(run)) == run


def test_another_optimizer_does_not_inherit_the_rate_of_the_bases(tmp_path):
    written(tmp_path, ground="[server]\nlearning_rate = 0.5\n")
    written(tmp_path, top='base = "ground.toml"\n[server]\ntype = "fedadam"\n')
    assert config.load(tmp_path / "top.toml").server == FedAdam()
    assert config.load(tmp_path / "ground.toml", ["server.type=fedadam"]).server == FedAdam()


@pytest.mark.parametrize(
    "files, words",
    [
        ({"top": 'base = "gone.toml"'}, "top.toml: there is no file at `base`"),
        ({"top": 'base = "top.toml"'}, "`base` forms a circle"),
        ({"top": 'base = "other.toml"', "other": 'base = "top.toml"'}, "`base` forms a circle"),
        ({"top": "base = 3"}, "`base` must name a file, got 3"),
        ({"top": 'base = "other.toml"', "other": "[train"}, "other.toml: not valid TOML"),
        (
            {"top": 'base = "other.toml"', "other": "[train]\nround = 1"},
            "Unknown key `train.round`",
        ),
        (
            {"top": 'base = "other.toml"', "other": "[aggregation]\ndp = 'gaussian'"},
            "Unknown key `aggregation.dp`",
        ),
    ],
)
def test_a_bad_base_is_one_line(tmp_path, files, words):
    written(tmp_path, **files)
    with pytest.raises(config.ConfigError) as error:
        config.load(tmp_path / "top.toml")
    assert words in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        ("[aggregation.rule]\nname = 'fedatt'", "aggregation.rule.name", "aggregation.rule.type"),
        (
            "[aggregation.privacy]\nnoise_multiplier = 1.0\nmechanism = 'blt'",
            "aggregation.privacy.mechanism",
            "aggregation.privacy.type",
        ),
        ("[train]\ncheck_in = 'by_text'", "train.check_in", "train.client_sampling"),
    ],
)
def test_an_old_key_is_told_its_new_name(text, old, new):
    with pytest.raises(config.ConfigError, match=rf"`{old}`\. It is called `{new}` now"):
        config.loads(text)


def test_renamed_keys_exist():
    run = config.RunConfig(central=CentralAdam())
    defaults = config.to_dict(run)
    for old, new in RENAMED_KEYS.items():
        *tables, key = new.split(".")
        table = functools.reduce(dict.__getitem__, tables, defaults)
        assert key in table, new
        assert old.rpartition(".")[2] not in table, old


def test_sections_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.RunConfig().train.rounds = 3


@pytest.mark.parametrize("path", shipped_configs.CONFIGS, ids=str)
def test_every_shipped_config_loads(path):
    run = config.load(path)
    assert config.loads(config.dump(run)) == run


@pytest.mark.parametrize("path", [*shipped_configs.CONFIGS, *shipped_configs.STUDIES], ids=str)
def test_shipped_config_begins_with_description_and_command(path):
    lines = path.read_text().splitlines()
    head = list(itertools.takewhile(lambda line: line.startswith("#"), lines))
    assert 2 <= len(head) <= 3
    assert "tff-keyboard" in head[-1]
    for word in " ".join(line for line in lines if line.startswith("#")).split():
        if word.startswith("--config="):
            assert pathlib.Path(word.removeprefix("--config=")).exists(), word


def test_reading_a_config_imports_no_tensorflow():
    code = (
        "import sys; from tff_keyboard import config; config.loads('');"
        "assert not {'tensorflow', 'tensorflow_federated', 'numpy', 'scipy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_override_accepts_any_path():
    for path in ("data/sms", "data/\U0001f600 \u00fc", 'data/"quoted"\\x'):
        assert config.load(None, [config.override("data.store", path)]).data.store == path


@pytest.mark.parametrize("name", ["run/evil.py", "code/evil.py", "/proc/self/cwd/code/evil.py"])
def test_a_run_directory_brings_no_code(tmp_path, monkeypatch, name):
    """Reading the config of another person's run does not run code that only it names."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "run" / "config.toml"
    path.parent.mkdir()
    evil = tmp_path / name.removeprefix("/proc/self/cwd/")
    evil.parent.mkdir(exist_ok=True)
    evil.write_text("raise AssertionError('this must not run')")
    for type_text in (f"{name}:f", f"{evil}:f"):
        path.write_text(f'[aggregation.rule]\ntype = "{type_text}"\n')
        read = config.load_of_run(path)
        assert "no code is run" in read.aggregation.rule.problem


@pytest.mark.parametrize(
    ("overrides", "model"),
    [
        ([], {"type": "cifg"}),
        (["model.units=9"], {"type": "cifg", "units": 9}),
        (["model.type=gru"], {"type": "gru"}),
        (["model.type=lstm2", "model.tied=true"], {"type": "lstm2", "tied": True}),
    ],
)
def test_runs_of_version_0_2_0_keep_their_noise_key(overrides, model):
    """They did not record sizes that were not set. The facts of the noise key must be equal."""
    facts = numerics_config(config.to_dict(config.loads("", overrides)))
    rates = {"cifg": {"embedding_dropout": 0.0, "output_dropout": 0.0}}
    others = rates.get(model["type"], {"dropout": 0.0})
    assert facts["model"] == {**model, **others, "initial_model": ""}
