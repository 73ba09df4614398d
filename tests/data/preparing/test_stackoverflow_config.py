"""`configs/stackoverflow.toml` on a file of TFF's schema: the protocol of Reddi et al. 2021."""

import numpy as np
import pytest

from tests.data.sources.test_tff_sqlite import post, write_client_data
from tff_keyboard import config as config_lib
from tff_keyboard.data.preparing.prepare import prepare
from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.data.vocabulary import NUM_SPECIAL, OOV
from tff_keyboard.training.client_inputs import CohortInputs

LONG = " ".join(f"w{number % 7}" for number in range(30))


@pytest.fixture(scope="module", name="prepared")
def _prepared(tmp_path_factory):
    """Returns the config and the store of 60 users, ten of them held out by the file."""
    folder = tmp_path_factory.mktemp("stackoverflow")
    rows = [("train", str(user), post(LONG)) for user in range(50)]
    rows += [("train", str(user), post(f"only {user} .")) for user in range(50)]
    rows += [("test", str(user), post("edit : later")) for user in range(50)]
    rows += [("heldout", f"h{user}", post("w1 w2 .")) for user in range(10)]
    file = write_client_data(folder / "stackoverflow.sqlite", rows)
    store = folder / "store"
    overrides = [f'data.input=["{file}"]', f"data.store={store}", "data.validation_fraction=0.1"]
    config = config_lib.load("configs/stackoverflow.toml", overrides)
    prepare(config.data, store)
    return config, ClientStore(store)


def test_the_protocol_of_the_paper():
    config = config_lib.load("configs/stackoverflow.toml")
    assert config.data.vocabulary_size == 10_000 + NUM_SPECIAL
    assert config.data.max_length == 20
    assert (config.train.rounds, config.train.clients_per_round) == (1500, 50)
    assert (config.client.batch_size, config.client.epochs) == (16, 1)
    assert config.client.max_examples == 1000
    assert config.server.type == "fedadam"


def test_held_out_users_of_the_file_stay_held_out(prepared):
    _, store = prepared
    assert len(store.client_ids("held_out")) == 10
    assert len(store.client_ids("train")) + len(store.client_ids("validation")) == 50
    assert store.client_ids("train_later")  # later messages are not trained on


def test_training_sees_the_first_twenty_targets_of_a_message(prepared):
    config, store = prepared
    inputs = CohortInputs(
        store,
        train=config.train.__class__(clients_per_round=2),
        client=config.client,
        max_length=config.data.max_length,
        long_messages=config.data.long_messages,
    )
    (batch,) = inputs.batches(1, 0)  # [messages, time + 1]: the long one and the short one
    assert batch.shape == (2, 21)
    targets = np.count_nonzero(batch[:, 1:], axis=1)
    assert sorted(targets) == [4, 20]  # "only N ." and the end; the rest of the long one is ignored
    assert not np.any(batch == OOV)
