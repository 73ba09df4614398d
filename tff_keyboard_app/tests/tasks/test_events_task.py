"""The events task: logs of a replay, their figures, and the private sums."""

import dataclasses

import numpy as np
import pytest

from tests.support.fakes import TINY
from tff_keyboard import config as config_lib
from tff_keyboard.data.preparing.prepare import prepare as prepare_store
from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.data.vocabulary import SPECIAL_WORDS, Vocabulary
from tff_keyboard.predictors.ngram import ngram_file
from tff_keyboard.predictors.ngram.kneser_ney import KneserNey
from tff_keyboard.storage.errors import DataError, UsageError
from tff_keyboard_app.commands import events
from tff_keyboard_app.events import replay


def test_replays_logs_and_reads_them(tmp_path, capsys, monkeypatch):
    store = tmp_path / "store"
    config = config_lib.load("configs/demo.toml", [*TINY, f"data.store={store}"])
    prepare_store(config.data, store)
    opened, typed, play = ClientStore(store), [], replay.replay

    def noted(predictor, messages, **facts):
        typed.append(messages)
        return play(predictor, messages, **facts)

    monkeypatch.setattr(replay, "replay", noted)
    events.run(events.Options(replay="unigram", store=store, out=tmp_path / "logs", max_clients=5))
    people = sorted(opened.client_ids("held_out")[:5], key=opened.pseudonym)
    assert typed == [opened.words("held_out", person) for person in people]
    logs = tuple(sorted((tmp_path / "logs").iterdir()))
    assert len(logs) == 5
    assert all(path.stat().st_mode & 0o077 == 0 for path in logs)
    capsys.readouterr()
    events.run(events.Options(logs=logs))
    plain = capsys.readouterr().out
    assert "5 clients" in plain
    assert "prediction impression recall" in plain
    events.run(events.Options(logs=logs, noise_multiplier=1.0, clip_norm=100.0))
    private = capsys.readouterr().out
    assert "epsilon = " in private
    assert "5 clients" not in private
    copy, link = tmp_path / "copy.jsonl", tmp_path / "link.jsonl"
    copy.write_bytes(logs[1].read_bytes())
    link.symlink_to(logs[2])
    for again in (logs[0], copy, link):  # its client would count twice
        with pytest.raises(UsageError, match="are the same log"):
            events.run(events.Options(logs=(*logs, again), noise_multiplier=1.0))
    empty = tuple(tmp_path / f"{name}.jsonl" for name in "ab")
    for path in empty:
        path.touch()
    events.run(events.Options(logs=(*logs, *empty), noise_multiplier=1.0))


def test_a_replay_takes_no_store_that_was_cut_by_other_rules(store, tmp_path):
    words, opened = [*SPECIAL_WORDS, "See", "you"], ClientStore(store)
    cased = Vocabulary(words, dataclasses.replace(opened.vocabulary.rules, lowercase=False))
    model = KneserNey.train([np.array([4, 5])], vocabulary_size=len(cased), order=2)
    (tmp_path / "cased.ngram").write_bytes(ngram_file.encode(model, cased))
    wish = events.Options(replay=str(tmp_path / "cased.ngram"), store=store, out=tmp_path / "logs")
    with pytest.raises(DataError, match="different tokenisation rules than the model"):
        events.run(wish)
    assert not wish.out.exists()


def test_flags_that_do_not_fit(tmp_path):
    for words in ({}, {"logs": (tmp_path,), "replay": "unigram"}, {"replay": "unigram"}):
        with pytest.raises(UsageError):
            events.Options(**words)


def test_a_damaged_log_is_one_line(tmp_path):
    (tmp_path / "log.jsonl").write_text("hello\n")
    with pytest.raises(DataError, match="line 1"):
        events.run(events.Options(logs=(tmp_path / "log.jsonl",)))
