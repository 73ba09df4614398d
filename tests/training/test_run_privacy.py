"""A run's privacy: started once, resumed exactly, and rejected if a second noise would be used."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from tff_keyboard.config import loads, to_dict
from tff_keyboard.config.resume_policy import numerics_config
from tff_keyboard.models import build_model
from tff_keyboard.privacy.accounting import accounting
from tff_keyboard.privacy.claims.guarantee import guarantee_of
from tff_keyboard.privacy.ledger.ledger import PrivacyLedger
from tff_keyboard.privacy.ledger.lineage import record_origin
from tff_keyboard.privacy.ledger.origin import id_of_run
from tff_keyboard.privacy.mechanisms.noise_key import NoiseKeyError
from tff_keyboard.storage.run_directory import RunDirectory
from tff_keyboard.training import build
from tff_keyboard.training.run_privacy import open_run_privacy

CLIENTS = [str(number) for number in range(100)]
WEIGHTS = [np.arange(6, dtype=np.float32).reshape(2, 3)]
FIXED = "0123456789abcdef" * 2
PRIVATE = (
    "aggregation.client_weighting=uniform",
    "aggregation.privacy.noise_multiplier=2.0",
    "train.min_separation_rounds=4",
    "train.rounds=20",
)


def config(mechanism="blt", *overrides):
    return loads("", [*PRIVATE, f"aggregation.privacy.type={mechanism}", *overrides])


def opened(path, config, **changes):
    path.mkdir(exist_ok=True)
    card = {"store_sha256": changes.pop("store_sha256", "ab"), "truecase": {"forms": 5}}
    arguments = {"initial_weights": WEIGHTS} | changes
    return open_run_privacy(
        config.aggregation,
        train=config.train,
        momentum=getattr(config.server, "momentum", 0.0),
        initial_model=config.model.initial_model,
        config_facts=numerics_config(to_dict(config)),
        ledger_path=path / "privacy_ledger.jsonl",
        nonce_path=path / "noise_nonce",
        store_card=card,
        client_ids=CLIENTS,
        selected_per_round=10,
        **arguments,
    )


def released(path, privacy, rounds):
    ledger = PrivacyLedger(path / "privacy_ledger.jsonl", privacy.header)
    for round_num in range(1, rounds + 1):
        ledger.record(round_num)


@pytest.mark.parametrize("mechanism", ["gaussian", "tree", "blt"])
def test_resumed_run_has_the_same_key_and_coefficients(tmp_path, mechanism):
    first = opened(tmp_path, config(mechanism))
    released(tmp_path, first, 3)
    again = opened(tmp_path, config(mechanism, "train.rounds=200"))
    assert again.mechanism == first.mechanism  # although another mechanism is best for 200 rounds
    assert again.key == first.key
    assert again.header == first.header
    assert again.header.truecase_forms == 5
    PrivacyLedger(tmp_path / "privacy_ledger.jsonl", again.header)
    np.testing.assert_array_equal(first.build_noise(5)(4), again.build_noise(5)(4))


def test_a_run_of_an_earlier_version_is_resumed_although_its_ledger_names_no_secure_sums(tmp_path):
    first = opened(tmp_path, config("tree"), secure_sums=False)
    released(tmp_path, first, 3)
    again = opened(tmp_path, config("tree"), secure_sums=True)
    PrivacyLedger(tmp_path / "privacy_ledger.jsonl", again.header)
    assert opened(tmp_path / "new", config("tree"), secure_sums=True).header.secure_sums


def test_a_ledger_says_that_a_program_changes_the_work_of_clients(tmp_path, monkeypatch):
    asked = {}
    monkeypatch.setattr(build, "open_run_privacy", lambda *_, **facts: asked.update(facts))
    for changes in (True, False):
        path = tmp_path / str(changes)
        path.mkdir()
        (path / "config.toml").touch()
        run = RunDirectory(path)
        record_origin(run, changes_client_work=changes)
        model = build_model("cifg", vocabulary_size=9, seed=1, units=2, embedding_size=2)
        store = SimpleNamespace(card={})
        build.build_privacy(
            config("tree"), run, store, model, client_ids=CLIENTS, selected_per_round=10
        )
        assert (asked["run_id"], asked["changes_client_work"]) == (id_of_run(run), changes)
    first = opened(tmp_path / "run", config("tree"), changes_client_work=True)
    assert first.header.changes_client_work
    released(tmp_path / "run", first, 3)
    again = opened(tmp_path / "run", config("tree"))
    assert again.header == first.header


def test_the_nonce_is_in_no_released_file(tmp_path):
    privacy = opened(tmp_path, config())
    released(tmp_path, privacy, 2)
    nonce = (tmp_path / "noise_nonce").read_text().strip()
    text = (tmp_path / "privacy_ledger.jsonl").read_text()
    assert nonce not in text
    assert privacy.key.key.hex() not in text
    assert json.loads(text.splitlines()[0])["key_id"] == privacy.key.key_id


@pytest.mark.parametrize(
    "overrides, changes",
    [
        (["aggregation.privacy.noise_multiplier=3.0"], {}),
        (["aggregation.privacy.clip_norm=0.25"], {}),
        (["train.excluded_client=3"], {}),
        (["aggregation.privacy.noise_cohort_size=6500"], {}),
        ([], {"store_sha256": "one person less"}),
        ([], {"initial_weights": [WEIGHTS[0] + 1]}),
    ],
    ids=["multiplier", "clip", "left out", "projection", "store", "weights"],
)
def test_runs_with_one_fixed_nonce_do_not_cancel(tmp_path, overrides, changes):
    """With equal noise, 2A - B at z = 1, 2, or A - C with one client less, would be exact sums."""
    fixed = f"aggregation.privacy.fixed_nonce={FIXED}"
    one = opened(tmp_path / "a", config("gaussian", fixed))
    other = opened(tmp_path / "b", config("gaussian", fixed, *overrides), **changes)
    noises = [privacy.build_noise(20_000)(0) for privacy in (one, other)]
    assert abs(np.corrcoef(noises)[0, 1]) < 0.04
    assert one.key.key_id != other.key.key_id


@pytest.mark.parametrize(
    "override",
    [
        "train.clients_per_round=20",
        "train.over_selection=1.5",
        "train.dropout_rate=0.2",
        "train.min_separation_rounds=3",
        "train.seed=2",
        "evaluation.every=7",
        "client.learning_rate=0.1",
        "client.max_examples=8",
        "client.epochs=2",
        "client.batch_size=4",
        "data.max_length=20",
        "server.learning_rate=0.5",
        "aggregation.compression.type=uniform_quantization",
        "aggregation.privacy.delta=1e-4",
        "averaging.type=exponential",
    ],
)
def test_every_key_of_the_config_changes_the_noise_of_a_fixed_nonce(tmp_path, override):
    """Otherwise the difference of two runs would be the exact difference of their sums."""
    fixed = f"aggregation.privacy.fixed_nonce={FIXED}"
    one = opened(tmp_path / "a", config("gaussian", fixed))
    other = opened(tmp_path / "b", config("gaussian", fixed, override))
    assert one.key.key_id != other.key.key_id


def test_other_general_corpus_gives_other_noise(tmp_path):
    """Its text is rehearsed, so it is in the sums; the config contains only its path."""
    rehearsal = ("fine_tuning.method.type=rehearsal", "fine_tuning.general_store=general")
    fixed = config("gaussian", f"aggregation.privacy.fixed_nonce={FIXED}", *rehearsal)
    keys = {
        opened(tmp_path / name, fixed, general_sha256=sha256).key.key_id
        for name, sha256 in (("a", "ab"), ("b", "ab"), ("c", "cd"))
    }
    assert len(keys) == 2


def test_keys_that_may_change_keep_the_noise(tmp_path):
    one = opened(tmp_path, config("gaussian"))
    changes = ("train.rounds=99", "train.keep_checkpoints=9", "execution.threads=2")
    assert opened(tmp_path, config("gaussian", *changes)).key == one.key


def test_cohorts_are_drawn_by_a_key_of_the_run(tmp_path):
    """All shipped configs have seed 1. With known cohorts epsilon is 23 instead of 2.06."""
    uniform = config("gaussian", "train.min_separation_rounds=1")
    one, other = (opened(tmp_path / name, uniform) for name in "ab")
    assert one.header.secret_cohorts
    assert one.header.amplifies
    assert opened(tmp_path / "a", uniform).cohort_key == one.cohort_key
    assert len({one.cohort_key, other.cohort_key, one.key.key, bytes.fromhex(one.key.key_id)}) == 4
    ledger = tmp_path / "a" / "privacy_ledger.jsonl"
    released(tmp_path / "a", one, 1)
    assert one.cohort_key.hex() not in ledger.read_text()


def test_a_fixed_nonce_claims_no_amplification(tmp_path):
    uniform = ("train.min_separation_rounds=1", f"aggregation.privacy.fixed_nonce={FIXED}")
    privacy = opened(tmp_path, config("gaussian", *uniform))
    assert privacy.cohort_key == b""
    assert not privacy.header.secret_cohorts
    assert guarantee_of(privacy.header, 12).epsilon == accounting.epsilon_of_zcdp(
        12 / (2 * 2.0**2), privacy.header.delta, method="exact Gaussian"
    )


def test_a_fixed_nonce_makes_runs_reproducible(tmp_path):
    fixed = config("tree", f"aggregation.privacy.fixed_nonce={FIXED}")
    one, other = opened(tmp_path / "a", fixed), opened(tmp_path / "b", fixed)
    np.testing.assert_array_equal(one.build_noise(4)(2), other.build_noise(4)(2))
    assert one.header.noise_source == "fixed nonce"
    assert not (tmp_path / "a" / "noise_nonce").exists()


def test_the_key_has_a_secret_outside_the_run(tmp_path, monkeypatch):
    monkeypatch.setenv("NOISE_SECRET", "sixteen bytes at least")
    assert opened(tmp_path / "a", config()).header.noise_source == "nonce"
    secret = config("blt", "aggregation.privacy.noise_secret=env:NOISE_SECRET")
    privacy = opened(tmp_path / "b", secret)
    assert privacy.header.noise_source == "secret"
    released(tmp_path / "b", privacy, 1)
    monkeypatch.setenv("NOISE_SECRET", "another secret of a run")
    with pytest.raises(NoiseKeyError, match=r"noise key differs from the key of"):
        opened(tmp_path / "b", secret)


def test_a_lost_nonce_ends_the_run(tmp_path):
    released(tmp_path, opened(tmp_path, config()), 1)
    (tmp_path / "noise_nonce").unlink()
    with pytest.raises(NoiseKeyError, match="is missing, but rounds were released"):
        opened(tmp_path, config())


def test_without_noise_there_is_no_key(tmp_path):
    privacy = opened(tmp_path, config("gaussian", "aggregation.privacy.noise_multiplier=0.0"))
    assert privacy.key is None
    assert privacy.build_noise is None
    assert privacy.header.key_id == ""
    assert not (tmp_path / "noise_nonce").exists()
