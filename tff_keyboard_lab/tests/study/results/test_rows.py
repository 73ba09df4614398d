"""Rows of a study against NumPy, and their verdicts."""

import dataclasses

import numpy as np
import pytest

from tests.support.fakes import ledger_header
from tests.support.truth import jackknife_truth
from tff_keyboard import config as config_lib
from tff_keyboard.evaluation.results.result import Evaluation, ModelFacts, TextFacts
from tff_keyboard.privacy.ledger.ledger import PrivacyLedger
from tff_keyboard_lab.study.plan import plan
from tff_keyboard_lab.study.plan.study_file import Arm, Study, Tuning
from tff_keyboard_lab.study.results import provenance, rows, run_facts, tables

POPULATIONS = ("validation", "held_out")
RECALL = "recall_at_1_no_eos"


def evaluation(population, hits, nll):
    tokens = 10 * np.arange(1, len(hits) + 1)
    zero = np.zeros(len(hits))
    sums = {"tokens": tokens, "eos_tokens": zero, "hits_at_1": hits, "hits_at_3": zero, "nll": nll}
    people = tuple(f"person {i}" for i in range(len(hits)))
    text = TextFacts(name=population, people=people, words=int(tokens.sum()), store="s")
    return Evaluation(model=ModelFacts(name="m"), text=text, sums=sums)


def evaluations(hits, nll):
    return {people: evaluation(people, hits, nll) for people in POPULATIONS}


HITS = np.random.default_rng(0).integers(0, 10, size=[2, 2, 5])  # [config, seed, person]
NATS = np.random.default_rng(1).uniform(10, 40, size=[2, 2, 5])
WORDS = 10.0 * np.arange(1, 6)
FACTS = run_facts.RunFacts(
    rounds=9,
    tokens=2.5e6,
    upload_bytes_per_round=56.5e6,
    rehearsal_bytes=0.0,
    total_bytes=2.5e9,
    rejected_rounds=0,
    best_validation_perplexity=80.5,
    last_quarter_gain=0.02,
    flat=False,
    origin=provenance.Origin(None, None, None),
)


def summary(seeds=(0, 1), control="control"):
    results = {
        (name, ""): {seed: evaluations(HITS[i, seed], NATS[i, seed]) for seed in seeds}
        for i, name in enumerate(["control", "other"])
    }
    facts = {key: dict.fromkeys(seeds, FACTS) for key in results}
    return rows.rows_of(
        study_of(control), {**results, ("late", ""): {}}, {**facts, ("late", ""): {}}
    )


def study_of(control="control"):
    arms = tuple(Arm(name=name, config=f"{name}.toml") for name in ("control", "other", "late"))
    return Study(question="Which?", control=control, arms=arms, seeds=(0, 1, 2))


def test_means_over_seeds_and_paired_differences():
    control, other = summary()  # a config without a run has no row
    recalls = HITS.sum(axis=2) / WORDS.sum()  # [config, seed]
    for i, row in enumerate((control, other)):
        metrics = row.metrics["held_out"]
        assert metrics[RECALL].value == pytest.approx(recalls[i].mean())
        nats = NATS[i].sum(axis=1) / WORDS.sum()
        assert metrics["perplexity"].value == pytest.approx(np.exp(nats.mean()))
        for seed in (0, 1):
            value = row.seeds[seed]["validation"][RECALL].value
            assert value == pytest.approx(recalls[i, seed])
    assert control.to_control is None
    difference = other.to_control.differences["held_out"][RECALL].interval
    assert difference.value == pytest.approx(recalls[1].mean() - recalls[0].mean())
    gain = (HITS[1] - HITS[0]).sum(axis=0).astype(float)  # both seeds of a person go together
    without = (gain.sum() - gain) / (2 * (WORDS.sum() - WORDS))
    over_people = jackknife_truth.reach(without, WORDS)
    reach = jackknife_truth.reach_with_seeds(over_people, recalls[1] - recalls[0])
    assert difference.high - difference.value == pytest.approx(reach)
    for seed in (0, 1):
        value = other.to_control.of_seeds[seed]["held_out"][RECALL].interval.value
        assert value == pytest.approx(recalls[1, seed] - recalls[0, seed])


