"""The context in which tests compute: this process."""

import contextlib
import gc

import tensorflow_federated as tff

from tff_keyboard.algorithms.client_packing.local_context import LocalContext


class _InThisProcess(LocalContext):
    """Fails if a computation would go to TFF's own runtime, which starts a server."""

    def _run_natively(self, comp, arg):
        raise AssertionError(f"This does not run in this process: {comp.type_signature}")


CONTEXT = _InThisProcess()


def use():
    """Makes it TFF's default again, after a test that had a context of its own."""
    tff.framework.set_default_context(CONTEXT)


@contextlib.contextmanager
def stock_tff():
    """TFF's own runtime is the default; the server that it starts ends with the block."""
    context = tff.backends.native.create_sync_local_cpp_execution_context()
    tff.framework.set_default_context(context)
    try:
        yield
    finally:
        use()
        del context
        gc.collect()
