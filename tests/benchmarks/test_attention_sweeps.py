"""The papers' sweeps: NumPy's rules are the factories', what a training does and says of itself."""

import dataclasses
import json

import numpy as np
import pytest

from benchmarks import (
    attention_files,
    attention_picture,
    attention_rules,
    attention_settings,
    attention_sweeps,
    attention_table,
)
from benchmarks import log_bilinear as model
from benchmarks.attention_progress import is_flat
from benchmarks.attention_rules import Rule
from tests.aggregation_fakes import VALUE_TYPE, assert_close, deltas, in_float64, one_round
from tff_keyboard.aggregation.layers import Layer
from tff_keyboard.algorithms.fedatt.aggregator import FedAttFactory
from tff_keyboard.algorithms.fedmed.aggregator import FedMedFactory
from tff_keyboard.algorithms.fedmed.client_weight import fedmed_weight_type
from tff_keyboard.algorithms.fedmed.js_divergence import js_divergences
from tff_keyboard.config.rule_config import FedAtt, FedMed
from tff_keyboard.data.vocabulary import BOS, EOS, OOV

CLIENTS = 5
LOSSES = [3.0, 1.0, 2.0, 5.0, 4.0]
RNG = np.random.default_rng(0)


def step(rule, values, loss_before=None, words=(1.0,) * CLIENTS, server=None):
    server = in_float64([server or deltas(0, 1)[0]])[0]
    return attention_rules.step(rule, server, in_float64(values), words, LOSSES, loss_before, RNG)


@pytest.mark.parametrize("norm", ["2", "spectral"])
@pytest.mark.parametrize("temperature", [1.0, 0.1])
def test_fedatt_is_the_factorys(norm, temperature):
    import tensorflow_federated as tff

    values = deltas(1, CLIENTS)
    process = FedAttFactory(FedAtt(norm=norm, temperature=temperature)).create(
        VALUE_TYPE, tff.TensorType(np.float32)
    )
    output = one_round(process, values, [1.0] * CLIENTS)
    found = step(Rule(name="fedatt", epsilon=0.7, norm=norm, temperature=temperature), values)
    assert_close(found.deltas, [0.7 * np.asarray(x, np.float64) for x in output.result])
    assert 1 < found.effective_clients < CLIENTS


@pytest.mark.parametrize("loss_before", [None, 3.05])  # their mean is 3.0
@pytest.mark.parametrize("top", [1.0, 0.5])
def test_fedmed_is_the_factorys(loss_before, top):
    server, values = deltas(0, 1)[0], deltas(1, CLIENTS, scale=0.3)
    server[1] = np.zeros_like(server[1])  # a bias at the start
    layers = [Layer(str(i), (i,)) for i in range(3)]
    claims = [
        {
            "num_examples": np.float32(1),
            "loss": np.float32(loss),
            "divergence": js_divergences(
                server, [s + d for s, d in zip(server, value, strict=True)], layers
            ).numpy(),
        }
        for loss, value in zip(LOSSES, values, strict=True)
    ]
    factory = FedMedFactory(FedMed(top_fraction=top), max_clients=CLIENTS)
    process = factory.create(VALUE_TYPE, fedmed_weight_type(3))
    state = None
    if loss_before is not None:
        before = [{**claim, "loss": np.float32(loss_before)} for claim in claims]
        state = one_round(process, values, before).state
    output = one_round(process, values, claims, state)
    found = step(Rule(name="fedmed", epsilon=1.0, top=top), values, loss_before, server=server)
    assert found.adaptive == (loss_before is None) == bool(output.measurements["adaptive"])
    assert_close(found.deltas, [np.asarray(x, np.float64) for x in output.result], rtol=1e-4)


def test_the_control_and_fedavg_are_means():
    values = in_float64(deltas(1, CLIENTS))
    words = [1.0, 2.0, 3.0, 4.0, 10.0]
    for name, shares, size in (
        ("fedavg_epsilon", np.full(CLIENTS, 0.2), 1.5),
        ("fedavg", np.array(words) / 20, 1.0),
    ):
        found = step(Rule(name=name, epsilon=1.5), values, words=words)
        expected = [
            size * sum(s * v[i] for s, v in zip(shares, values, strict=True)) for i in range(3)
        ]
        assert_close(found.deltas, expected)


