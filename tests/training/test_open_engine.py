"""What does not go on a cluster says so before one is joined."""

import pytest

from tests.support.fakes import tiny_config
from tff_keyboard.storage.errors import ClusterError
from tff_keyboard.training import build


def test_a_cluster_must_be_named(monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    config = tiny_config("nowhere", "execution.engine=ray")
    with (
        pytest.raises(ClusterError, match=r"execution\.cluster\.address"),
        build.open_engine(config, []),
    ):
        pass
