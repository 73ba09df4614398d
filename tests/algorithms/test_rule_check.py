"""`check_rule` with the context that TFF has after its import, which starts a server."""

import pytest
import tensorflow_federated as tff

import tff_keyboard as tk
from tests.support import session_context


class _Server(tff.framework.SyncContext):
    """Stands for TFF's own context, whose first computation starts an open server."""

    def invoke(self, comp, arg):
        raise AssertionError("TFF's server would start.")


@pytest.fixture
def _context_of_tff():
    tff.framework.set_default_context(_Server())
    yield
    session_context.use()


@pytest.mark.usefixtures("_context_of_tff")
def test_starts_no_server():
    problems = tk.aggregators.check_rule(tk.aggregators.UpdateGuard(tk.aggregators.Median()))
    assert problems
    assert not any(problems.values()), problems
    with pytest.raises(AssertionError, match="server would start"):  # the default is left alone
        tff.federated_computation(lambda: tff.federated_value(1, tff.SERVER))()


def test_keeps_a_context_of_ours(monkeypatch):
    """As with `local_context(allow_tff_server=True)`, which may run what cannot be packed."""
    seen = []
    invoke = session_context.CONTEXT.invoke
    monkeypatch.setattr(
        session_context.CONTEXT, "invoke", lambda comp, arg: seen.append(comp) or invoke(comp, arg)
    )
    tk.aggregators.check_rule(tk.aggregators.UpdateGuard(tk.aggregators.Median()))
    assert seen