def test_noise_is_the_clients_and_of_its_scale():
    still = [[np.zeros([300, 40])] for _ in range(4)]
    rule = Rule(name="fedavg_epsilon", epsilon=1.0, noise=0.1)
    found = attention_rules.step(rule, still[0], still, [1] * 4, [0] * 4, None, RNG)
    assert found.deltas[0].std() == pytest.approx(0.05, rel=0.03)  # of a mean of four


@pytest.fixture
def data():
    """Words that repeat in a cycle: there is something to learn."""

    def text(length, start):
        ids = 4 + (np.arange(length) + start) % 6
        return model.positions([ids], 10, most=10**6)

    people = [text(40 + 5 * i, i) for i in range(10)]
    return attention_sweeps.Data(people, text(60, 2), [text(30, 1), text(20, 4)], 10)


SMALL = attention_sweeps.Setting(
    rule=attention_sweeps.CONTROL, share=0.3, epochs=2, dim=6, rounds=60
)


def test_a_training_learns_ends_and_is_its_seeds(data):
    found = attention_sweeps.train(SMALL, 1, data)
    assert min(found["curve"]) < 0.7 * found["curve"][0]
    assert found["best_round"] == 1 + int(np.argmin(found["curve"]))
    assert is_flat(found["curve"]) or len(found["curve"]) == 60
    assert not is_flat(found["curve"][:-1])
    assert found["clients"] == 3
    again = attention_sweeps.train(SMALL, 1, data)
    assert {**again, "cpu_seconds": 0} == {**found, "cpu_seconds": 0}
    assert attention_sweeps.train(SMALL, 2, data)["curve"] != found["curve"]


def test_names_tell_settings_apart():
    names = [setting.name for setting in attention_sweeps.all_settings()]
    assert len(set(names)) == len(names)
    assert names[0] == "fedavg_epsilon"
    assert "fedmed,top=0.5" in names
    assert "fedatt,epochs=10" in names
    assert {"fedavg_epsilon,dim=64,tied=False", "fedatt,dim=16,tied=False"} <= set(names)
    controls = {n.partition(",")[2] for n in names if n.startswith("fedavg_epsilon")}
    swept = {key for point in attention_sweeps.points() for key in point}
    for name in names:
        point = ",".join(w for w in name.split(",")[1:] if w.partition("=")[0] in swept)
        if not name.startswith("fedsgd"):
            assert point in controls, name


def test_the_published_loader_leaves_the_words_at_one_place():
    text = [np.array([4, 5, 6]), np.array([7]), np.array([8, 9, 99])]
    found = attention_sweeps.positions_as_published(text, 10, batch=3)
    order = np.random.default_rng(0).permutation(3)
    lines = [[BOS, *(w if w < 10 else OOV for w in text[i]), EOS] for i in order]
    columns = [[line[place] for line in lines] for place in range(3)]  # the shortest has three
    assert found.targets.tolist() == [word for column in columns for word in column[1:]]
    assert found.contexts.tolist() == [
        pair for a, b, _ in columns for pair in ([a, BOS], [b, a])
    ]  # the last word first
    alone = attention_sweeps.positions_as_published(text, 10, batch=1)
    assert len(alone) == 0  # a batch of one has nothing behind its first word
    assert alone.contexts.shape == (0, 2)


def test_no_curve_is_flat_before_the_fewest_rounds(data):
    ended = len(attention_sweeps.train(SMALL, 1, data)["curve"])
    longer = attention_sweeps.train(SMALL, 1, data, fewest_rounds=ended + 3)["curve"]
    assert ended + 3 <= len(longer) <= SMALL.rounds


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # overflows are what it is about
def test_one_that_diverges_ends_at_once_and_is_judged_before(data):
    found = attention_sweeps.train(dataclasses.replace(SMALL, rate=1e30), 1, data)
    assert len(found["curve"]) < 5
    assert not np.isfinite(found["curve"][-1])
    assert np.all(np.isfinite(found["nats"]))
    (row,) = attention_table.rows_of([found])
    assert not row["flat"]


