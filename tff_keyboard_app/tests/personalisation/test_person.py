"""Personalisation of many users: the protocol, the gate, the records and the report."""

import dataclasses
import json
import stat

import numpy as np
import pytest

from tests.support.keyboard import export_fakes, hybrid_export
from tests.support.keyboard.export_fakes import export
from tff_keyboard.evaluation.counts import predictor_evaluation
from tff_keyboard.evaluation.counts.typed_text import TypedText
from tff_keyboard.evaluation.metrics.metric_table import HOST_SUMS
from tff_keyboard.storage.errors import DataError, ExportError
from tff_keyboard_app.personalisation import on_device
from tff_keyboard_app.personalisation import report as report_lib
from tff_keyboard_app.personalisation.on_device import Settings
from tff_keyboard_app.personalisation.person import (
    CACHE,
    CACHE_TUNED,
    NETWORK,
    TUNED,
    Personaliser,
    PersonResult,
)
from tff_keyboard_app.personalisation.records import Records
from tff_keyboard_app.personalisation.report import CACHE_GATED, GATED, Summary
from tflite_export.export.export_options import ExportOptions
from tflite_export.runtime.hybrid_keyboard import open_keyboard
from tflite_export.runtime.keyboard_predictor import KeyboardPredictor

HABIT = [["see", "you", "later", "dinner", "keys"], ["ok", "johann", "later", "keys"]] * 15
SETTINGS = Settings(learning_rate=0.1, epochs=3)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    folder = tmp_path_factory.mktemp("everybody")
    return hybrid_export.export_hybrid(folder, quantization="int8-rows", trainable=True)


@pytest.fixture(scope="module")
def personaliser(path):
    return Personaliser(open_keyboard(path), SETTINGS)


def test_a_person_with_habits_gains(personaliser):
    result = personaliser.person(HABIT)
    assert result.train_messages == 18
    assert result.is_kept
    assert result.loss_after < 0.8 * result.loss_before
    hits = {model: sums["hits_at_3"] for model, sums in result.sums.items()}
    assert hits[TUNED] > hits[NETWORK]
    assert hits[CACHE] > hits[NETWORK]
    assert hits[CACHE_TUNED] >= hits[CACHE]
    # Only the cache can offer the name, which it has learnt before the part that is measured.
    assert result.sums[CACHE]["oov_hits_at_3"] == result.sums[CACHE]["oov_tokens"] > 0
    assert result.sums[TUNED]["oov_hits_at_3"] == 0


def test_original_models_match_the_export(path, personaliser):
    _, _, later = SETTINGS.parts(HABIT)
    text = TypedText("later", ("",), (list(later),))
    expected = predictor_evaluation.evaluate(KeyboardPredictor(path), text, max_length=20).sums
    actual = personaliser.person(HABIT).sums[NETWORK]
    assert set(actual) == set(HOST_SUMS)
    assert actual == pytest.approx({name: values[0] for name, values in expected.items()}, rel=1e-5)


def test_the_tuned_model_is_that_of_personalise(path, personaliser):
    report = on_device.personalise(KeyboardPredictor(path), HABIT, SETTINGS)
    actual = personaliser.person(HABIT)
    assert actual.sums[TUNED]["hits_at_3"] / report.words == pytest.approx(report.after[3])
    losses = (actual.loss_before, actual.loss_after)
    assert report.deciding_losses == pytest.approx(losses, rel=1e-5)


def test_nothing_of_one_person_reaches_the_next(personaliser):
    other = [["are", "you", "coming", "zoë"], ["thank", "you", "zoë"]] * 5
    first = personaliser.person(other)
    personaliser.person(HABIT)
    assert personaliser.person(other) == first


def test_parts_are_in_the_order_typed_and_never_empty():
    for count in range(5, 40):
        messages = [[str(i)] for i in range(count)]
        parts = Settings().parts(messages)
        assert [m for part in parts for m in part] == messages
        assert all(parts)
    assert [len(p) for p in Settings().parts([["a"]] * 100)] == [60, 20, 20]
    latest = Settings(max_messages=10).parts([[str(i)] for i in range(100)])
    assert latest[0][0] == ["90"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train_share": 0.0}, "`train_share`"),
        ({"train_share": 0.7, "validation_share": 0.3}, "leave messages"),
        ({"validation_share": -0.1}, "`validation_share`"),
        ({"learning_rate": float("nan")}, "`learning_rate`"),
        ({"epochs": 0}, "`epochs`"),
        ({"max_messages": 4}, "`max_messages`"),
    ],
)
def test_settings_out_of_range(changes, message):
    with pytest.raises(ExportError, match=message):
        Settings(**changes)


def test_training_that_diverges_is_not_kept(path):
    wild = Personaliser(open_keyboard(path), Settings(learning_rate=1e30))
    result = wild.person(HABIT)
    assert result.loss_after is None
    assert not result.is_kept
    assert result.sums[TUNED] == result.sums[NETWORK]
    assert result.sums[CACHE_TUNED] == result.sums[CACHE]
    assert wild.person(HABIT) == result  # and the next person starts from sound weights


@pytest.mark.slow
def test_without_an_ngram_there_is_no_cache(tmp_path):
    run = export_fakes.save_run(tmp_path / "run")
    path = export(run, tmp_path / "k.tflite", ExportOptions(trainable=True)).paths.model
    result = Personaliser(open_keyboard(path), SETTINGS).person(HABIT)
    assert set(result.sums) == {NETWORK, TUNED}
    assert "cache" not in Summary([result]).table()


def test_a_file_that_cannot_train_is_refused(tmp_path):
    path = hybrid_export.export_hybrid(tmp_path)
    with pytest.raises(ExportError, match="with --trainable"):
        Personaliser(open_keyboard(path), SETTINGS)


