"""What every test session needs: no open port, no process left behind, the long files first."""

import os

# Before TensorFlow starts: results of a test depend on no number of cores.
os.environ["TF_NUM_INTRAOP_THREADS"] = "1"
# A fork beside gRPC's threads would write a line that a test takes for the program's.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"

import pathlib
import signal
import sys
import tempfile

# What tests name as own code is not remembered in the home of the user.
os.environ["XDG_STATE_HOME"] = str(
    pathlib.Path(tempfile.gettempdir()) / f"tff_keyboard_tests_{os.getuid()}"
)

import hypothesis
import pytest

from tests.support import without_tensorflow
from tests.support.examples import FULL
from tests.support.processes import processes_below, reaper

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

# Slow files that take longest, the longest first: they begin first, so that the last process is not
# left alone with one of them.
LONG_FILES = (
    "test_every_config.py", "test_cohort_batcher.py", "test_against_stock_tff.py",
    "test_study_task.py", "test_federated.py", "test_attack_task.py", "test_optimisation.py",
    "test_training_loop.py", "test_fine_tuning.py", "test_audit_tail_task.py",
    "test_fedmed_process.py", "test_server_transfer.py", "test_battery.py",
    "test_play.py", "test_build_aggregator.py", "test_parity.py", "test_export_graphs.py",
)  # fmt: skip


def pytest_addoption(parser):
    parser.addoption("--without-tensorflow", action="store_true", help="skip what imports it")


def pytest_configure(config):
    """Whatever the run leaves behind is ended with it."""
    if not hasattr(config, "workerinput"):  # not in a process of xdist: below the one that has it
        reaper.start()
    if config.getoption("without_tensorflow"):
        without_tensorflow.start()


BENCHMARKS = pathlib.Path(__file__).parent / "tff_keyboard_lab" / "tests" / "benchmarks"


def pytest_collection_modifyitems(items):
    """Long files first, all else in its order; before `-m` looks at the markers.

    Benchmarks time the product, so their tests run with the slow ones.
    """
    for item in items:
        if BENCHMARKS in item.path.parents:
            item.add_marker(pytest.mark.slow)
    places = {name: place for place, name in enumerate(LONG_FILES)}
    items.sort(key=lambda item: places.get(item.path.name, len(places)))


# A shell that runs a job in the background has it ignore SIGINT; programs that tests start and
# interrupt would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="module", autouse=True)
def _ctrl_c_is_left_alone():
    """A file that left SIGINT ignored would hang a later one, whose programs inherit that."""
    yield
    left = signal.signal(signal.SIGINT, signal.default_int_handler)
    assert left is signal.default_int_handler, f"the tests of this file leave SIGINT with {left}"


@pytest.fixture(scope="module", autouse=True)
def _no_server_of_tffs():
    """TFF's default context is that of the session, whatever the file before left it on."""
    _use_session_context()
    yield
    if _use_session_context():
        found = processes_below.listening_workers(os.getpid())
        assert not found, f"servers of TFF's own: {found}"


def _use_session_context():
    if "tensorflow_federated" not in sys.modules:
        return False
    from tests.support import session_context

    session_context.use()
    return True


@pytest.fixture
def stock_tff():
    """A context manager: meanwhile computations run in TFF's own runtime."""
    from tests.support import session_context

    return session_context.stock_tff


@pytest.fixture(scope="session")
def store(tmp_path_factory):
    """A client store of a few made-up typists, to be read only: all files share it."""
    from tests.support import fakes
    from tff_keyboard.data.preparing.prepare import prepare

    path = tmp_path_factory.mktemp("store") / "demo"
    prepare(fakes.tiny_config(path).data, path)
    return path
