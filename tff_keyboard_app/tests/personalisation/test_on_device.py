import dataclasses

import pytest

from tests.support.keyboard import export_fakes
from tests.support.keyboard.export_fakes import export
from tff_keyboard.storage.errors import ExportError
from tff_keyboard_app.commands import personalise
from tff_keyboard_app.personalisation import on_device
from tflite_export.export.export_options import ExportOptions
from tflite_export.runtime.keyboard_predictor import KeyboardPredictor

# A person with habits the model has never seen.
MESSAGES = [["see", "you", "later", "dinner", "keys"], ["ok", "good-bye", "later", "keys"]] * 12


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    folder = tmp_path_factory.mktemp("personalise")
    run = export_fakes.save_run(folder / "run")
    return export(run, folder / "k.tflite", ExportOptions(trainable=True)).paths.model


def test_recall_on_later_messages_rises(path):
    settings = on_device.Settings(
        train_share=0.75, validation_share=0.1, learning_rate=0.3, epochs=4
    )
    report = on_device.personalise(KeyboardPredictor(path), MESSAGES, settings)
    assert report.train_messages == 18
    assert report.words == sum(map(len, MESSAGES[20:]))
    assert len(report.train_losses) == 4
    assert report.train_losses[-1] < 0.5 * report.train_losses[0]
    assert report.before[1] < 0.3
    assert report.after[1] > 0.6
    change = report.differences[1]
    assert change.value == pytest.approx(report.after[1] - report.before[1])
    assert change.low <= change.value <= change.high
    assert report.deciding_losses[1] < 0.8 * report.deciding_losses[0]
    shown = report.table().splitlines()
    assert shown[0] == f"recall on the last {report.words} words, in percent:"
    assert any(line.startswith("a phone would keep") for line in shown)
    worse = dataclasses.replace(report, deciding_losses=report.deciding_losses[::-1])
    assert "a phone would discard" in worse.table()


def test_recall_is_counted_as_by_hand(path):
    later = [["are", "you", "unheard", "home"], ["zzz"], ["see", "you"]]
    predictor = KeyboardPredictor(path)
    hits = {1: 0, 3: 0}
    for message in later:
        for position, word in enumerate(message):
            strip = [suggested for suggested, _ in predictor.suggest(message[:position], "", 3)]
            hits[1] += word == strip[0]
            hits[3] += word in strip
    settings = on_device.Settings(train_share=0.2, learning_rate=1e-12)
    report = on_device.personalise(predictor, [["ok"], ["ok"], *later], settings)
    assert report.words == 7
    assert report.before == {1: hits[1] / 7, 3: hits[3] / 7}
    assert report.after == report.before


def test_suggestions_forget_the_state_of_the_old_weights(path):
    predictor = KeyboardPredictor(path)
    before = predictor.suggest(["see", "you"])
    for _ in range(30):
        on_device.train_message(predictor, ["see", "you", "dinner"], 0.3)
    after = predictor.suggest(["see", "you"])
    assert after != before
    assert after[0][0] == "dinner"


def test_a_long_message_is_cut_as_in_training(path):
    long = ["see"] * 500
    losses = [
        on_device.train_message(KeyboardPredictor(path), words, 0.1)
        for words in (long, long[: on_device.MAX_TARGETS])
    ]
    assert losses[0] == losses[1]


def test_divergence_is_said(path):
    settings = on_device.Settings(learning_rate=1e30, epochs=2)
    with pytest.raises(ExportError, match="diverged with `learning_rate` = 1e\\+30"):
        on_device.personalise(KeyboardPredictor(path), MESSAGES, settings)


def test_user_with_too_few_messages_is_rejected(path):
    few = [["ok"], [], ["ok"], ["ok"], ["ok"]]
    with pytest.raises(ExportError, match="has 4 messages, but 5 are required"):
        on_device.personalise(KeyboardPredictor(path), few, on_device.Settings())


def test_a_file_that_cannot_train_says_how_to_get_one(tmp_path):
    run = export_fakes.save_run(tmp_path / "run")
    path = export(run, tmp_path / "k.tflite", ExportOptions()).paths.model
    with pytest.raises(ExportError, match="with --trainable"):
        on_device.train_message(KeyboardPredictor(path), ["ok"], 0.1)


def test_task_reports_the_person_asked_for(path, tmp_path, capsys):
    lines = [f"ann\t{' '.join(words)}" for words in MESSAGES] + ["bob\tare you home"] * 5
    (tmp_path / "text.tsv").write_text("\n".join(lines) + "\n")

    def printed(**options):
        personalise.run(personalise.Options(model=path, text=tmp_path / "text.tsv", **options))
        return capsys.readouterr().out

    report = printed(learning_rate=0.3)
    assert "'ann' has the most words of 2 users (24 messages, 108 words)" in report
    assert f"trained on the first {round(0.6 * len(MESSAGES))} messages" in report
    report = printed(user="bob")
    assert "trained on the first 3 messages" in report
    assert "the last 3 words" in report
    assert "ann" not in report
    (tmp_path / "text.tsv").write_text("are you home\n" * 25)
    assert "20 lines in a row count as one client; lines 1 to 20" in printed()


def test_a_user_without_messages_is_refused_before_a_runtime_is_imported(tmp_path, monkeypatch):
    (tmp_path / "text.tsv").write_text("ann\thello\n")
    monkeypatch.setattr("tflite_export.runtime.interpreters.import_quietly", pytest.fail)
    options = personalise.Options(
        model=tmp_path / "k.tflite", text=tmp_path / "text.tsv", user="eve"
    )
    with pytest.raises(ExportError, match="'eve' has no messages"):
        personalise.run(options)