# --- report


def person(hits, *, words=100, loss=(2.0, 1.0)):
    """Returns a user whose models have these top-3 hits."""
    sums = {
        model: dict.fromkeys(HOST_SUMS, 0.0)
        | {
            "tokens": words + 10.0,
            "eos_tokens": 10.0,
            "hits_at_1": float(found // 2),
            "hits_at_3": float(found),
            "characters": 5.0 * words,
            "typed_free": 5.0 * words - found,
        }
        for model, found in zip((NETWORK, TUNED, CACHE, CACHE_TUNED), hits, strict=True)
    }
    return PersonResult(10, loss[0], loss[1], sums)


def test_the_report_by_hand():
    rng = np.random.default_rng(0)
    people = [
        person([20, 20 + int(gain), 30, 30 + int(gain)], loss=(2.0, 2.0 - 0.1 * gain))
        for gain in rng.integers(-8, 9, size=40)
    ]
    # The gate sees the loss, and here it tells rightly for all but two.
    people[0] = person([20, 10, 30, 20], loss=(2.0, 1.9))
    people[1] = person([20, 35, 30, 45], loss=(2.0, None))
    summary = Summary(people)
    gains = np.array([p.sums[TUNED]["hits_at_3"] - 20 for p in people]) / 100
    kept = np.array([p.is_kept for p in people])
    assert not kept[1]
    assert (summary.people, summary.num_kept, summary.diverged) == (40, kept.sum(), 1)
    change = summary.change("recall_at_3_no_eos", TUNED, NETWORK)
    assert change.mean.value == pytest.approx(gains.mean())
    assert change.total.value == pytest.approx(gains.mean())  # all typed the same
    assert change.worst_tenth == pytest.approx(np.sort(gains)[:4].mean())
    assert change.harmed == pytest.approx(np.mean(gains < 0))
    gated = summary.change("recall_at_3_no_eos", GATED, NETWORK)
    assert gated.harmed == pytest.approx(np.mean(np.where(kept, gains, 0) < 0)) == 1 / 40
    assert gated.mean.value > change.mean.value
    together = summary.change("recall_at_3_no_eos", CACHE_GATED, CACHE)
    assert together.mean.value == pytest.approx(np.where(kept, gains, 0).mean())
    both = summary.change("recall_at_3_no_eos", CACHE_GATED, NETWORK)
    assert both.mean.value == pytest.approx(together.mean.value + 0.1)
    table = summary.table()
    assert "40 clients, 4,000 evaluated words" in table
    assert "1 diverged" in table
    assert json.loads(json.dumps(summary.to_json()))["counted"] == 40


def test_users_with_few_later_words_do_not_count():
    many = [person([20, 25, 30, 35]) for _ in range(10)]
    few = [person([1, 0, 1, 0], words=4) for _ in range(30)]
    change = Summary([*many, *few]).change("recall_at_3_no_eos", TUNED, NETWORK)
    assert change.harmed == 0
    assert change.mean.value == pytest.approx(0.05)
    assert Summary([*many[:9], *few]).change("recall_at_3_no_eos", TUNED, NETWORK).harmed > 0.7


# --- records

FACTS = {"model": "abc", "settings": dataclasses.asdict(SETTINGS)}


def pseudonym(person):
    return f"<{len(person)} {person[::-1]}>"


def test_records_go_on_after_a_kill(tmp_path):
    path = tmp_path / "clients.jsonl"
    one, two = person([1, 2, 3, 4]), person([4, 3, 2, 1], loss=(1.0, None))
    records = Records(path, FACTS, pseudonym)
    records.add("ann", one)
    records.add("bob", two)
    assert "ann" not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])  # killed while bob was written
    again = Records(path, FACTS, pseudonym)
    assert "ann" in again
    assert "bob" not in again
    again.add("bob", two)
    assert path.read_bytes() == whole
    assert Records(path, FACTS, pseudonym).of(["bob", "ann"]) == [two, one]


def test_the_order_of_the_records_is_that_of_the_names(tmp_path):
    """In the order of a seeded draw from sorted ids, a list of ids would reveal the names."""
    path = tmp_path / "clients.jsonl"
    records = Records(path, FACTS, pseudonym)
    for number, name in enumerate(["dora", "ann", "bob"]):
        records.add(name, person([number, 2, 3, 4]))
    records.sort()
    whole = path.read_bytes()
    actual = [json.loads(line).get("person") for line in whole.splitlines()]
    assert actual == [None, *sorted(map(pseudonym, ["ann", "bob", "dora"]))]
    again = Records(path, FACTS, pseudonym)
    assert path.read_bytes() == whole
    assert again.results == records.results


def test_records_of_other_settings_are_refused(tmp_path):
    path = tmp_path / "clients.jsonl"
    Records(path, FACTS, pseudonym).add("ann", person([1, 2, 3, 4]))
    with pytest.raises(DataError, match="was started with another model") as error:
        Records(path, FACTS | {"model": "other"}, pseudonym)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"x\n", "not a file of"),
        (b"[]\n", "not a file of"),
        (b'{"format": "other"}\n', "not a file of"),
        (None, "line 2: not a result"),
    ],
)
def test_damaged_records_are_refused(tmp_path, content, message):
    path = tmp_path / "clients.jsonl"
    if content is None:
        Records(path, FACTS, pseudonym)
        content = path.read_bytes() + b'{"person": "x"}\n'
    path.write_bytes(content)
    with pytest.raises(DataError, match=message):
        Records(path, FACTS, pseudonym)
    assert path.read_bytes() == content


def test_the_report_names_every_metric():
    table = Summary([person([1, 2, 3, 4])]).table()
    assert all(label in table for label in report_lib.METRICS.values())
