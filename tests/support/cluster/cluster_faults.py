"""What may happen to a cluster of `cluster_fakes`: something dies or is slow."""

import collections
import os
import random
import signal
import threading
import time

from tests.support.cluster import cluster_fakes
from tests.support.cluster.cluster_fakes import named, signal_if_there

KINDS = ("actor", "node", "slow")
_SLOW_SECONDS = 0.7


class Faults:
    """Faults at random moments, all drawn by the seed; what goes on ends with `end`.

    A fault that needs what is not there (an actor) is drawn again.

    Args:
      cluster: Gets another node if it has none besides the head's and the driver's, which are never
        killed nor cut off: the driver would end with them.
      seed: Seed of kinds and victims.
      kinds: Names out of `KINDS`.
    """

    def __init__(self, cluster, seed, kinds=KINDS):
        self.random = random.Random(seed)
        self.happened = collections.Counter()
        self._cluster = cluster
        self._kinds = kinds
        self._at_end = []

    def happen(self):
        """One fault, in a driver that has joined the cluster."""
        if not self._others():
            self._start()
        kinds = self.random.sample(self._kinds, len(self._kinds))
        self.happened[next(kind for kind in kinds if getattr(self, f"_{kind}")())] += 1

    def end(self):
        """Ends what goes on; a node that was given up meanwhile is started again."""
        while self._at_end:
            self._at_end.pop()()
        for process in self._cluster.processes[1:]:
            if process.poll() is not None:
                self._replace(process)

    def _actor(self):
        return self._signal(named("ray::Node"), signal.SIGKILL)

    def _node(self):
        """All processes of a machine are killed, and another machine comes."""
        process = self.random.choice(self._others())
        self._cluster.kill_node(process)
        self._replace(process)
        return True

    def _slow(self):
        return self._pause(lambda goes_on: threading.Timer(_SLOW_SECONDS, goes_on).start())

    def _pause(self, later):
        victims = sorted(named("ray::Node"))
        if not victims:
            return False
        victim = self.random.choice(victims)
        signal_if_there(victim, signal.SIGSTOP)
        later(lambda: signal_if_there(victim, signal.SIGCONT))
        return True

    def _signal(self, victims, number):
        if not victims:
            return False
        signal_if_there(self.random.choice(sorted(victims)), number)
        return True

    def _others(self):
        return [node for node in self._cluster.processes[1:] if not is_drivers(node)]

    def _replace(self, process):
        self._cluster.processes.remove(process)
        self._start()

    def _start(self):
        self._cluster.start(f"--address={cluster_fakes.ADDRESS}")


def is_drivers(node):
    """Whether the driver belongs to a node: it would end with it."""
    from ray._private import worker

    socket = worker._global_node.raylet_socket_name
    table = cluster_fakes.processes()
    return any(socket in table[pid][1] for pid in cluster_fakes.processes_of(node.pid))


def leftovers(is_ours=("ray::Node",), seconds=60.0):
    """Processes of ours that are still there after some time; those that this one started aside."""
    deadline = time.monotonic() + seconds
    while True:
        table = cluster_fakes.processes()
        found = [
            command
            for parent, command in table.values()
            if parent != os.getpid() and any(text in command for text in is_ours)
        ]
        if not found or time.monotonic() > deadline:
            return found
        time.sleep(0.1)
