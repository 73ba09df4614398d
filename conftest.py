"""What every test session needs: no open port, no process left behind, the long files first."""

import os

# Before TensorFlow starts: results of a test depend on no number of cores.
os.environ["TF_NUM_INTRAOP_THREADS"] = "1"
# A fork beside gRPC's threads would write a line that a test takes for the program's.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"

import fnmatch
import gc
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

# File -> names of slow tests for which another case of the same test, or another test, stands in a
# push: `make slow` and `make test-all` run them, `make coverage` does not.
THOROUGH = {
    "test_core_alone.py": ("*[[]all]",),
    "test_two_nodes.py": ("test_every_rule_and_every_fault",),
    "test_cohort_batcher.py": tuple(
        f"test_rounds_equal_stock_tff[[]{rule}]"
        for rule in (
            "mean", "lwf", "fedsgd", "fedprox", "fedmed", "fedmed_after", "median", "trimmed_mean",
            "quantised", "adaptive", "tree",
        )
    ),
    "test_dataset_reads.py": (
        "test_builders_equal_stock_tff[[]fed_prox]", "test_builders_equal_stock_tff[[]fed_sgd]",
        "test_builders_equal_stock_tff[[]mime_lite]",
    ),
    "test_every_config.py": (
        "*/baselines/chitchat.toml]", "*/features/equal_clients.toml]",
        "*/finetune/small_users.toml]",
        "*/papers/persuasion_small.toml]", "*/papers/wikitext2_gru.toml]", "*/reference/blogs*",
        "*/reference/messages.toml]", "*/reference/ubuntu_irc_twin.toml]", "*/penn_treebank.toml]",
        "*/german.toml]",
    ),
    "test_against_stock_tff.py": (
        "*[[]mean, tree]", "*[[]fedatt, bare]", "*[[]fedmed, topK]", "*[[]median]",
        "*[[]trimmed_mean]",
    ),
    "test_attack_task.py": (
        "test_again_is_the_same_*", "test_without_protection_a_boosted_client_*",
    ),
    "test_study_task.py": ("test_a_budget_leaves_runs_out",),
    "test_optimisation.py": (
        "*[[]fedadagrad]", "test_packs_and_one_by_one_*", "test_an_average_costs_no_privacy",
    ),
    "test_fine_tuning.py": ("*[[]generated]", "*[[]retraining]"),
    "test_server_transfer.py": ("test_killed_training_resumes_to_the_bit[[]general]",),
    "test_fedmed_process.py": (
        "test_local_training_has_the_bits_of_tffs[[]*-momentum-*]",
        "test_local_training_has_the_bits_of_tffs[[]during_training-adam-*]",
        "test_local_training_has_the_bits_of_tffs[[]after_training-sgd-*]",
    ),
    "test_public_factories.py": (
        "test_clients_without_examples[[]ClientNoise]", "test_clients_without_examples[[]zeroing]",
        "test_clients_without_examples[[]clipping]", "test_clients_without_examples[[]UploadSize]",
        "test_clients_without_examples[[]*TrimmedMean]", "test_a_weighted_*[[]zeroing]",
        "test_a_weighted_*[[]UploadSize]", "test_a_weighted_*[[]*TrimmedMean]",
        "test_a_private_*[[]tree]", "test_a_private_*[[]gaussian]",
        "test_noise_of_one_key_is_one_noise[[]factory1]", "test_our_models_*[[]gru]",
        "test_our_models_*[[]lstm2]",
    ),
    "test_battery.py": (
        "*[[]privacy gaussian]", "*[[]privacy blt]", "*[[]privacy tree]", "*[[]rule trimmed_mean]",
        "*[[]rule fedmed]", "*[[]protection fixed]", "*[[]privacy gaussian, a projection]",
        "*[[]privacy gaussian_adaptive]",
    ),
    "test_build_aggregator.py": (
        "test_noise_compression_and_protection_*[[]False-*]", "*[[]True-trimmed_mean]",
    ),
    "test_text.py": ("*[[]lt_LT.UTF-8]", "*[[]1-*-cased]"),
    "test_coverage.py": ("*[[]ubuntu_irc-*]",),
    "test_federated.py": (
        "test_private_training_resumes_to_the_bit_with_its_ledger[[]gaussian]",
        "test_private_training_resumes_to_the_bit_with_its_ledger[[]tree]",
        "test_private_run_from_a_model_of_the_same_clients_makes_no_claim",
        "test_the_number_of_threads_changes_no_bit",
    ),
    "test_quiet.py": ("test_tff_jax_works_after_the_import",),
    "test_accounting.py": ("*[[]8.0-fixed size]",),
    "test_other_models.py": ("*[[]none-*]",),
    "test_lying_server.py": ("test_none_of_a_thousand_*[[][2-9]]",),
    "test_every_option.py": (
        "*:fedadam]", "*:fedadagrad]", "*:server_cosine]", "*:adaptive_clipping]", "*:quantised]",
        "*:fedsgd]", "*:trimmed_mean]", "*:median]", "*:tree]", "*:gaussian_adaptive]",
        "*:lwf_50]", "*:transfer_generated_1]", "*:fedmed]",
    ),
    "test_restored_run.py": (
        "*[[]gaussian]", "*[[]secure discrete]", "*[[]tree]", "*[[]secure blt]", "*[[]adaptive]",
    ),
    "test_serve.py": (
        "test_served_rounds_match_train[[]fedmed]", "test_served_rounds_match_train[[]tree]",
        "test_served_rounds_match_train[[]one by one]",
    ),
    "test_serve_secure_sums.py": ("*_match_train[[]mean]", "*_match_train[[]blt]"),
    "test_algorithm_runs.py": (
        "test_trains_validates_*[[]mimelite, robust]",
        "test_trains_validates_*[[]scheduled mimelite]",
    ),
    "test_tutorials.py": (
        "test_a_tutorial_runs[[]fedatt_in_your_tff_code]",
        "test_a_tutorial_runs[[]write_an_aggregator]",
        "test_a_tutorial_runs[[]read_an_evaluation]",
        "test_a_tutorial_runs[[]from_tflite_to_an_android_strip]",
        "test_a_tutorial_runs[[]your_own_algorithm]",
    ),
    "test_own_parts.py": (
        "test_own_part_equals_the_shipped_one[[]server optimizer]",
        "test_own_client_algorithm_trains[[]client work]",
        "test_a_round_that_is_repeated_*-False]",
    ),
    "test_wheel.py": ("*[[]3.12]",),
    "test_killed_secure_run.py": ("test_sigkill_changes_nothing[[]*blt*]",),
}  # fmt: skip


