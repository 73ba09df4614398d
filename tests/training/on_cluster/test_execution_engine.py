"""What does not go on a cluster says so before one is joined."""

import pytest

from tests.support.fakes import tiny_config
from tff_keyboard.storage.errors import ClusterError, ConfigError
from tff_keyboard.training.on_cluster import execution_engine


def test_transfer_is_refused():
    config = tiny_config(
        "nowhere",
        "fine_tuning.server.type=transfer",
        "fine_tuning.general_store=nowhere",
        "execution.engine=ray",
    )
    with (
        pytest.raises(ConfigError, match=r"`fine_tuning\.server\.type` = 'transfer'"),
        execution_engine.opened(config, []),
    ):
        pass


def test_a_cluster_must_be_named(monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    config = tiny_config("nowhere", "execution.engine=ray")
    with (
        pytest.raises(ClusterError, match=r"execution\.cluster\.address"),
        execution_engine.opened(config, []),
    ):
        pass


def test_clients_are_handed_over_as_they_are_on_this_machine():
    assert execution_engine.by_name(tiny_config("nowhere"), None, None) is None
