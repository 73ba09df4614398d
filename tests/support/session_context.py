"""The context in which tests compute: one worker of ours for the whole session.

TFF's own context starts a server that listens on all interfaces, without a password, and that
outlives a test run which is interrupted.
"""

import os

import tensorflow_federated as tff

from tff_keyboard.program.workers import worker_context, worker_pool


class SessionContext(tff.framework.SyncContext):
    """Starts its worker at the first computation; another one in a process that was forked."""

    def __init__(self):
        self._owner, self._context = 0, None

    def invoke(self, comp, arg):
        if self._owner != os.getpid():
            pool = worker_pool.WorkerPool(1, threads=1, max_restarts=1000)
            self._context, self._owner = worker_context.WorkerContext(pool), os.getpid()
        return self._context.invoke(comp, arg)


CONTEXT = SessionContext()


def use():
    """Makes it TFF's default again, after a test that had a context of its own."""
    tff.framework.set_default_context(CONTEXT)
