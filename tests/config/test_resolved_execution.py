import pytest

from tff_keyboard import config as config_lib
from tff_keyboard.config.resolved_execution import as_begun, with_parts


def resolved(recorded, *overrides):
    return with_parts(as_begun(config_lib.loads("", overrides), recorded)).execution


def test_a_new_run_has_packs_and_a_sub_round_for_each_worker():
    execution = resolved(None, "execution.workers=3", "train.clients_per_round=1000")
    assert (execution.clients_per_pack, execution.sub_rounds) == (0, 3)


@pytest.mark.parametrize(
    "clients, workers, parts", [(40, 1, 1), (41, 1, 2), (41, 3, 3), (200, 3, 5)]
)
def test_one_by_one_parts_are_of_forty_clients(clients, workers, parts):
    execution = resolved(
        None,
        "execution.clients_per_pack=1",
        f"execution.workers={workers}",
        f"train.clients_per_round={clients}",
    )
    assert execution.sub_rounds == parts


def test_a_run_goes_on_with_the_packs_it_began_with():
    assert resolved("[execution]\nclients_per_pack = 0\n").clients_per_pack == 0
    recorded = "[execution]\nclients_per_pack = 1\n"
    assert resolved(recorded).clients_per_pack == 1
    assert resolved(recorded, "execution.clients_per_pack=8").clients_per_pack == 8  # refused later


@pytest.mark.parametrize("parts, block", [(64, 1), (65, 16)])
def test_many_parts_are_added_up_in_blocks(parts, block):
    assert resolved(None, f"execution.sub_rounds={parts}").merge_block == block
    begun = f"[execution]\nsub_rounds = {parts}\nmerge_block = 1\n"
    assert resolved(begun, f"execution.sub_rounds={parts}").merge_block == 1


def test_a_run_keeps_its_parts_wherever_it_goes_on():
    begun = config_lib.dump(with_parts(config_lib.loads("", ["execution.engine=ray"])))
    assert resolved(begun).sub_rounds == 16
    assert resolved(begun, "execution.workers=4").sub_rounds == 16
    begun = config_lib.dump(with_parts(config_lib.RunConfig()))
    execution = resolved(begun, "execution.workers=4")
    assert (execution.sub_rounds, execution.workers) == (1, 1)


def test_what_is_given_stays():
    assert resolved(None, "execution.sub_rounds=7").sub_rounds == 7
