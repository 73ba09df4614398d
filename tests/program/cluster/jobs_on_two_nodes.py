"""The engine on two nodes of a Ray cluster, without TFF; `test_two_nodes.py` runs this.

One cluster serves all: to start a node costs more than all that is computed on it.
"""

import contextlib
import os
import pathlib
import signal

import pytest

from tests.support.cluster.cluster_fakes import Arithmetic
from tests.support.cluster.cluster_faults import KINDS, Faults, leftovers
from tff_keyboard.config.sections.execution_config import ClusterConfig
from tff_keyboard.program.cluster import ray_client, ray_engine, schedule
from tff_keyboard.program.cluster.node import NodeOptions
from tff_keyboard.program.cluster.ray_engine import RayEngine
from tff_keyboard.program.engines.engine import Job
from tff_keyboard.program.errors import ClusterError, RunDirectoryError

LAZY = NodeOptions(at_once=False)
PATIENT = ClusterConfig(min_nodes=2, wait_seconds=300.0, max_losses=1000)


@contextlib.contextmanager
def joined(*arguments):
    """An engine; nothing of ours is left on the nodes behind it."""
    with contextlib.closing(RayEngine(*arguments)) as found:
        yield found
    assert leftovers(("ray::NodeServer",)) == []


@pytest.fixture
def engine(cluster):
    with joined(PATIENT, LAZY, {}) as found:
        yield found


def job(items, folder=None, addend=0, seconds=0.0):
    return Job(Arithmetic(), (folder and str(folder), addend, seconds), items)


def squares(items, addend=0):
    return [(i, addend + item**2) for i, item in enumerate(items)]


def test_every_item_once_on_both_nodes(engine, monkeypatch):
    monkeypatch.setattr(schedule, "_SLOW_SECONDS", 1e6)  # no item twice, however slow the machine
    for addend in (0, 10):
        items = [3, 1, 4, 1, 5, 9]
        found = list(engine.run(job(items, addend=addend, seconds=0.05)))
        assert sorted(found) == squares(items, addend)
    spans = engine.pop_spans()
    assert [span.outcome for span in spans] == ["done"] * 12
    assert len({span.node for span in spans}) == 2 == len(engine.place_names())
    for span in spans:
        assert 0.05 <= span.compute_seconds <= span.end - span.start + 1e-6  # rounding of the epoch
    assert list(engine.run(job([]))) == []


def test_a_job_that_is_given_up_leaves_the_engine_ready(engine):
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


def test_errors_of_the_data_end_it_and_others_are_tried_again(engine, tmp_path):
    (tmp_path / "passing_2").touch()
    assert sorted(engine.run(job(range(4), tmp_path))) == squares(range(4))
    assert sum(path.name.startswith("2_") for path in tmp_path.iterdir()) == 2
    (tmp_path / "fail_3").touch()
    with pytest.raises(RunDirectoryError, match=r"^item 3 has no data$"):
        list(engine.run(job(range(4), tmp_path)))


def test_what_hangs_is_computed_by_another(engine, tmp_path):
    (tmp_path / "stop_1").touch()
    assert sorted(engine.run(job(range(6), tmp_path, seconds=0.1))) == squares(range(6))
    # The node that hangs is not asked again, and the other one goes on.
    assert sorted(engine.run(job(range(3)))) == squares(range(3))


def test_no_node_fits(cluster, monkeypatch):
    own = ray_engine.ActorPool

    class OtherMachine(own):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            self._own_facts["processor"] = "another one"

        def wait(self, seconds):
            return super().wait(seconds if self._refused else 300.0)  # until one has answered

    monkeypatch.setattr(ray_engine, "ActorPool", OtherMachine)
    strict = ClusterConfig(min_nodes=1, wait_seconds=0.1)
    with pytest.raises(ClusterError, match=r"0 of 1 .* is not as this machine: processor: "):
        RayEngine(strict, LAZY, {})
    lenient = ClusterConfig(min_nodes=1, wait_seconds=300.0, allow_other_bits=True)
    with joined(lenient, LAZY, {}):
        pass


def test_trainings_share_a_cluster(cluster):
    """One that wants a single node leaves the other free."""
    import ray

    with joined(ClusterConfig(max_nodes=1, wait_seconds=300.0), LAZY, {}) as found:
        assert sorted(found.run(job(range(4)))) == squares(range(4))
        (place,) = found.place_names()
        assert {span.node for span in found.pop_spans()} == {place}
        assert len(ray_client.free_nodes(ray)) == 1


def test_status(cluster, tmp_path, capsys):
    from tasks import cli
    from tasks.train import cluster as cluster_task

    assert cli.launch(cluster_task, ["status"]) == cli.OK
    rows = capsys.readouterr().out.splitlines()
    assert len(rows) == 3
    assert all(row.split()[1:] == ["nobody", "yes"] for row in rows[1:])
    (tmp_path / "data_card.json").write_text("{}")
    assert cli.launch(cluster_task, ["status", f"--store={tmp_path}"]) == cli.OK


def shared_memory():
    return sorted(pathlib.Path("/dev/shm").iterdir())


@pytest.mark.slow
def test_fifty_faults(cluster, engine):
    """At random moments of jobs without TFF; `trainings_on_two_nodes.py` has them in a training."""
    seed = os.environ.get("FAULT_SEED", "1")
    faults = Faults(cluster, seed, [kind for kind in KINDS if kind != "worker"])
    items = range(12)
    start = len(shared_memory())
    for _ in range(200):
        if faults.happened.total() >= 50:
            break
        moment, results = faults.random.choice(items), []
        for result in engine.run(job(items, seconds=0.2)):
            if len(results) == moment:
                faults.happen()
            results.append(result)
        assert sorted(results) == squares(items)
        faults.end()
    print(f"seed {seed}: {dict(faults.happened)}")
    assert faults.happened.total() >= 50
    assert len(shared_memory()) <= start + 3  # of one more node
