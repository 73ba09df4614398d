"""Engines are found by entry points, and imported only for a run whose config asks for them."""

import subprocess
import sys

import pytest

from tests.support.console import ROOT
from tests.support.fake_distribution import install
from tests.support.fakes import tiny_config
from tff_keyboard.config import ConfigError
from tff_keyboard.config.sections.execution_config import ENGINES
from tff_keyboard.storage import entry_points
from tff_keyboard.storage.errors import ClusterError
from tff_keyboard.training import run_stores

OTHER_ENGINE = """
class Engine:
    is_open = True

    def __init__(self, execution, stores):
        self.threads, self.num_stores = execution.threads, len(stores)

    def close(self):
        self.is_open = False
"""


def test_a_cluster_must_be_named(monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    config = tiny_config("nowhere", "execution.engine=ray")
    with (
        pytest.raises(ClusterError, match=r"execution\.cluster\.address"),
        run_stores.open_engine(config, []),
    ):
        pass


def test_an_unknown_engine_is_rejected():
    with pytest.raises(ConfigError, match=r"execution\.engine.*'local', 'ray', got 'rya'"):
        tiny_config("nowhere", "execution.engine=rya")


@pytest.fixture
def _other_engine(tmp_path, monkeypatch):
    install(tmp_path, "other", {ENGINES: {"other": "other_engine:Engine"}})
    (tmp_path / "other_engine.py").write_text(OTHER_ENGINE)
    monkeypatch.syspath_prepend(tmp_path)
    entry_points.find.cache_clear()
    yield
    entry_points.find.cache_clear()


@pytest.mark.usefixtures("_other_engine")
def test_a_package_can_register_an_engine():
    config = tiny_config("nowhere", "execution.engine=other", "execution.threads=3")
    with run_stores.open_engine(config, [None]) as engine:
        assert (engine.threads, engine.num_stores, engine.is_open) == (3, 1, True)
    assert not engine.is_open


LOADED = """
import sys
from tff_keyboard.host import quiet
quiet.import_tensorflow_federated()
import tff_keyboard.training.central, tff_keyboard.training.federated
print(*(name for name in sys.modules if "cluster." in name or name.startswith("ray")))
"""


@pytest.mark.slow
def test_a_training_on_this_machine_imports_no_code_for_ray():
    ran = subprocess.run(
        [sys.executable, "-c", LOADED], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert ran.stdout == "\n"