def test_fedsgd_is_one_cut_gradient_a_client_weighted_by_words(monkeypatch):
    rng = np.random.default_rng(1)
    text = [rng.integers(4, 10, length) for length in (5, 40, 300)]  # the last: three batches
    people = [model.positions([ids], 10, most=10**6) for ids in (np.full(8, 5), *text)]
    start = [0.3 * rng.normal(size=w.shape) for w in model.initial_weights(10, 6, 1)]
    monkeypatch.setattr(
        model, "initial_weights", lambda *_, **__: [w.astype(np.float32) for w in start]
    )
    setting = dataclasses.replace(
        attention_settings.usual("fedsgd"), share=1.0, dim=6, rate=0.5, rounds=1
    )
    gradients = [model.gradient(start, own)[0] for own in people]
    norms = [np.sqrt(sum(np.sum(g**2) for g in each)) for each in gradients]
    assert min(norms) < 0.9 < 1.1 < max(norms)  # one is cut, one is not
    words = np.array([9.0, 6.0, 41.0, 301.0])
    shares = words / words.sum() / np.maximum(norms, 1.0)
    expected = [
        w - 0.5 * sum(s * each[i] for s, each in zip(shares, gradients, strict=True))
        for i, w in enumerate(start)
    ]
    seen = []
    monkeypatch.setattr(attention_sweeps, "nats", lambda weights, _: seen.append(weights) or 1.0)
    found = attention_sweeps.train(
        setting, 1, attention_sweeps.Data(people, people[0], people[:1], 10)
    )
    assert found["best_round"] == 1
    assert found["tokens"] == words.sum()
    assert_close(seen[0], expected, rtol=1e-5)


def test_words_trained_on_are_those_of_each_epoch(data, monkeypatch):
    seen = []
    inner = model.train

    def spy(weights, text, **options):
        seen.append(len(text) * options["epochs"])
        return inner(weights, text, **options)

    monkeypatch.setattr(model, "train", spy)
    found = attention_sweeps.train(SMALL, 1, data)
    assert len(seen) == 3 * len(found["curve"])
    assert found["tokens"] == sum(seen)
    other = dataclasses.replace(data, held_out=data.held_out[:1])
    with pytest.raises(ValueError, match="--store"):
        attention_sweeps.tokens_of(found, other)


def test_a_training_and_the_rows_say_where_they_are_from(data, monkeypatch, tmp_path):
    monkeypatch.setattr(attention_sweeps, "all_settings", lambda: [SMALL])
    monkeypatch.setattr(attention_sweeps, "read_data", lambda *_, **__: data)
    monkeypatch.setattr(attention_sweeps, "commit", lambda: "abc1234")
    monkeypatch.setattr(attention_sweeps, "_today", lambda: "2026-01-31")
    out = tmp_path / "sweeps.json"
    flags = [f"--workdir={tmp_path / 'trainings'}", f"--out={out}"]

    def written(*more):
        attention_sweeps.main([*flags, *more])
        return json.loads(out.read_text())

    found = written("--store=a b", "--seeds=2")
    (row,) = attention_table.read_rows(out)
    assert found.pop("rows") == [row]
    assert found.pop("at_best_rate") == []  # one rate
    assert found.pop("machine")["cpus"] >= 1
    assert found.pop("command").endswith(f"--out={out} '--store=a b' --seeds=2")
    assert found == {"commit": "abc1234", "date": "2026-01-31", "store": "a b"}
    assert row["commits"] == ["abc1234", "abc1234"]
    assert row["dates"] == ["2026-01-31", "2026-01-31"]
    assert min(row["tokens"]) > 0

    old = tmp_path / "trainings" / f"{SMALL.name}_seed1.json"
    training = json.loads(old.read_text())
    assert training.pop("commit") == "abc1234"
    del training["date"], training["tokens"]
    old.write_text(json.dumps(training))
    found = written("--table")
    assert found["store"] is None
    assert found["rows"][0]["commits"] == [None, "abc1234"]
    assert found["rows"][0]["dates"] == [None, "2026-01-31"]
    assert found["rows"][0]["tokens"] == [None, row["tokens"][1]]
    assert written("--table", "--store=s")["rows"][0]["tokens"] == row["tokens"]
    assert json.loads(old.read_text()) == training  # only its row is completed
    with pytest.raises(SystemExit):
        attention_sweeps.main(flags)