def pytest_addoption(parser):
    parser.addoption("--without-tensorflow", action="store_true", help="skip what imports it")


def pytest_configure(config):
    """Whatever the run leaves behind is ended with it."""
    if not hasattr(config, "workerinput"):  # not in a process of xdist: below the one that has it
        reaper.start()
    if config.getoption("without_tensorflow"):
        without_tensorflow.start()


BENCHMARKS = pathlib.Path(__file__).parent / "tff_keyboard_lab" / "tests" / "benchmarks"


def pytest_collection_modifyitems(config, items):
    """Long files first, all else in its order; before `-m` looks at the markers.

    Benchmarks time the product, so their tests run with the slow ones.
    """
    unused = {(file, pattern) for file, patterns in THOROUGH.items() for pattern in patterns}
    for item in items:
        if BENCHMARKS in item.path.parents:
            item.add_marker(pytest.mark.slow)
        for pattern in THOROUGH.get(item.path.name, ()):
            if fnmatch.fnmatchcase(item.name, pattern):
                item.add_marker(pytest.mark.thorough)
                unused.discard((item.path.name, pattern))
    files = {item.path.name for item in items}
    stale = sorted(f"{file}: {pattern}" for file, pattern in unused if file in files)
    if stale and not any("::" in argument for argument in config.args):
        raise pytest.UsageError(f"conftest.py, THOROUGH has names of no test: {', '.join(stale)}")
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
        gc.collect()  # a context of a test that ended it, which ends its server
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
