"""What does not go on a cluster says so before one is joined."""

import pytest

from tests.support.fakes import tiny_config
from tff_keyboard.storage.errors import ClusterError, ConfigError
from tff_keyboard.training import build


def test_transfer_is_refused():
    with pytest.raises(ConfigError, match=r"`execution\.engine` = 'ray' with .* 'transfer'"):
        tiny_config(
            "nowhere",
            "fine_tuning.server.type=transfer",
            "fine_tuning.general_store=nowhere",
            "execution.engine=ray",
        )


def test_a_cluster_must_be_named(monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    config = tiny_config("nowhere", "execution.engine=ray")
    with (
        pytest.raises(ClusterError, match=r"execution\.cluster\.address"),
        build.open_engine(config, []),
    ):
        pass
