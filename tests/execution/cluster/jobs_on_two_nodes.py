"""The engine on two nodes of a Ray cluster, without TFF; run by `test_two_nodes.py`.

All tests share one cluster, because starting a node takes longer than all computations on it.
"""

import contextlib
import os
import signal

import pytest

from tests.support.cluster.cluster_fakes import Arithmetic, named
from tests.support.cluster.cluster_faults import KINDS, Faults, leftovers
from tff_keyboard.config.sections.execution_config import ClusterConfig
from tff_keyboard.execution.cluster import node_facts, ray_client
from tff_keyboard.execution.cluster.ray_engine import RayEngine
from tff_keyboard.execution.engine import Job
from tff_keyboard.storage.errors import ClusterError, RunDirectoryError

PATIENT = ClusterConfig(min_nodes=2, wait_seconds=300.0, max_losses=1000)


@contextlib.contextmanager
def joined(config):
    """Yields an engine and its messages; checks that nothing is left on the nodes afterwards."""
    told = []
    with contextlib.closing(RayEngine(config, {}, threads=1, tell=told.append)) as found:
        yield found, told
    assert leftovers(("ray::Node",)) == []


@pytest.fixture
def engine(cluster):
    with joined(PATIENT) as (found, _):
        yield found


def job(items, folder=None, addend=0, seconds=0.0):
    return Job(Arithmetic(), (folder and str(folder), addend, seconds), items)


def squares(items, addend=0):
    return [(i, addend + item**2) for i, item in enumerate(items)]


def test_every_item_once_on_both_nodes(engine, tmp_path):
    for addend in (0, 10):
        items = [3, 1, 4, 1, 5, 9]
        found = list(engine.run(job(items, tmp_path, addend, seconds=0.05)))
        assert sorted(found) == squares(items, addend)
    assert len(list(tmp_path.iterdir())) == 12
    assert len({path.name.split("_")[1] for path in tmp_path.iterdir()}) == 2  # processes
    assert list(engine.run(job([]))) == []


def test_engine_is_usable_after_a_cancelled_job(engine):
    def interrupt(*unused):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.5)
    try:
        with pytest.raises(KeyboardInterrupt):  # while the main thread waits for a result
            list(engine.run(job(range(100), seconds=0.3)))
    finally:
        signal.signal(signal.SIGALRM, before)
    assert sorted(engine.run(job([2, 3]))) == squares([2, 3])


def test_errors_of_items_are_raised(engine, tmp_path):
    (tmp_path / "fail_3").touch()
    with pytest.raises(RunDirectoryError, match=r"^item 3 has no data$"):
        list(engine.run(job(range(4), tmp_path)))
    assert sorted(engine.run(job([2, 3]))) == squares([2, 3])


def test_dead_process_is_restarted(engine):
    found = []
    for result in engine.run(job(range(8), seconds=0.3)):
        if not found:
            os.kill(min(named("ray::Node")), signal.SIGKILL)
        found.append(result)
    assert sorted(found) == squares(range(8))


def test_no_node_fits(cluster, monkeypatch):
    compare = node_facts.differences

    def differences(own, other, *, lenient):
        return compare({**own, "processor": "another one"}, other, lenient=lenient)

    monkeypatch.setattr(node_facts, "differences", differences)
    strict = ClusterConfig(min_nodes=1, wait_seconds=5.0)
    with pytest.raises(ClusterError, match=r"0 of 1 nodes .* cannot be used: processor: "):
        RayEngine(strict, {}, tell=lambda text: None)
    lenient = ClusterConfig(min_nodes=1, wait_seconds=300.0, allow_nondeterminism=True)
    with joined(lenient):
        pass


def test_trainings_share_a_cluster(cluster):
    """A training that needs one node leaves the other free."""
    import ray

    with joined(ClusterConfig(max_nodes=1, wait_seconds=300.0)) as (found, _):
        assert sorted(found.run(job(range(4)))) == squares(range(4))
        assert len(ray_client.free_nodes(ray)) == 1


def test_status(cluster, tmp_path, capsys):
    from tasks.train import cluster as cluster_task
    from tff_keyboard.command_line import cli

    assert cli.launch(cluster_task, []) == cli.OK
    rows = capsys.readouterr().out.splitlines()
    assert len(rows) == 3
    assert all(row.split()[1:] == ["-", "yes"] for row in rows[1:])
    (tmp_path / "data_card.json").write_text("{}")
    assert cli.launch(cluster_task, [f"--store={tmp_path}"]) == cli.OK


@pytest.mark.slow
def test_twenty_faults(cluster, engine):
    """Faults at random moments of jobs without TFF."""
    seed = os.environ.get("FAULT_SEED", "1")
    faults = Faults(cluster, seed, KINDS)
    items = range(12)
    for _ in range(100):
        if faults.happened.total() >= 20:
            break
        moment, results = faults.random.choice(items), []
        for result in engine.run(job(items, seconds=0.2)):
            if len(results) == moment:
                faults.happen()
            results.append(result)
        assert sorted(results) == squares(items)
        faults.end()
    print(f"seed {seed}: {dict(faults.happened)}")
    assert faults.happened.total() >= 20
