"""The profile of a round, in miniature."""

import pytest
import tensorflow as tf

from tff_keyboard_lab.benchmarks.round import profile
from tff_keyboard_lab.benchmarks.round.round_clients import num_tokens, synthetic_clients


def test_times_are_of_the_kind_of_their_operation():
    trace = tf.compat.v1.RunMetadata()
    nodes = trace.step_stats.dev_stats.add().node_stats

    def add(label, begin, end, *shape):
        node = nodes.add(
            timeline_label=f"name = {label}(inputs)",
            all_start_micros=begin,
            op_end_rel_micros=end - begin,
            all_end_rel_micros=end - begin,
        )
        node.output.add()
        for size in shape:
            node.output[0].tensor_description.shape.dim.add(size=size)

    add("_MklMatMul", 1_000, 3_000, 10_000, 96)
    add("Sub", 3_000, 4_000, 10_000, 96)
    add("L2Loss", 4_000, 4_500)
    add("Tanh", 5_000, 6_000, 9, 670)
    add("StatefulPartitionedCall", 1_000, 9_000)  # it has all of them
    actual = profile.summary(trace)
    assert actual["kinds"] == {"products": 2, "weight passes": 1.5, "small": 1, "between": 3.5}
    assert actual["milliseconds"] == 8
    assert actual["operations"]["Sub"] == 1


@pytest.mark.slow
@pytest.mark.parametrize("first_step", ["shared", "separate"])
def test_a_pack_is_traced(first_step, monkeypatch):
    monkeypatch.setattr(profile, "VOCABULARY", 60)
    clients = synthetic_clients(3, 4, 2, 6, seed=1)
    actual = profile.profile([[batch % 50 for batch in client] for client in clients], first_step)
    assert 0 < actual["clients"] <= 3
    assert 0 < actual["tokens"] <= num_tokens(clients)
    assert actual["kinds"]["products"] > 0 < actual["kinds"]["small"]
    assert sum(actual["kinds"].values()) >= 0.99 * actual["milliseconds"]