def test_a_verdict_needs_three_seeds_that_agree():
    def of(gains, spread=0.0):
        hits = np.arange(5.0) + 1
        results = {
            ("control", ""): {s: evaluations(hits, hits) for s in range(len(gains))},
            ("other", ""): {
                s: evaluations(hits + gain * WORDS + spread * hits, hits)
                for s, gain in enumerate(gains)
            },
        }
        facts = {key: dict.fromkeys(range(len(gains)), FACTS) for key in results}
        actual = rows.rows_of(study_of(), results, facts)[1]
        return actual.to_control.verdicts["held_out"][RECALL]

    assert of([0.1, 0.1, 0.1], 0.01) == "better"
    assert of([-0.1, -0.1, -0.1], 0.01) == "worse"
    assert of([0.3, 0.3, -0.1], 0.01) == "not distinguishable"
    assert of([0.30, 0.01, 0.01], 0.01) == "not distinguishable"  # all above, and far apart
    assert of([0.1, 0.1]) == "2 seeds"
    assert of([0.1]) == "one seed"


def test_gains_since_the_model_of_before():
    arms = [Arm(name="general", config="g.toml", seeds=(1,))]
    arms += [Arm(name=name, config="o.toml", after="general") for name in ("control", "other")]
    study = dataclasses.replace(
        study_of(),
        before="general",
        arms=tuple(arms),
        metrics=(RECALL, "nats_per_token", "perplexity"),
    )
    results = {
        ("general", ""): {1: evaluations(HITS[0, 0], NATS[0, 0])},
        ("control", ""): {s: evaluations(HITS[0, 1], NATS[0, 1]) for s in (1, 2)},
        ("other", ""): {s: evaluations(HITS[1, s - 1], NATS[1, s - 1]) for s in (1, 2)},
    }
    actual = rows.rows_of(
        study, results, {key: dict.fromkeys(results[key], FACTS) for key in results}
    )
    general, control, other = actual
    assert general.since is None
    assert control.to_control is None
    gains = [(HITS[1, s] - HITS[0, 0]).sum() / WORDS.sum() for s in (0, 1)]
    since = other.since
    assert since.differences["held_out"][RECALL].interval.value == pytest.approx(np.mean(gains))
    of_seeds = [since.of_seeds[seed]["held_out"][RECALL].interval.value for seed in (1, 2)]
    assert of_seeds == pytest.approx(gains)
    factor = np.exp((NATS[1, :2].sum() / 2 - NATS[0, 0].sum()) / WORDS.sum())
    assert since.differences["held_out"]["perplexity"].interval.value == pytest.approx(factor)
    table = tables.markdown(study, actual).split("\n\n")[2].splitlines()
    assert [line.split("|")[1].strip() for line in table[2:]] == ["control", "other"]
    assert f"{100 * min(gains):+.2f} .. {100 * max(gains):+.2f} 2 seeds" in table[3]
    assert "held-out: perplexity, factor" in table[0]
    assert "held-out: top-1 recall, points" in table[0]
    assert "held-out: nats per token |" in table[0]  # no unit
    assert len({line.count("|") for line in table}) == 1


