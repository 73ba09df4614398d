"""The papers' sweeps: NumPy's rules are the factories', a training ends, what the table may say."""

import dataclasses
import json

import numpy as np
import pytest

from benchmarks import (
    attention_picture,
    attention_rules,
    attention_sweeps,
    attention_table,
    sweep_table,
)
from benchmarks import log_bilinear as model
from benchmarks.attention_rules import Rule
from tests.aggregation_fakes import VALUE_TYPE, assert_close, deltas, in_float64, one_round
from tff_keyboard.aggregation.layers import Layer
from tff_keyboard.algorithms.fedatt.aggregator import FedAttFactory
from tff_keyboard.algorithms.fedmed.aggregator import FedMedFactory
from tff_keyboard.algorithms.fedmed.client_weight import fedmed_weight_type
from tff_keyboard.algorithms.fedmed.js_divergence import js_divergences
from tff_keyboard.config.rule_config import FedAtt, FedMed

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
    rule=attention_sweeps.CONTROL, share=0.3, epochs=2, dim=6, rounds=40, patience=3
)


def test_a_training_learns_ends_and_is_its_seeds(data):
    found = attention_sweeps.train(SMALL, 1, data)
    assert min(found["curve"]) < 0.7 * found["curve"][0]
    assert found["best_round"] == 1 + int(np.argmin(found["curve"]))
    assert not found["ended"] or len(found["curve"]) == found["best_round"] + 3
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
    controls = {n.partition(",")[2] for n in names if n.startswith("fedavg_epsilon")}
    swept = {key for key in attention_sweeps.SWEEPS}
    for name in names:
        point = ",".join(w for w in name.split(",")[1:] if w.partition("=")[0] in swept)
        if not name.startswith("fedsgd"):
            assert point in controls, name


def training(setting, seed, nats, best_round=4):
    return {
        **{"setting": dataclasses.asdict(setting), "seed": seed, "best_round": best_round},
        **{"ended": True, "adaptive_rounds": 0.25, "effective_clients": 9.5, "clients": 10},
        **{"nats": nats, "words": [100, 100, 100], "parameters": 250_000, "curve": [2.0]},
    }


def test_the_table_compares_at_the_same_setting():
    base = attention_sweeps.Setting(rule=attention_sweeps.CONTROL)
    at = attention_sweeps.changed
    half = at(dataclasses.replace(base, rule=attention_sweeps.FEDMED), "top", 0.5)
    fedatt = dataclasses.replace(base, rule=attention_sweeps.FEDATT)
    trainings = []
    for seed in (1, 2, 3):
        trainings += [
            training(base, seed, [400, 410, 420]),
            training(fedatt, seed, [390, 401, 409]),
            training(half, seed, [420, 435, 438]),
            training(at(base, "share", 0.5), seed, [300, 310, 320]),
            training(at(fedatt, "share", 0.5), seed, [300 + seed - 2, 310, 320]),
        ]
    rows = attention_table.rows_of(trainings)
    verdicts = {row["label"]: row.get("verdict", "control") for row in rows}
    assert verdicts == {
        "FedAvg, server rate 1.2": "control",
        "FedAtt": "better",
        "FedMed, topK 0.5": "worse",
        "FedAvg, server rate 1.2, C = 0.5": "control",
        "FedAtt, C = 0.5": "not distinguishable",
    }
    assert rows[0]["label"] == "FedAvg, server rate 1.2"
    row = next(row for row in rows if row["label"] == "FedAtt")
    assert row["held_out_perplexity"]["value"] == pytest.approx(np.exp(4.0))
    assert row["factor"]["value"] == pytest.approx(np.exp(-0.1))
    half_row = next(row for row in rows if "topK" in row["label"])
    assert half_row["upload_mb_to_best"] == 5 * 4 * 1.0  # five of ten clients, four rounds, 1 MB
    assert row["rounds_to_target"] == [1, 1, 1]  # 2.0 at once, as the control
    text = attention_table.markdown(json.loads(json.dumps(rows)))
    assert "0.905 [" in text
    assert "better" in text


