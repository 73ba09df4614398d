"""The shipped studies: each can be read, and its configs are valid."""

import dataclasses
import math
import pathlib

import pytest

from tests.support.shipped_configs import STUDIES
from tff_keyboard.models.model_factory import build_model
from tff_keyboard_lab.study.plan import plan, study_file
from tff_keyboard_lab.tests.support import shipped_studies


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.stem)
def test_runs_can_be_planned(path):
    study = study_file.load(path)
    runs = shipped_studies.runs(path)
    assert len({run.path for run in runs}) == len(runs)
    assert {run.arm for run in runs} == {arm.name for arm in study.arms}
    commands = [line for line in path.read_text().splitlines() if "tff-keyboard study" in line]
    assert commands
    assert all(path.stem in line for line in commands)


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.stem)
def test_claims_need_a_control_and_three_seeds(path):
    study = study_file.load(path)
    assert len(study.seeds) >= 3
    if any("fedatt" in arm.name or "fedmed" in arm.name for arm in study.arms):
        # The same mean of equal clients with the same server rates, the control or next to it
        compared = {arm.step_from or study.control for arm in study.arms if "fed" in arm.name[:3]}
        assert study.control == "fedavg_epsilon" or "fedavg_epsilon" in compared
        for arm in study.arms:
            if study.tuning and arm.name in ("fedatt", "fedmed"):
                assert arm.step_from == "fedavg_epsilon"
                assert arm.trials == study.arm("fedavg_epsilon").trials


RULES = [path for path in STUDIES if path.stem.startswith(("rules_", "fedatt_"))]


@pytest.mark.parametrize("path", RULES, ids=lambda path: path.stem)
def test_a_rule_differs_from_its_control_in_aggregation_only(path):
    runs = [run for run in shipped_studies.runs(path) if not run.point and run.seed == 1]
    configs = {run.arm: run.config for run in runs}
    for name, config in configs.items():
        if name.startswith(("fedatt", "fedmed")):
            tables = f"fedavg_epsilon{name[6:]}"  # of a model of another size
            control = configs.get(tables, configs["fedavg_epsilon"])
            assert control.aggregation.rule.type == "mean"
            assert control.aggregation.client_weighting == "uniform"
            assert config.aggregation.client_weighting == "uniform", name
            assert config.aggregation.protection == control.aggregation.protection, name
            for part in ("data", "model", "client", "server", "train", "evaluation", "execution"):
                assert getattr(config, part) == getattr(control, part), (name, part)


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.stem)
def test_the_studies_page_lists_the_study(path):
    assert f"`{path.stem}`" in pathlib.Path("docs/studies.md").read_text()


BASELINES = [path for path in STUDIES if path.stem.startswith("baselines_")]


@pytest.mark.parametrize("path", BASELINES, ids=lambda path: path.stem)
def test_baselines_differ_in_their_method_only(path):
    study = study_file.load(path)
    assert study.control == "fedavg"
    runs = plan.trials_of(study, path.parent, pathlib.Path("runs"))
    assert len({run.path for run in runs}) == len(runs) == 4 * len(study.arms)
    first = runs[0].config
    for run in runs:
        for part in ("data", "model", "evaluation", "averaging", "fine_tuning"):
            assert getattr(run.config, part) == getattr(first, part), (run.path.name, part)
        assert run.config.train == first.train
        assert run.config.aggregation.protection == first.aggregation.protection
        assert run.config.client.batch_size == first.client.batch_size
        assert run.config.client.max_examples == first.client.max_examples
        assert run.config.train.seed not in study.seeds


CELLS = [path for path in STUDIES if path.stem.startswith("cells_")]


@pytest.mark.parametrize("path", CELLS, ids=lambda path: path.stem)
def test_cells_differ_in_their_model_only_and_have_as_many_parameters(path):
    study = study_file.load(path)
    runs = plan.trials_of(study, path.parent, pathlib.Path("runs"))
    first = runs[0].config
    for run in runs:
        for part in ("data", "train", "server", "aggregation", "evaluation", "averaging"):
            assert getattr(run.config, part) == getattr(first, part), (run.path.name, part)
    for arm in study.arms:  # the best rate of each lies between others (docs/baselines.md)
        rates = [trial.removeprefix("client.learning_rate=") for (trial,) in arm.trials]
        assert len(rates) == 4
        assert list(map(float, rates)) == [float(rates[0]) * 2**step for step in range(4)]
    sizes = []
    for table in dict.fromkeys(run.config.model for run in runs):
        options = dataclasses.asdict(table)
        for name in ("type", "initial_model"):
            options.pop(name)
        model = build_model(
            table.type, vocabulary_size=first.data.vocabulary_size, seed=1, **options
        )
        sizes.append(sum(math.prod(weight.shape) for weight in model.trainable_weights))
    assert len(sizes) == 4
    assert max(sizes) < 1.01 * min(sizes)


def test_baselines_of_all_corpora_have_the_same_trials():
    first, *others = (study_file.load(path) for path in BASELINES)
    assert len(others) == 3
    for other in others:
        assert [(arm.name, arm.set, arm.trials) for arm in other.arms] == [
            (arm.name, arm.set, arm.trials) for arm in first.arms
        ]
