"""The events task: figures of logs and of a replay, and the private sums."""

import dataclasses
import re

import numpy as np
import pytest

from tests.support.fakes import TINY
from tff_keyboard import config as config_lib
from tff_keyboard.command_line import cli
from tff_keyboard.data.preparing.prepare import prepare as prepare_store
from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.data.vocabulary import SPECIAL_WORDS, Vocabulary
from tff_keyboard.predictors.ngram import ngram_file
from tff_keyboard.predictors.ngram.kneser_ney import KneserNey
from tff_keyboard.storage.errors import DataError, UsageError
from tff_keyboard_app.commands import events
from tff_keyboard_app.events import event_log, replay
from tff_keyboard_app.events.event_counts import StripOutcome


def log_of(path, strips, *, model="0a1b2c3d4e5f"):
    """Writes a log whose messages each have some strips, of which the first was accepted."""
    accepted = StripOutcome(place=0, prefix=0, words=("see", "we"), rank=0)
    with event_log.opened(path) as log:
        for _ in range(event_log.MIN_MESSAGES):
            log.add(model, [accepted, *[dataclasses.replace(accepted, rank=None)] * strips], ["we"])
    return path


def test_replays_held_out_clients(tmp_path, capsys, monkeypatch):
    store = tmp_path / "store"
    config = config_lib.load("configs/demo.toml", [*TINY, f"data.store={store}"])
    prepare_store(config.data, store)
    opened, typed, play = ClientStore(store), [], replay.replay

    def noted(predictor, messages):
        typed.append(messages)
        return play(predictor, messages)

    monkeypatch.setattr(replay, "replay", noted)
    before = sorted(tmp_path.rglob("*"))
    events.run(events.Options(replay="unigram", store=store, max_clients=5))
    clients = opened.client_ids("held_out")[:5]
    assert typed == [opened.words("held_out", client) for client in clients]
    plain = capsys.readouterr().out
    assert "5 clients" in plain
    assert "prediction impression recall" in plain
    events.run(events.Options(replay="unigram", store=store, noise_multiplier=1.0))
    assert "epsilon = " in capsys.readouterr().out
    assert sorted(tmp_path.rglob("*")) == before  # nothing is written


def test_reads_logs(tmp_path, capsys):
    logs = tuple(log_of(tmp_path / f"{number}.json", number) for number in (1, 3, 4))
    log_of(logs[0], 1, model="f5e4d3c2b1a0")  # the same client with another model
    events.run(events.Options(logs=logs))
    plain = capsys.readouterr().out
    assert "40 messages from 20" in plain
    assert "models: 0a1b2c3d4e5f, f5e4d3c2b1a0." in plain
    assert "3 clients, 130 strips" in plain  # 10 times 2 + 2 + 4 + 5
    assert re.search(r"accepted, of shown strips +30.77 \[", plain)  # 40 of 130
    events.run(events.Options(logs=logs, noise_multiplier=1.0, clip_norm=100.0))
    private = capsys.readouterr().out
    assert "epsilon = " in private
    assert "clients," not in private
    assert "messages" not in private


def test_a_log_is_counted_once(tmp_path):
    logs = tuple(log_of(tmp_path / f"{number}.json", number) for number in (1, 3))
    copy, link = tmp_path / "copy.json", tmp_path / "link.json"
    copy.write_bytes(logs[0].read_bytes())
    link.symlink_to(logs[1])
    for again in (logs[0], copy, link):  # its client would count twice
        with pytest.raises(UsageError, match="are the same log"):
            events.run(events.Options(logs=(*logs, again), noise_multiplier=1.0))


def test_a_replay_takes_no_store_that_was_cut_by_other_rules(store, tmp_path):
    words, opened = [*SPECIAL_WORDS, "See", "you"], ClientStore(store)
    cased = Vocabulary(words, dataclasses.replace(opened.vocabulary.rules, lowercase=False))
    model = KneserNey.train([np.array([4, 5])], vocabulary_size=len(cased), order=2)
    (tmp_path / "cased.ngram").write_bytes(ngram_file.encode(model, cased))
    wish = events.Options(replay=str(tmp_path / "cased.ngram"), store=store)
    with pytest.raises(DataError, match="different tokenisation rules than the model"):
        events.run(wish)


def test_flags_that_do_not_fit(tmp_path):
    both = {"logs": (tmp_path,), "replay": "unigram", "store": tmp_path}
    for flags in ({}, both, {"replay": "unigram"}, {"logs": (tmp_path,), "store": tmp_path}):
        with pytest.raises(UsageError):
            events.Options(**flags)


@pytest.mark.parametrize("content, says", [("hello\n", "not valid JSON"), ('{"v": 1, "', "Delete")])
def test_a_file_that_is_no_log_is_one_line(tmp_path, capsys, content, says):
    (tmp_path / "log.json").write_text(content)
    assert cli.launch(events, [str(tmp_path / "log.json")]) == DataError.exit_code
    (line,) = capsys.readouterr().err.splitlines()
    assert "log.json" in line
    assert says in line


@pytest.mark.parametrize("noise", [1e-300, 1e-7, 1e10])
def test_a_noise_outside_of_the_accounting_is_one_line(noise):
    with pytest.raises(UsageError, match="--noise-multiplier must be 0, or from 1e-06 to 1e"):
        events.Options(logs=("a.json",), noise_multiplier=noise)
