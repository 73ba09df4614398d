"""A search for new words on devices: counts, threshold, noise, statement, kill and resume."""

import contextlib
import dataclasses
import json
import pathlib
import shutil
import threading
from types import SimpleNamespace

import numpy as np
import pytest

from tff_keyboard import config as config_lib
from tff_keyboard.data.text.word_list import read_word_list
from tff_keyboard.data.vocabulary import SPECIAL_WORDS, NormalisationRules, Vocabulary
from tff_keyboard.privacy.accounting import accounting
from tff_keyboard.privacy.claims.epsilon_text import epsilon_in_words
from tff_keyboard.privacy.claims.statement import privacy_statement
from tff_keyboard.privacy.ledger.ledger import read_ledger
from tff_keyboard.storage.errors import ConfigError, RunDirectoryError, UsageError
from tff_keyboard_fleet.commands import find_words_on_devices as command
from tff_keyboard_fleet.on_devices import summed_rounds, word_rounds
from tff_keyboard_fleet.on_devices.word_rounds import SearchSettings, find_words_on_devices
from tff_keyboard_fleet.on_devices.word_search import WordSearch
from tff_keyboard_fleet.tests.support.devices import Device, beside
from tff_keyboard_fleet.tests.support.masked import masked_upload, settle
from tff_keyboard_fleet.wire import word_cells
from tff_keyboard_fleet.wire.plan import Plan

GOAL = 3
VOCABULARY = Vocabulary((*SPECIAL_WORDS, "blue", "prod"), NormalisationRules(language="en"))
SETTINGS = SearchSettings(groups=4, min_devices=2, max_cells=3, letters=2, slots=5)
WORDS = [["blorp", "bob"], ["blorp", "pub"], ["blorp", "bob", "dull"]]  # of the devices of a group


class Graph:
    """A graph with the rows of the vocabulary."""

    def build(self, directory, model, vocabulary):
        return b"graph"

    def rows(self, vocabulary):
        return range(len(vocabulary))


class Fleet:
    """Devices that take part one after the other: `GOAL` new ones in each group."""

    def __init__(self, groups, words=WORDS):
        self.groups, self.words, self.errors = groups, words, []

    @contextlib.contextmanager
    def __call__(self, app):
        with beside(self._run, app, self.errors):
            yield

    def _run(self, app):
        try:
            for group in self.groups:
                self._take_part(app, group)
        except BaseException as error:
            self.errors.append(error)
            raise

    def _take_part(self, app, round_num):
        uploads = []
        for position in range(GOAL):
            device = Device(app, GOAL * round_num + position)
            task = None
            while task is None or task.round != round_num:
                answer = device.get("/v1/plan").status_code == 200 and device.check_in()
                task = getattr(answer, "task", None)
                if task is None:
                    threading.Event().wait(0.05)
            plan = Plan.from_bytes(device.get(f"/v1/plans/{task.plan}").get_data())
            assert task.model == plan.graph
            work = plan.new_words
            vector = word_cells.to_vector(
                self.words[position],
                work.prefixes,
                work.alphabet,
                work.letters,
                size=work.size,
                max_cells=work.max_cells,
            )
            uploads.append(masked_upload(device, task, plan, vector))
        assert not settle(uploads)


def config(*changes):
    settings = (
        f"train.clients_per_round={GOAL}",
        "train.over_selection=1.0",
        "devices.min_report_fraction=1.0",
        "devices.secure_sums=true",
        "devices.secure_neighbours=2",
    )
    return config_lib.loads("", [*settings, *changes])


def find(path, fleet, *changes, settings=SETTINGS):
    return find_words_on_devices(
        config(*changes),
        path,
        SimpleNamespace(trainable_variables=[]),
        VOCABULARY,
        settings,
        directory=pathlib.Path("model"),
        serve=fleet,
        graph=Graph(),
    )