def test_a_step_is_judged_from_the_arm_it_changes():
    arms = [
        Arm(name="control", config="c.toml"),
        Arm(name="one", config="o.toml", label="+ one", step_from="control"),
        Arm(name="two", config="o.toml", step_from="one"),
        Arm(name="alone", config="o.toml", step_from="two"),
    ]
    study = dataclasses.replace(study_of(), arms=tuple(arms), metrics=(RECALL,))
    hits = {"control": (0, 0), "one": (0, 1), "two": (1, 0)}
    results = {
        (name, ""): {s: evaluations(HITS[i, j], NATS[0, 0]) for s in seeds}
        for (name, (i, j)), seeds in zip(hits.items(), [(0, 1), (0, 1), (1,)], strict=True)
    }
    results["alone", ""] = {0: evaluations(HITS[1, 1], NATS[0, 0])}  # no seed of what it changes
    actual = rows.rows_of(
        study, results, {key: dict.fromkeys(results[key], FACTS) for key in results}
    )
    _, one, two, alone = actual
    added = (HITS[1, 0] - HITS[0, 1]).sum() / WORDS.sum()
    assert two.step.differences["held_out"][RECALL].interval.value == pytest.approx(added)
    assert list(two.step.of_seeds) == [1]
    assert one.step == one.to_control  # here they are one comparison
    assert alone.step is None
    table = tables.markdown(study, actual).split("\n\n")[2].splitlines()
    assert [[cell.strip() for cell in line.split("|")[1:4]] for line in table[2:]] == [
        ["+ one", "control", "0, 1"],
        ["two", "+ one", "1"],
    ]
    assert f" {100 * added:+.2f} [" in table[3]
    assert len({line.count("|") for line in table}) == 1


def test_markdown_has_the_control_first():
    actual = summary()
    study = study_of()
    text = tables.markdown(study, actual[::-1])
    first = text.split("\n\n")[1].splitlines()  # held out
    assert [line.split("|")[1].strip() for line in first[2:]] == ["control", "other"]
    assert len({line.count("|") for line in first}) == 1
    differences = (HITS[1] - HITS[0]).sum(axis=1) / WORDS.sum() * 100
    assert f"{differences.min():+.2f} .. {differences.max():+.2f} 2 seeds" in first[3]
    facts = text.split("\n\n")[2].splitlines()
    assert facts[2] == "| control | 9 | 2.50 | 2.50 | 56.50 | 2.0 % | still falling |"


def test_optional_facts_are_columns_with_gaps():
    actual = summary()
    told = {"adaptive_rounds": 0.25, "effective_clients": 9.5, "rounds_to_target": 7}
    facts = {seed: dataclasses.replace(fact, **told) for seed, fact in actual[1].facts.items()}
    actual[1] = dataclasses.replace(actual[1], facts=facts)
    study = dataclasses.replace(study_of(), target=200.0)
    table = [line.strip("| ").split(" | ") for line in tables.markdown(study, actual).splitlines()]
    head = next(cells for cells in table if "curve" in cells)
    assert head[-3:] == ["adaptive rounds", "effective clients", "rounds to perplexity 200"]
    assert table[-2][-3:] == ["-", "-", "-"]
    assert table[-1][-3:] == ["25.0 %", "9.50", "7"]


def facts_of(monkeypatch, tmp_path, task, row):
    monkeypatch.setattr(run_facts.RunDirectory, "all_rows", lambda self: [row, {**row, "round": 2}])
    monkeypatch.setattr(run_facts.communication, "num_parameters", lambda path: 10)
    run = plan.Run(
        **{"arm": "a", "point": "", "seed": 1, "path": tmp_path, "task": task},
        **{"config_file": tmp_path, "overrides": (), "config": config_lib.RunConfig()},
        after=None,
    )
    return run_facts.facts_of(run, study_of())


# A row has them under two names: of the round, and of the clients' work.
TOKENS = {"round": 1, "tokens": 40, "client_work/train/tokens": 40}


def test_exact_counts_of_a_private_run_are_not_published(tmp_path, monkeypatch):
    PrivacyLedger(tmp_path / "privacy_ledger.jsonl", ledger_header()).record(1, clip_norm=0.5)
    counts = {"bytes_down": 8, "bytes_up": 8, "clients": 2, "clients_selected": 2}
    counts["aggregator/effective_clients"] = 1.5
    monkeypatch.setattr(run_facts.timings, "cpu_seconds_per_round", lambda path: 3.0)
    facts = facts_of(monkeypatch, tmp_path, "train", {**TOKENS, **counts})
    assert (facts.tokens, facts.effective_clients, facts.cpu_seconds_per_round) == (None,) * 3
    sent = (facts.upload_bytes_per_round, facts.rehearsal_bytes, facts.total_bytes)
    assert sent == (None, None, None)
    cells = {title: cell(facts) for title, cell in tables._FACTS.items()}
    assert (cells["M tokens"], cells["GB sent"], cells["MB up a round"]) == ("-", "-", "-")
    assert facts.privacy.noise_multiplier == ledger_header().noise_multiplier


