"""The table of configs and seeds, and the configs it is for."""

import json
import pathlib

import numpy as np
import pytest
from scipy import stats

from benchmarks import table
from tests.fakes import TINY
from tff_keyboard import config as config_lib
from tff_keyboard.data.store.prepare import prepare as prepare_store
from tff_keyboard.evaluation.result import Evaluation, ModelFacts, TextFacts

CONFIGS = pathlib.Path("configs/aggregation")
RULES = [
    "dp_high",
    "dp_low",
    "fedatt",
    "fedavg",
    "fedavg_epsilon",
    "fedmed",
    "fedmed_top05",
    "fedmed_top08",
    "private_fedatt",
]


def loaded(corpus):
    return {
        path.stem.removeprefix(f"{corpus}_"): config_lib.load(path)
        for path in sorted(CONFIGS.glob(f"{corpus}_*.toml"))
    }


@pytest.mark.parametrize("corpus", ["sms", "wikitext2"])
def test_configs_of_a_corpus_differ_in_aggregation_and_server_only(corpus):
    configs = loaded(corpus)
    assert sorted(configs) == RULES
    first, *others = (config_lib.to_dict(config) for config in configs.values())
    for part in ("data", "model", "client", "train", "evaluation", "execution"):
        for other in others:
            assert other[part] == first[part], part


@pytest.mark.parametrize("corpus", ["sms", "wikitext2"])
def test_control_makes_the_server_step_of_the_rules(corpus):
    configs = loaded(corpus)
    control = configs["fedavg_epsilon"]
    assert control.server.optimizer in ("fedavg", "fedavgm")
    assert control.aggregation.rule.name == "mean"
    for name in set(RULES) - {"fedavg"}:
        assert configs[name].server == control.server, name
        assert configs[name].aggregation.client_weighting == "uniform", name
    for name in ("fedatt", "fedmed", "fedmed_top08", "fedmed_top05"):
        protection = configs[name].aggregation.resolved_protection
        assert protection == control.aggregation.resolved_protection
    shares = {name: configs[name].aggregation.rule.top_fraction for name in RULES if "med" in name}
    assert shares == {"fedmed": 1.0, "fedmed_top08": 0.8, "fedmed_top05": 0.5}


def test_sms_text_and_fedavg_are_those_of_the_reference_run():
    reference, fedavg = config_lib.load("configs/nus_sms.toml"), loaded("sms")["fedavg"]
    for part in ("data", "model", "client", "server", "aggregation"):
        assert getattr(fedavg, part) == getattr(reference, part), part


def test_wikitext2_text_is_that_of_its_own_config():
    reference, fedavg = config_lib.load("configs/wikitext2.toml"), loaded("wikitext2")["fedavg"]
    assert fedavg.data == reference.data
    assert fedavg.data.num_shards == 10 * fedavg.train.clients_per_round == 100
    assert fedavg.model.name == "gru"
    assert fedavg.server.optimizer == "fedavg"  # the paper's rule is a step of epsilon, no more


def evaluation(population, hits, nll):
    tokens = 10 * np.arange(1, len(hits) + 1)
    zero = np.zeros(len(hits))
    sums = {"tokens": tokens, "eos_tokens": zero, "hits_at_1": hits, "hits_at_3": zero, "nll": nll}
    people = tuple(f"person {i}" for i in range(len(hits)))
    text = TextFacts(name=population, people=people, words=int(tokens.sum()), store="s")
    return Evaluation(model=ModelFacts(name="m"), text=text, sums=sums)


def evaluations(hits, nll):
    return {people: evaluation(people, hits, nll) for people in table.POPULATIONS}


HITS = np.random.default_rng(0).integers(0, 10, size=[2, 2, 5])  # [config, seed, person]
NATS = np.random.default_rng(1).uniform(10, 40, size=[2, 2, 5])
WORDS = 10.0 * np.arange(1, 6)
FACTS = {"upload_bytes_per_round": 2.5e6}


def summary():
    runs = {
        name: {seed: evaluations(HITS[i, seed], NATS[i, seed]) for seed in (0, 1)}
        for i, name in enumerate(["control", "other"])
    }
    return table.summarise({**runs, "late": {}}, {"control": FACTS, "other": FACTS}, "control")