def test_words_of_enough_devices_are_found_with_their_counts(tmp_path):
    found = find(tmp_path, Fleet([1, 2, 3]))
    # "pub" and "dull" are each of one device, so not even their beginnings are on disk.
    assert found.words == {"blorp": 3.0, "bob": 2.0}
    assert found.is_over
    assert found.vocabulary.words == (*VOCABULARY.words, "blorp", "bob")
    lines = [json.loads(line) for line in (tmp_path / "groups.jsonl").read_text().splitlines()]
    assert [line["prefixes"] for line in lines] == [{"bl": 3.0, "bo": 2.0}, {"blor": 3.0}, {}]
    assert [line["words"] for line in lines] == [{}, {"bob": 2.0}, {"blorp": 3.0}]
    assert find(tmp_path, Fleet([])).words == found.words  # only prints
    (tmp_path / "list.tsv").write_bytes(word_rounds.word_list(found.words))
    assert read_word_list(tmp_path / "list.tsv", VOCABULARY.rules) == found.words
    with pytest.raises(RunDirectoryError, match="NO CLAIM: no privacy_ledger"):
        privacy_statement(tmp_path / "privacy_ledger.jsonl")
    for changed in ({"min_devices": 3}, {"noise_multiplier": 1e-4}, {"max_cells": 2}):
        with pytest.raises(RunDirectoryError, match="was started with another value of"):
            find(tmp_path, Fleet([]), settings=dataclasses.replace(SETTINGS, **changed))
    (tmp_path / "groups.jsonl").write_text('{"prefixes": {"b1": 1.0}, "words": {}}\n')
    with pytest.raises(RunDirectoryError, match="line 1: is damaged"):
        find(tmp_path, Fleet([]))


def test_a_search_ends_with_its_last_group(tmp_path):
    found = find(tmp_path, Fleet([1, 2]), settings=dataclasses.replace(SETTINGS, groups=2))
    assert found.words == {"bob": 2.0}
    assert not found.is_over


NOISY = dataclasses.replace(SETTINGS, noise_multiplier=1e-3, delta=1e-5)


@pytest.mark.parametrize("place", ["before the line", "before the release"])
def test_a_kill_repeats_the_group_with_the_same_noise(place, tmp_path, monkeypatch):
    class Killed(BaseException):
        pass

    calls = []
    append = summed_rounds.files.append

    def dying(path, data, **options):
        if path.name == summed_rounds.GROUPS:
            calls.append(path)
            if len(calls) == 2:
                if place == "before the release":
                    append(path, data, **options)
                raise Killed
        append(path, data, **options)

    straight, killed = tmp_path / "straight", tmp_path / "killed"
    find(straight, Fleet([1, 2, 3]), settings=NOISY)
    killed.mkdir()
    for name in ("noise_nonce", "new_words.json"):  # key and id are drawn, and are the same here
        shutil.copy(straight / name, killed)
    with monkeypatch.context() as patched:
        patched.setattr(summed_rounds.files, "append", dying)
        with pytest.raises(Killed):
            find(killed, Fleet([1, 2]), settings=NOISY)
    found = find(killed, Fleet([3]), settings=NOISY)
    assert set(found.words) == {"blorp"}
    assert (killed / "groups.jsonl").read_bytes() == (straight / "groups.jsonl").read_bytes()
    ledgers = [read_ledger(path / "privacy_ledger.jsonl") for path in (straight, killed)]
    assert ledgers[0] == ledgers[1]


def test_the_statement_has_the_epsilon_of_the_accountant(tmp_path):
    find(tmp_path, Fleet([1, 2, 3]), settings=NOISY)
    expected = accounting.unsampled_gaussian(noise_multiplier=1e-3, participations=1, delta=1e-5)
    header, rounds = read_ledger(tmp_path / "privacy_ledger.jsonl")
    assert (header.clip_norm, len(rounds)) == (pytest.approx(np.sqrt(3)), 3)
    text = privacy_statement(tmp_path / "privacy_ledger.jsonl")
    epsilon = next(line for line in text.splitlines() if line.startswith("epsilon"))
    assert epsilon.split(maxsplit=1)[1] == epsilon_in_words(expected.epsilon, is_released=True)
    assert "Covered: the words, the prefixes and the counts of all rounds" in text
    assert "no single upload (secure sums)" in text


