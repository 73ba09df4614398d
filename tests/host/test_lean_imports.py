"""What a start leaves out, and that all of it is there when it is asked for."""

import gc
import pathlib
import subprocess
import sys

import pytest

from tff_keyboard.host import lean_imports

ROOT = pathlib.Path(__file__).parents[2]
PROGRAM = """
import sys
import types

from tff_keyboard.host import quiet

tff = quiet.import_tensorflow_federated()
left_out = ("jax", "sklearn", "scipy.stats", "requests.api", "scipy.optimize._optimize")
for name in (*left_out, "tensorflow_probability.python", "dp_accounting.pld.common"):
    assert name not in sys.modules, name
from tensorflow.python.autograph.core import config
for name in ("tff_keyboard.models.cifg", "tff_keyboard.packs.elements"):
    module = types.ModuleType(name)
    actions = (rule.get_action(module) for rule in config.CONVERSION_RULES)
    print(next(action for action in actions if action != config.Action.NONE))
from dp_accounting.pld import privacy_loss_distribution as losses

delta = losses.from_gaussian_mechanism(1.0).get_delta_for_epsilon(1.0)
print(f"{delta:.4f}")
from scipy import optimize
import tensorflow_probability as tfp

print(float(tfp.distributions.Normal(0.0, 1.0).cdf(0.0)))
print(round(optimize.brentq(lambda x: x - 3.0, 0.0, 9.0)))
"""


@pytest.fixture
def later(tmp_path, monkeypatch):
    """A module that is to be executed later, and notes that it is."""
    folder = tmp_path / "slow_package"
    folder.mkdir()
    (folder / "__init__.py").write_text("import sys\nsys.executed = True\nvalue = 7\n")
    (folder / "part.py").write_text("value = 8\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(lean_imports, "_LATER", ("slow_package",))
    monkeypatch.setattr(sys, "executed", False, raising=False)
    with lean_imports.lean():
        import slow_package
    yield slow_package
    for name in [name for name in sys.modules if name.startswith("slow_package")]:
        del sys.modules[name]


def test_a_module_is_executed_when_a_name_of_it_is_read(later):
    assert later.__file__.endswith("__init__.py")
    assert not hasattr(later, "__wrapped__")  # as `inspect` asks of every module
    assert not sys.executed
    assert later.value == 7
    assert sys.executed
    with pytest.raises(AttributeError):
        _ = later.other


def test_a_part_of_it_can_be_imported_before(later):
    from slow_package import part

    assert part.value == 8
    assert later.value == 7


def test_nothing_is_absent_afterwards(later):
    assert "jax" not in sys.modules or sys.modules["jax"] is not None
    assert getattr(sys.modules.get("sklearn"), "preprocessing", "whole") is not None
    assert gc.isenabled()


@pytest.mark.slow
def test_tff_without_what_no_task_uses():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "Action.DO_NOT_CONVERT",
        "Action.CONVERT",
        "0.1269",
        "0.5",
        "3",
    ]
