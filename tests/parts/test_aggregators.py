"""The registry of aggregators: options are defined once, and reading them imports no TensorFlow."""

import dataclasses
import inspect
import subprocess
import sys

import pytest

import tff_keyboard as tk
from tff_keyboard.parts import calls
from tff_keyboard.parts.aggregator import AGGREGATORS, AggregatorRun

RUN = AggregatorRun(clients_per_round=20)


def test_every_module_defines_the_part_of_its_name():
    assert {"fedatt", "fedmed", "mean", "median", "multi_krum"} <= AGGREGATORS.keys()
    for name, options in AGGREGATORS.items():
        assert options().type == name


def test_options_are_read_without_tensorflow():
    code = (
        "import sys; from tff_keyboard import config; "
        "from tff_keyboard.parts.aggregator import AGGREGATORS as a; "
        "[config.loads('', [f'aggregation.rule.type={n}']) for n in a if not a[n].required_privacy]"
        "; print([m for m in sys.modules if m.startswith('tensorflow')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("name", [name for name in AGGREGATORS if AGGREGATORS[name].factory])
def test_python_constructor_has_the_options_and_their_defaults(name):
    options = AGGREGATORS[name]()
    factory = calls.load(options.factory)
    parameters = inspect.signature(factory).parameters
    for key, value in options.arguments().items():
        default = {} if key == "layer_groups" else parameters[key].default
        assert default == value, key
        assert f"{key}: See `" not in factory.__doc__  # the meaning replaces the pointer


@pytest.mark.parametrize(
    "build, words",
    [
        (lambda: tk.aggregators.FedAtt(norm="3"), "^`norm` must be one of"),
        (lambda: tk.aggregators.FedAtt(temperature=0.0), "^`temperature` must be > 0, got 0.0"),
        (lambda: tk.aggregators.FedAtt(layer_groups={"a": []}), "^`layer_groups.a` is empty"),
        (lambda: tk.aggregators.TrimmedMean(0.5), r"^`trim_fraction` must be in \[0, 0.5\)"),
        (lambda: tk.aggregators.BoundedTrimmedMean(attackers=0.5), r"^`attackers` must be in \(0"),
        (lambda: tk.aggregators.FedMed(max_clients=3, top_fraction=0.0), r"^`top_fraction` must"),
    ],
)
def test_constructor_checks_the_same_ranges_under_its_own_names(build, words):
    with pytest.raises(ValueError, match=words):
        build()


def test_options_are_frozen_and_replaceable():
    options = dataclasses.replace(AGGREGATORS["fedatt"](), temperature=2.0)
    assert options.arguments() == {"norm": "2", "temperature": 2.0, "layer_groups": {}}
    assert type(options.build(RUN)).__name__ == "FedAttFactory"
