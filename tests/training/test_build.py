"""What a config asks for reaches the learning process."""

import numpy as np
import pytest

from tests.support import fakes
from tff_keyboard.data import batches
from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.training import build


@pytest.mark.slow
@pytest.mark.parametrize(
    "weighting, weights",
    [
        pytest.param("uniform", (1, 1), marks=pytest.mark.slow),
        ("examples", (1, 3)),
        pytest.param("tokens", (12, 6), marks=pytest.mark.slow),
    ],
)
def test_weight_of_a_client_follows_the_config(store, weighting, weights):
    """One step on a linear part: the mean of two clients by these weights, in float64."""
    config = fakes.tiny_config(
        store,
        "model.units=2",
        "model.embedding_size=2",
        "client.batch_size=8",
        "server.type=fedavg",
        "server.learning_rate=1.0",
        "client.learning_rate=1.0",
        "aggregation.protection.type=off",
        "aggregation.protection.zeroing=false",
        f"aggregation.client_weighting={weighting}",
    )
    vocabulary = ClientStore(store).vocabulary
    process = build.build_process(config, build.build_initial_model(config, vocabulary))
    messages = ([np.arange(4, 15)], 3 * [np.array([20])])  # 12 and 3 * 2 tokens, ends included
    clients = [
        batches.batches_dataset(
            batches.client_batches(
                own, batch_size=8, max_length=20, max_examples=0, epochs=1, seed=(1,)
            )
        )
        for own in messages
    ]
    state = process.initialize()
    if weighting != "uniform":
        state.aggregator["median"] = np.float32(100)  # people have been seen to bring so much
    rounds = [process.next(state, c) for c in (clients[:1], clients[1:], clients)]
    # Uniform weights are so on the client already: the server has nothing to correct.
    assert [r.metrics["aggregator"]["impossible_claims"] for r in rounds] == [0, 0, 0]
    one, other, both = (
        [np.float64(w) for w in process.get_model_weights(r.state).trainable] for r in rounds
    )
    for a, b, mean in zip(one, other, both, strict=True):
        expected = (weights[0] * a + weights[1] * b) / sum(weights)
        np.testing.assert_allclose(mean, expected, rtol=1e-4, atol=1e-6)
    assert any(np.abs(a - b).max() > 1e-3 for a, b in zip(one, other, strict=True))
