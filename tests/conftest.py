"""What every test session needs: no open port, no process left behind, the long files first."""

import os
import signal
import sys

import hypothesis
import pytest

from tests import processes_below, reaper
from tests.examples import FULL

# A push is judged by its change, not by the day's luck: in CI the examples are fixed. At home they
# are drawn anew, and what they find becomes an `@example`. `make slow` draws more (`examples.py`).
hypothesis.settings.register_profile(
    "here",
    derandomize=bool(os.environ.get("CI")),
    deadline=None,
    # How long an example takes to draw says how busy the machine is, not whether the code is right.
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
    max_examples=100 if FULL else 20,
)
hypothesis.settings.load_profile("here")

# Files that take longest, the longest first, of the slow tests and of the quick ones: they begin
# first, so that the last process is not left alone with one of them.
LONG_FILES = (
    "tests/training/test_every_config.py",
    "tests/learning/test_client_delivery.py",
    "tests/aggregation/test_aggregation_workers.py",
    "tests/tasks/test_study.py",
    "tests/training/test_federated.py",
    "tests/tasks/test_play.py",
    "tests/tasks/test_attack_task.py",
    "tests/training/test_optimisation.py",
    "tests/program/test_training_loop.py",
    "tests/algorithms/test_fine_tuning.py",
    "tests/tasks/test_audit_tail_task.py",
    "tests/benchmarks/test_round_speed.py",
    "tests/program/test_execution.py",
    "tests/algorithms/test_server_transfer.py",
    "tests/algorithms/test_fedmed_process.py",
    "tests/algorithms/test_lwf.py",
    "tests/algorithms/test_build_process.py",
    "tests/aggregation/test_battery.py",
    "tests/training/test_central.py",
    "tests/algorithms/test_build_aggregator.py",
    "tests/tflite_export/gate/test_parity.py",
    "tests/tflite_export/test_export_graphs.py",
)


# What has or calls a loop that AutoGraph makes a graph of.
LOOPS = (
    "tff_keyboard.packs",
    "tff_keyboard.learning.client_training",
    "tff_keyboard.learning.federated_evaluation",
    "tff_keyboard.algorithms.central_training",
    "tff_keyboard.algorithms.fedmed.scored_client_work",
)


def pytest_configure(config):
    """Whatever the run leaves behind is ended with it.

    Under coverage all functions but `LOOPS` are traced as they stand: AutoGraph would run a copy of
    them from a temporary file, whose lines count for nobody.
    """
    if not hasattr(config, "workerinput"):  # not in a process of xdist: below the one that has it
        reaper.start()
    if config.pluginmanager.hasplugin("_cov") and config.getoption("cov_source", None):
        from tensorflow.python.autograph.core import config as autograph

        loops = [autograph.Convert(name) for name in LOOPS]
        ours = [autograph.DoNotConvert(name) for name in ("tff_keyboard", "tflite_export")]
        autograph.CONVERSION_RULES = (*loops, *ours, *autograph.CONVERSION_RULES)


def pytest_collection_modifyitems(items):
    """Long files first, all else in its order."""
    places = {name: place for place, name in enumerate(LONG_FILES)}
    items.sort(key=lambda item: places.get(item.nodeid.partition("::")[0], len(places)))


# A shell that runs a job in the background has it ignore SIGINT; programs that tests start and
# interrupt would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="module", autouse=True)
def _one_worker_of_ours():
    """TFF's default context is that of the session, whatever the file before left it on."""
    _use_session_context()
    yield
    if _use_session_context():
        found = processes_below.listening_workers(os.getpid())
        assert not found, f"workers of TFF's own: {found}; import TFF at the head of the file"


def _use_session_context():
    if "tensorflow_federated" not in sys.modules:
        return False
    from tests import session_context

    session_context.use()
    return True


@pytest.fixture(scope="session")
def store(tmp_path_factory):
    """A client store of a few made-up typists, to be read only: all files share it."""
    from tests import fakes
    from tff_keyboard.data.store.prepare import prepare

    path = tmp_path_factory.mktemp("store") / "demo"
    prepare(fakes.tiny_config(path).data, path)
    return path