def test_one_that_ended_sooner_than_asked_is_trained_anew(data, monkeypatch, tmp_path):
    monkeypatch.setattr(attention_sweeps, "all_settings", lambda: [SMALL])
    monkeypatch.setattr(attention_sweeps, "read_data", lambda *_, **__: data)
    out = tmp_path / "sweeps.json"
    trainings = tmp_path / "trainings"

    def row(*more):
        attention_sweeps.main(
            ["--store=s", "--seeds=1", f"--workdir={trainings}", f"--out={out}", *more]
        )
        return attention_table.read_rows(out)[0]

    short = row()
    (file,) = trainings.iterdir()
    of_before = json.loads(file.read_text())
    del of_before["fewest_rounds"]  # as older versions wrote it
    file.write_text(json.dumps(of_before))
    usual, ended = short["fewest_rounds"][0], short["rounds_trained"][0]
    assert row()["fewest_rounds"] == [usual]
    longer = row(f"--fewest-rounds={ended + 3}")
    assert longer["fewest_rounds"] == [ended + 3] <= longer["rounds_trained"]
    monkeypatch.setattr(attention_sweeps, "train", None)  # would fail
    assert row() == longer


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda file: file["setting"].update(patience=6), "has 'patience'"),
        (lambda file: file["setting"].pop("tied"), "lacks 'tied'"),
        (lambda file: file["setting"]["rule"].pop("top"), "lacks 'top'"),
        (lambda file: file.pop("setting"), "no training"),
    ],
)
def test_a_file_of_another_version_is_refused(data, monkeypatch, tmp_path, capsys, change, message):
    monkeypatch.setattr(attention_sweeps, "read_data", lambda *_, **__: pytest.fail("too late"))
    found = json.loads(json.dumps(attention_sweeps.train(SMALL, 1, data)))
    path = tmp_path / "fedavg_epsilon_seed1.json"
    path.write_text(json.dumps(found))
    assert attention_files.read_trainings(tmp_path) == [found]

    change(found)
    path.write_text(json.dumps(found))
    out = tmp_path / "written"
    for main, flags in (
        (attention_sweeps.main, ["--store=s", f"--workdir={tmp_path}"]),
        (attention_picture.main, [f"IID={tmp_path}"]),
    ):
        with pytest.raises(SystemExit):
            main([*flags, f"--out={out}"])
        (line,) = [line for line in capsys.readouterr().err.splitlines() if "error:" in line]
        assert str(path) in line
        assert message in line
        assert not out.exists()


@pytest.mark.parametrize("is_tied", [True, False])
def test_the_models_gradient_is_that_of_its_loss(is_tied):
    weights = [
        w.astype(np.float64) + RNG.normal(size=w.shape)
        for w in model.initial_weights(9, 3, 1, is_tied=is_tied)
    ]
    batch = model.Positions(RNG.integers(0, 9, [5, 2]), RNG.integers(0, 9, 5))
    gradients, loss = model.gradient(weights, batch)
    assert loss == pytest.approx(model.loss_of(weights, batch) / 5)
    assert len(gradients) == len(weights) == (4 if is_tied else 5)
    for tensor, gradient in zip(weights, gradients, strict=True):
        assert gradient.shape == tensor.shape
        for place in np.ndindex(tensor.shape):
            before = tensor[place]
            ends = []
            for step in (1e-5, -1e-5):
                tensor[place] = before + step
                ends.append(model.loss_of(weights, batch) / 5)
            tensor[place] = before
            assert gradient[place] == pytest.approx((ends[0] - ends[1]) / 2e-5, abs=1e-8)


def test_an_untied_training_is_a_point_of_the_sweeps(data):
    untied = dataclasses.replace(SMALL, tied=False)
    found = attention_sweeps.train(untied, 1, data)
    assert min(found["curve"]) < 0.7 * found["curve"][0]
    tied = attention_sweeps.train(SMALL, 1, data)
    assert found["parameters"] == tied["parameters"] + 10 * 6
    rows = attention_table.rows_of([found, tied])
    assert [row["setting"]["tied"] for row in rows] == [True, False]
    assert "untied" in rows[1]["label"]