def test_tokens_are_counted_once(tmp_path, monkeypatch):
    federated = {"bytes_down": 8, "bytes_up": 8, "clients": 2, "clients_selected": 2}
    facts = facts_of(monkeypatch, tmp_path, "train", {**TOKENS, **federated})
    assert facts.tokens == 80
    assert facts.total_bytes == 32
    assert facts.upload_bytes_per_round == 8  # of rows that measured no upload, as of transfer
    assert facts.origin.commit is None  # the run noted nothing when it began


def test_a_server_sends_nothing(tmp_path, monkeypatch):
    facts = facts_of(monkeypatch, tmp_path, "train-server", TOKENS)
    assert facts.tokens == 80
    assert facts.total_bytes == facts.upload_bytes_per_round == 0


def test_json_has_what_a_run_or_study_has():
    study, with_target = study_of(), dataclasses.replace(study_of(), target=200.0)
    of_some = {"rounds_to_target", "effective_clients", "adaptive_rounds", "privacy"}
    assert not of_some & set(FACTS.to_json(study))
    assert of_some & set(FACTS.to_json(with_target)) == {"rounds_to_target"}
    assert list(FACTS.to_json(study))[-3:] == ["commit", "date", "machine"]
    content = summary()[1].to_json(study)
    assert list(content)[:6] == ["arm", "point", "name", "facts", "metrics", "seeds"]
    assert list(content)[6:9] == ["differences", "differences_of_seeds", "verdicts"]
    assert list(content["differences"]["held_out"][RECALL]) == ["value", "low", "high", "says"]


def test_an_epsilon_is_said_to_be_that_of_one_run():
    private = run_facts.PrivacyFacts(
        noise_multiplier=1.0,
        clip_norm=0.5,
        epsilon=2.0,
        delta=1e-6,
        adjacency="add or remove one client",
        accounting="PLD",
    )
    key = ("control", "")
    results = {key: {s: evaluations(HITS[0, 0], NATS[0, 0]) for s in (0, 1)}}

    def text(study, **changes):
        facts = {key: dict.fromkeys((0, 1), dataclasses.replace(FACTS, **changes))}
        return tables.markdown(study, rows.rows_of(study, results, facts))

    remark = "Each epsilon is that of one run, as if it were the only one. The 2 runs"
    tuned = dataclasses.replace(
        study_of(),
        tuning=Tuning(trials=1, seed=9),
        arms=tuple(dataclasses.replace(arm, trials=(("a=1",),)) for arm in study_of().arms),
    )
    assert f"{remark} of this study read the same clients" in text(study_of(), privacy=private)
    assert f"{remark} and 3 trials of this study" in text(tuned, privacy=private)
    unclaimed = dataclasses.replace(private, epsilon=None)
    assert "Each epsilon" not in text(study_of()) + text(study_of(), privacy=unclaimed)


def test_a_sweep_has_tables_of_its_own_in_its_order():
    results, facts = {}, {}
    for point in ("", "client.epochs=5", "client.epochs=1"):
        for i, name in enumerate(["control", "other"]):
            results[name, point] = {0: evaluations(HITS[i, 0], NATS[i, 0])}
            facts[name, point] = {0: FACTS}
    text = tables.markdown(study_of(), rows.rows_of(study_of(), results, facts))
    *_, sweep, _ = text.split("\n\n")
    names = [line.split("|")[1].strip() for line in sweep.splitlines()[2:]]
    assert names == [
        "control, client.epochs=5",
        "other, client.epochs=5",
        "control, client.epochs=1",
        "other, client.epochs=1",
    ]


def test_markers_must_be_there_once():
    for text in ("nothing", "<!-- table: t -->", "<!-- table: t --><!-- end: t -->" * 2):
        with pytest.raises(ValueError, match="must have"):
            tables.replace_section(text, "t", "x")