def test_rounds_and_bytes_to_the_target():
    base = attention_sweeps.Setting(rule=attention_sweeps.CONTROL)
    top = attention_sweeps.changed(
        dataclasses.replace(base, rule=attention_sweeps.FEDMED), "top", 0.5
    )
    control, slow, never = (
        training(setting, seed, [1, 2, 3]) | {"curve": curve}
        for setting, seed, curve in [
            (base, 1, [9.0, 4.0, 5.0]),
            (top, 1, [9.0, 8.0, 4.2]),  # 4.2 is 1.05 times the control's best
            (top, 2, [9.0, 8.0, 4.21]),
        ]
    )
    rows = attention_table.rows_of([control, slow, never, control | {"seed": 2}])
    assert [row["rounds_to_target"] for row in rows] == [[2, 2], [3, None]]
    assert rows[1]["upload_mb_to_target"] == [5 * 3 * 1.0, None]  # five of ten clients, 1 MB each
    assert "3, never" in attention_table.markdown(rows)


def test_the_picture_is_of_the_rounds_that_all_seeds_have(tmp_path):
    base = attention_sweeps.Setting(rule=attention_sweeps.CONTROL)
    fedatt = dataclasses.replace(base, rule=attention_sweeps.FEDATT)
    for setting, seed, curve in (
        *((fedatt, 1, [9.0, 7.0]), (base, 1, [9.0, 8.0, 6.0])),
        *((base, 2, [8.0, 7.0]), (attention_sweeps.changed(base, "share", 0.5), 1, [5.0])),
    ):
        found = {**training(setting, seed, [1, 2, 3]), "curve": curve}
        (tmp_path / f"{setting.name}_seed{seed}.json").write_text(json.dumps(found))
    shown = attention_picture.curves_of(attention_picture.of_folder(tmp_path))
    assert {label: curves.tolist() for label, curves in shown.items()} == {
        "FedAvg, server rate 1.2": [[9.0, 8.0], [8.0, 7.0]],
        "FedAtt": [[9.0, 7.0]],
    }
    attention_picture.main([f"IID={tmp_path}", f"--out={tmp_path / 'sweeps.png'}"])
    assert (tmp_path / "sweeps.png").stat().st_size > 10_000


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
    before = {k: v for k, v in tied["setting"].items() if k != "tied"}  # of an older file
    rows = attention_table.rows_of([found, {**tied, "setting": before}])
    assert [row["setting"]["tied"] for row in rows] == [True, False]
    assert "untied" in rows[1]["label"]


def test_the_sweeps_table_has_corpora_beside_each_other():
    base = attention_sweeps.Setting(rule=attention_sweeps.CONTROL)
    fedatt = dataclasses.replace(base, rule=attention_sweeps.FEDATT)
    spectral = attention_sweeps.changed(fedatt, "norm", "spectral")
    wide = [attention_sweeps.changed(each, "share", 0.5) for each in (base, fedatt)]
    first = [training(base, 1, [400, 410, 420]), training(fedatt, 1, [390, 401, 409])]
    first.append(training(spectral, 1, [1, 2, 3]))  # not a point of the sweeps
    second = [training(wide[0], 2, [400, 410, 420]), training(wide[1], 2, [410, 419, 431])]
    second[1]["ended"] = False
    second.append(training(base, 2, [1, 2, 3]))  # FedAtt lacks this point
    rows = [json.loads(json.dumps(attention_table.rows_of(each))) for each in (first, second)]
    lines = sweep_table.table(["by person", "IID"], rows).splitlines()
    assert lines[0].startswith("|  | by person: FedAvg(ε), FedAtt | factor; by seed | seeds | IID:")
    assert lines[2].startswith("| C = 0.1, E = 5, ε = 1.2, size 32, tied | 60.3, 54.6 | 0.905 [")
    assert lines[2].endswith("0.905 .. 0.905 one seed | 1 |  |  | 0 |")
    assert lines[3].startswith("| C = 0.5 |  |  | 0 | 60.3, 66.7 (not at its end) | 1.105 [")
    assert len(lines) == 4
