"""Which nodes a training takes, with a Ray that does nothing."""

import types

import pytest

from tff_keyboard.config.sections.execution_config import ClusterConfig
from tff_keyboard.program.cluster import actor_pool, ray_client
from tff_keyboard.program.cluster.node import NodeOptions, NodeStart
from tff_keyboard.program.errors import ClusterError, ProgramError, WorkerError


class RayError(Exception):
    pass


class RayTaskError(RayError):
    cause = None


class Method:
    """Calls of a method of an actor: each is a reference."""

    def __init__(self, log):
        self.remote = lambda *unused: log.append(object()) or log[-1]


class FakeRay:
    """Nodes that answer when the test says what."""

    def __init__(self, nodes):
        self.exceptions = types.SimpleNamespace(RayError=RayError, RayTaskError=RayTaskError)
        self.alive = dict.fromkeys(nodes, "a node")
        self.free = set(nodes)
        self.answers, self.calls, self.killed = {}, {}, []

    def remote(self, unused_class):
        return self

    def options(self, node_id, **unused):
        def start(unused_options):
            calls = self.calls[node_id] = {name: [] for name in ("facts", "start", "compute")}
            methods = {name: Method(log) for name, log in calls.items()}
            return types.SimpleNamespace(node_id=node_id, **methods)

        return types.SimpleNamespace(remote=start)

    def answer(self, node_id, method, value):
        self.answers[self.calls[node_id][method][-1]] = value

    def wait(self, references, **unused):
        return [r for r in references if r in self.answers][:1], None

    def get(self, reference):
        value = self.answers[reference]
        if isinstance(value, Exception):
            raise value
        return value

    def kill(self, actor):
        self.killed.append(actor.node_id)


class Clock:
    """Stands in for `time`: as late as a test says."""

    def __init__(self):
        self.now = 100.0

    def monotonic(self):
        return self.now

    time = monotonic

    def sleep(self, seconds):
        self.now += seconds


@pytest.fixture
def ray(monkeypatch):
    found = FakeRay("abc")
    monkeypatch.setattr(ray_client, "live_nodes", lambda ray: ray.alive)
    monkeypatch.setattr(ray_client, "free_nodes", lambda ray: ray.free)
    monkeypatch.setattr(ray_client, "on_node", lambda node_id, **o: {"node_id": node_id, **o})
    monkeypatch.setattr(actor_pool.node_facts, "facts", lambda files: {})
    return found


@pytest.fixture
def clock(monkeypatch):
    monkeypatch.setattr(actor_pool, "time", Clock())
    return actor_pool.time


def pool_of(ray, **cluster):
    return actor_pool.ActorPool(ray, ClusterConfig(**cluster), NodeOptions(), {})


def make_ready(found, ray, node_id):
    ray.answer(node_id, "facts", {})
    found.wait(0)
    ray.answer(node_id, "start", NodeStart("host", 1, 0.0))
    found.wait(0)


def test_all_nodes_are_taken(ray, clock):
    found = pool_of(ray)
    found.look_for_nodes()
    assert set(ray.calls) == {"a", "b", "c"}
    make_ready(found, ray, "b")
    assert found.ready() == ["host/b"]
    assert len(found.absences()) == 2


def test_no_more_than_were_asked_for_and_none_that_is_in_use(ray, clock):
    ray.free = {"b", "c"}
    found = pool_of(ray, max_nodes=1)
    for _ in range(3):
        found.look_for_nodes()
        clock.now += 2
    assert set(ray.calls) == {"b"}
    make_ready(found, ray, "b")
    clock.now += 1000
    found.look_for_nodes()
    assert set(ray.calls) == {"b"}
    assert ray.killed == []


def test_a_node_that_another_was_quicker_to_take_is_left(ray, clock):
    ray.free = {"a", "b"}
    found = pool_of(ray, max_nodes=1)
    found.look_for_nodes()
    assert set(ray.calls) == {"a"}
    ray.free = {"c"}
    clock.now += actor_pool._CLAIM_SECONDS - 1
    found.look_for_nodes()
    assert ray.killed == []
    clock.now += 2
    found.look_for_nodes()
    clock.now += 2
    found.look_for_nodes()
    assert (ray.killed, set(ray.calls)) == (["a"], {"a", "c"})
    ray.answer("a", "facts", RayError("killed"))
    found.wait(0)
    make_ready(found, ray, "c")
    assert found.ready() == ["host/c"]
    assert not any("lost" in event for _, event in found.events)


def test_where_no_other_is_free_it_waits(ray, clock):
    ray.free = {"a"}
    found = pool_of(ray, max_nodes=1)
    found.look_for_nodes()
    ray.free = set()
    clock.now += 10_000
    found.look_for_nodes()
    assert ray.killed == []


@pytest.mark.parametrize(
    "raised, is_lost", [(WorkerError("All died."), True), (ProgramError("It failed."), False)]
)
def test_a_node_without_workers_is_started_anew(ray, clock, raised, is_lost):
    ray.alive = {"a": "a node"}
    found = pool_of(ray)
    found.look_for_nodes()
    make_ready(found, ray, "a")
    ticket = found.send("a", "key", None, None, None)
    error = RayTaskError()
    error.cause = raised
    ray.answers[ticket] = error
    (outcome,) = found.wait(0)
    assert outcome.error is raised  # it counts as an attempt
    assert (ray.killed == ["a"]) == is_lost
    assert (found.ready() == []) == is_lost
    clock.now += 2
    found.look_for_nodes()
    assert (len(ray.calls["a"]["start"]) == 0) == is_lost  # calls of the newest actor


def test_too_many_losses_end_it(ray, clock):
    found = pool_of(ray, max_losses=1)
    for loss in range(2):
        found.look_for_nodes()
        make_ready(found, ray, "a")
        ticket = found.send("a", "key", None, None, None)
        ray.answers[ticket] = RayError("gone")
        if loss:
            with pytest.raises(ClusterError, match=r"2 nodes were lost, more than .* = 1"):
                found.wait(0)
        else:
            assert found.wait(0)[0].value is None
        clock.now += 2


def test_at_most_must_not_be_less_than_at_least():
    with pytest.raises(ValueError, match="max_nodes"):
        ClusterConfig(min_nodes=3, max_nodes=2)