def test_means_over_seeds_and_paired_differences():
    control, other = summary()  # a config without a run has no row
    recalls = HITS.sum(axis=2) / WORDS.sum()  # [config, seed]
    for i, row in enumerate((control, other)):
        metrics = row["metrics"]["held_out"]
        assert metrics[table.RECALL]["value"] == pytest.approx(recalls[i].mean())
        nats = NATS[i].sum(axis=1) / WORDS.sum()
        assert metrics["perplexity"]["value"] == pytest.approx(np.exp(nats.mean()))
        for seed in (0, 1):
            value = row["seeds"][str(seed)]["validation"][table.RECALL]["value"]
            assert value == pytest.approx(recalls[i, seed])
    assert "differences" not in control
    difference = other["differences"]["held_out"][table.RECALL]
    assert difference["value"] == pytest.approx(recalls[1].mean() - recalls[0].mean())
    gain = (HITS[1] - HITS[0]).sum(axis=0).astype(float)  # both seeds of a person go together
    without = (gain.sum() - gain) / (2 * (WORDS.sum() - WORDS))
    effective = WORDS.sum() ** 2 / np.square(WORDS).sum()
    quantile = stats.t.ppf(0.975, effective - 1)
    reach = quantile * np.sqrt(4 / 5 * np.sum((without - without.mean()) ** 2))
    assert difference["high"] - difference["value"] == pytest.approx(reach, rel=1e-3)
    for seed in (0, 1):
        value = other["differences_of_seeds"][str(seed)]["held_out"][table.RECALL]["value"]
        assert value == pytest.approx(recalls[1, seed] - recalls[0, seed])


def test_markdown_has_the_control_first():
    lines = table.markdown(summary()[::-1], "control").splitlines()
    assert [line.split("|")[1].strip() for line in lines[2:]] == ["`control`", "`other`"]
    assert len({line.count("|") for line in lines}) == 1
    assert lines[2].count("control") == 4
    differences = (HITS[1] - HITS[0]).sum(axis=1) / WORDS.sum() * 100
    assert f"{differences.min():+.2f} .. {differences.max():+.2f}" in lines[3]
    assert lines[3].endswith("| 2.5 |")


def test_markers_must_be_there_once():
    for text in ("nothing", "<!-- table: t -->", "<!-- table: t --><!-- end: t -->" * 2):
        with pytest.raises(ValueError, match="must have"):
            table.replace_section(text, "t", "x")


@pytest.mark.parametrize(
    "change",
    [["--control=b"], ["--seeds=1;2"], ["--markdown=nowhere.md"], ["other/a.toml"]],
    ids=["control", "seeds", "markdown", "names"],
)
def test_wrong_flags_end_before_any_run(change, tmp_path, capsys):
    arguments = ["a.toml", "--control=a", f"--workdir={tmp_path}", f"--out={tmp_path / 'o.json'}"]
    with pytest.raises(SystemExit) as caught:
        table.main([*arguments, *change])
    assert caught.value.code == 2
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_trains_tabulates_and_goes_on(tmp_path, monkeypatch):
    store = tmp_path / "store"
    settings = [*TINY, f"data.store={store}"]
    prepare_store(config_lib.load("configs/demo.toml", settings).data, store)
    paths = []
    rules = {
        "control": [],
        "top": ["aggregation.rule.name=fedmed", "aggregation.rule.top_fraction=0.5"],
        "private": [
            "aggregation.client_weighting=uniform",
            "aggregation.privacy.mechanism=gaussian",
            "aggregation.privacy.noise_multiplier=1.0",
        ],
    }
    for name, overrides in rules.items():
        paths.append(tmp_path / f"{name}.toml")
        config = config_lib.load("configs/demo.toml", [*settings, *overrides])
        paths[-1].write_text(config_lib.dump(config))
    out, page = tmp_path / "out.json", tmp_path / "results.md"
    page.write_text("before\n<!-- table: out -->\n<!-- end: out -->\nafter\n")
    arguments = [str(path) for path in reversed(paths)]
    arguments += ["--control=control", f"--workdir={tmp_path / 'runs'}", f"--out={out}"]
    arguments += [f"--markdown={page}", "--rounds=2", "--set=evaluation.every=2"]
    assert table.main(arguments) == 0
    report = json.loads(out.read_text())
    rows = {row["config"]: row for row in report["rows"]}
    assert list(rows) == ["control", "private", "top"]  # the control, then as given
    assert rows["top"]["upload_bytes_per_round"] == pytest.approx(
        rows["control"]["upload_bytes_per_round"] * 2 / 3  # ceil(0.5 * 3) of 3 clients
    )
    assert rows["private"]["privacy"]["epsilon"] > 0
    assert "privacy" not in rows["control"]
    assert 1 <= rows["top"]["effective_clients"] <= 3
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert table.markdown(report["rows"], "control") in text

    # All finished: nothing is trained or evaluated. A second seed: that alone is.
    trained = []
    really_train = table.train
    monkeypatch.setattr(table, "train", lambda p, run, o: trained.append(run) or 0)
    assert table.main(arguments) == 0
    assert not trained
    monkeypatch.setattr(
        table, "train", lambda p, run, o: trained.append(run.name) or really_train(p, run, o)
    )
    arguments = [a for a in arguments if not a.endswith(("top.toml", "private.toml"))]
    assert table.main([*arguments, "--seeds=1,2"]) == 0
    assert trained == ["control_seed2"]
    # Another config in the same folder is not taken for finished, and train refuses it.
    assert table.main([*arguments, "--set=client.learning_rate=0.1"]) == 1