def search(**changes):
    facts = {
        "alphabet": "abc",
        "letters": 2,
        "slots": 4,
        "max_cells": 4,
        "groups": 3,
        "min_devices": 5,
    }
    return WordSearch(**(facts | changes))


def test_the_result_of_a_group_is_a_plain_count():
    rng = np.random.default_rng(1)
    rules = search(slots=100)
    work = dataclasses.replace(rules.first_work, prefixes=["a", "b", "c"])
    words = ["".join(rng.choice(list("abc"), rng.integers(1, 5))) for _ in range(40)]
    devices = [list(rng.choice(words, 3)) for _ in range(60)]
    total = sum(
        word_cells.to_vector(w, work.prefixes, "abc", 2, size=work.size, max_cells=4)
        for w in devices
    )
    result = rules.result_of(total, work)
    cut = [{word[:3] for word in device if len(word) >= 3} for device in devices]
    ended = [{word for word in device if len(word) < 3} for device in devices]
    for found, sets in ((result.prefixes, cut), (result.words, ended)):
        counts = {text: sum(text in one for one in sets) for text in set.union(*sets)}
        assert found == {text: n for text, n in counts.items() if n >= 5}


def test_a_device_counts_in_at_most_its_cells():
    words = ["aa", "ab", "aa", "ac", "ba", "cc"]
    vector = word_cells.to_vector(words, [""], "abc", 2, size=13, max_cells=3)
    assert sorted(np.unique(vector)) == [0.0, 1.0]
    assert vector.sum() == 3
    assert np.linalg.norm(vector) <= word_cells.clip_norm(3)
    texts = list(word_cells.texts_of_prefix("", "abc", 2))
    assert {texts[cell] for cell in np.flatnonzero(vector)} == {"aa", "ab", "ac"}


def test_noise_raises_the_threshold_so_that_false_cells_are_rare():
    rules = search(noise_multiplier=2.0, slots=50)
    rng = np.random.default_rng(2)
    stddev = 2.0 * np.sqrt(4)
    work = rules.first_work
    false_searches = 0
    for _ in range(300):
        noise = rng.normal(0, stddev, [3, work.size])  # all cells of 4 devices: one too few
        false_searches += bool((noise + 4 >= rules.threshold).any())
    assert false_searches <= 6  # at most 1 % expected
    assert search().threshold == 5


def test_only_the_most_frequent_beginnings_stay():
    rules = search(slots=2)
    total = np.zeros(rules.first_work.size)
    total[4:13] = np.arange(9) + 1
    assert rules.result_of(total, rules.first_work).prefixes == {"cb": 8.0, "cc": 9.0}


def test_searches_that_cannot_work_are_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"devices\.secure_sums` must be true"):
        find(tmp_path / "a", Fleet([]), "devices.secure_sums=false")
    for changed, message in (
        ({"min_devices": 4}, r"typed on 4\.0 devices .* `train.clients_per_round` = 3"),
        ({"noise_multiplier": 1.0}, "typed on"),
        ({"slots": 10**6}, "more than 2,097,152 cells"),
        ({"min_devices": 1}, "--min-devices must be at least 2"),
        ({"groups": 41}, r"--groups must be in 1\.\.40"),
    ):
        with pytest.raises(UsageError, match=message):
            find(tmp_path / "a", Fleet([]), settings=dataclasses.replace(SETTINGS, **changed))
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.toml").touch()
    with pytest.raises(RunDirectoryError, match="is not the folder of"):
        find(tmp_path / "run", Fleet([]))


@pytest.mark.parametrize(
    "flags, message",
    [
        (["run", "--workdir=w"], "requires --config"),
        (["run", "--workdir=w", "--config=c", "--noise-multiplier=-1"], "must be 0, or in"),
        (["run", "--workdir=w", "--config=c", "--delta=1"], r"in \(0, 1\)"),
    ],
)
def test_flags_that_do_not_fit(flags, message):
    with pytest.raises(UsageError, match=message):
        command.Options.parse("find-words-on-devices", flags)
