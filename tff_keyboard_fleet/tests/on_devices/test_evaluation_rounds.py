"""An evaluation on devices: its sums, its intervals, its noise, and a kill between two steps."""

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
from tff_keyboard.data.vocabulary import SPECIAL_WORDS, NormalisationRules, Vocabulary
from tff_keyboard.evaluation.report import comparison_text
from tff_keyboard.evaluation.results.comparison import Difference
from tff_keyboard.evaluation.statistics.jackknife import Interval
from tff_keyboard.privacy.accounting import accounting
from tff_keyboard.privacy.claims.plan_remarks import resumed_line
from tff_keyboard.privacy.claims.statement import privacy_statement
from tff_keyboard.privacy.ledger.ledger import read_ledger
from tff_keyboard.storage import in_progress, names
from tff_keyboard.storage.errors import (
    CheckFailed,
    ConfigError,
    ProgramError,
    RunDirectoryError,
    UsageError,
)
from tff_keyboard_fleet.commands import compare_on_devices
from tff_keyboard_fleet.on_devices import summed_rounds
from tff_keyboard_fleet.on_devices.evaluation_rounds import (
    EvaluatedModel,
    EvaluationSettings,
    evaluate_on_devices,
)
from tff_keyboard_fleet.tests.support.devices import Device, beside
from tff_keyboard_fleet.tests.support.masked import masked_upload, settle
from tff_keyboard_fleet.wire import evaluation_sums
from tff_keyboard_fleet.wire.plan import Plan

GOAL, GROUPS, MAX_WORDS = 3, 4, 64
VOCABULARY = Vocabulary((*SPECIAL_WORDS, "you", "a"), NormalisationRules(language="en"))
SETTINGS = EvaluationSettings(groups=GROUPS, max_words=MAX_WORDS, own_words=0.2)
MASKED = ("devices.secure_sums=true", "devices.secure_neighbours=2")
SORTED_ROWS = [*range(len(SPECIAL_WORDS)), len(SPECIAL_WORDS) + 1, len(SPECIAL_WORDS)]


class Graph:
    """A graph whose words are sorted."""

    def build(self, directory, model, vocabulary):
        return b"graph"

    def rows(self, vocabulary):
        return SORTED_ROWS


def evaluated(name, value, vocabulary=VOCABULARY):
    table = np.full([len(VOCABULARY), 2], value, np.float32)
    table[-1] = -value
    variable = SimpleNamespace(name="embedding:0", numpy=lambda: table)
    model = SimpleNamespace(trainable_variables=[variable])
    return EvaluatedModel(
        name=name, directory=pathlib.Path(name), model=model, vocabulary=vocabulary
    )


MODELS = [evaluated("current", 1.0), evaluated("candidate", 2.0)]


def config(*changes):
    settings = (
        f"train.clients_per_round={GOAL}",
        "train.over_selection=1.0",
        "devices.min_report_fraction=1.0",
    )
    return config_lib.loads("", [*settings, *changes])


def counts_of(number, gain=0):
    """Counts of a device: of its text, and of two models. The second hits `gain` more."""
    rng = np.random.default_rng(number)
    tokens = float(rng.integers(30, MAX_WORDS))
    text = {"tokens": tokens, "eos_tokens": 6.0, "oov_tokens": 2.0, "characters": 4 * tokens}
    hits = float(rng.integers(4, 12))

    def of_model(extra):
        return {
            "nll": (5 - extra / 10) * tokens,
            "hits_at_1": hits / 2,
            "hits_at_3": hits + extra,
            "typed_free": 3 * tokens - extra,
            "oov_hits_at_1": 0.0,
            "oov_hits_at_3": 1.0,
        }

    return text, [[of_model(0)] * 2, [of_model(gain)] * 2]


class Fleet:
    """Devices that take part one after the other: `GOAL` new ones in each group."""

    def __init__(self, groups, *, gain=0, first_device=0, vector=None):
        self.groups, self.gain, self.first_device = groups, gain, first_device
        self.vector, self.errors = vector, []

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
        seats = []
        for position in range(GOAL):
            device = Device(app, self.first_device + GOAL * round_num + position)
            task = None
            while task is None or task.round != round_num:
                answer = device.get("/v1/plan").status_code == 200 and device.check_in()
                task = getattr(answer, "task", None)
                if task is None:
                    threading.Event().wait(0.05)
            seats.append((device, task))
        uploads = []
        for device, task in seats:
            plan = Plan.from_bytes(device.get(f"/v1/plans/{task.plan}").get_data())
            assert task.model == plan.evaluation.models[0]
            vector = self.vector
            if vector is None:
                text, models = counts_of(device.number, self.gain)
                vector = evaluation_sums.to_vector(text, models, MAX_WORDS)
            if plan.secure_sums is None:
                assert device.upload(task, vector).token
            else:
                uploads.append(masked_upload(device, task, plan, vector))
        assert not settle(uploads)


def evaluate(path, fleet, *changes, settings=SETTINGS, models=MODELS):
    return evaluate_on_devices(config(*changes), path, models, settings, serve=fleet, graph=Graph())


def expected_sums(name, model, gain):
    """Sums of the devices of each group, [GROUPS]."""
    return [
        sum(
            (text | models[model][0])[name]
            for text, models in (counts_of(GOAL * group + k, gain) for k in range(GOAL))
        )
        for group in range(1, GROUPS + 1)
    ]


@pytest.mark.parametrize("changes", [(), MASKED], ids=["plain", "masked"])
def test_the_table_is_of_the_sums_of_groups(changes, tmp_path):
    fleet = Fleet(range(1, GROUPS + 1), gain=3)
    alone, own = evaluate(tmp_path / "ab", fleet, *changes)
    for model, evaluation in enumerate(alone.evaluations):
        for name in (*evaluation_sums.OF_TEXT, *evaluation_sums.OF_MODEL):
            expected = expected_sums(name, model, 3)
            np.testing.assert_allclose(evaluation.sums[name], expected, rtol=1e-6)
    assert alone.names == ["current", "candidate"]
    assert own.names == ["current, own words", "candidate, own words"]
    difference = alone.differences[0]["recall_at_3_no_eos"]
    words = np.sum(expected_sums("tokens", 0, 0)) - np.sum(expected_sums("eos_tokens", 0, 0))
    assert difference.interval.value == pytest.approx(3 * GOAL * GROUPS / words)
    assert difference.verdict == "better"
    text = comparison_text.first_rows(alone)
    assert "4 groups of devices of 'keyboard' (effective number" in text
    assert "intervals over groups of devices" in text
    compare_on_devices.check_gate([alone, own], "better", 1.0)
    worse = evaluate(tmp_path / "worse", Fleet(range(1, GROUPS + 1), gain=-3), *changes)
    with pytest.raises(CheckFailed, match="candidate is worse in recall_at_3_no_eos") as error:
        compare_on_devices.check_gate(worse, "not-worse", 1.0)
    assert error.value.exit_code == 5
    json.dumps(alone.to_json(), allow_nan=False)


def test_devices_fetch_both_models_in_the_order_of_the_graph(tmp_path):
    seen = []

    class Fetching(Fleet):
        def _take_part(self, app, round_num):
            super()._take_part(app, round_num)
            device = Device(app, "reader")
            plan = Plan.from_bytes(device.get("/v1/plan").get_data())
            for name in (*plan.evaluation.models, plan.graph):
                seen.append(device.get(f"/v1/models/{name}").get_data())

    evaluate(tmp_path, Fetching([1, 2]), settings=dataclasses.replace(SETTINGS, groups=2))
    for value, data in ((1.0, seen[0]), (2.0, seen[1])):
        table = np.frombuffer(data, "<f4").reshape(len(VOCABULARY), 2)
        expected = np.full([len(VOCABULARY), 2], value)
        expected[SORTED_ROWS.index(len(VOCABULARY) - 1)] = -value
        np.testing.assert_array_equal(table, expected)
    assert seen[2] == b"graph"


NOISY = dataclasses.replace(SETTINGS, noise_multiplier=2.0, delta=1e-5)


@pytest.mark.parametrize("place", ["before the line", "before the release"])
def test_a_kill_repeats_the_group_with_the_same_noise(place, tmp_path, monkeypatch):
    class Killed(BaseException):
        pass

    def dying(append, number):
        def write(path, data, **options):
            if path.name == summed_rounds.GROUPS and len(calls) == number:
                if place == "before the release":
                    append(path, data, **options)
                raise Killed
            calls.append(path.name == summed_rounds.GROUPS)
            calls[:] = [call for call in calls if call]
            append(path, data, **options)

        return write

    calls = []
    straight, killed = tmp_path / "straight", tmp_path / "killed"
    evaluate(straight, Fleet(range(1, GROUPS + 1)), *MASKED, settings=NOISY)
    killed.mkdir()
    for name in ("noise_nonce", "evaluation.json"):  # key and id are drawn, and are the same here
        shutil.copy(straight / name, killed)
    with monkeypatch.context() as patched:
        files = summed_rounds.files
        patched.setattr(files, "append", dying(files.append, 1))
        with pytest.raises(Killed):
            evaluate(killed, Fleet([1, 2]), *MASKED, settings=NOISY)
    evaluate(killed, Fleet(range(3, GROUPS + 1)), *MASKED, settings=NOISY)
    assert (killed / "groups.jsonl").read_bytes() == (straight / "groups.jsonl").read_bytes()
    ledgers = [read_ledger(path / "privacy_ledger.jsonl") for path in (straight, killed)]
    assert ledgers[0] == ledgers[1]


def test_noise_has_the_stated_size_and_a_statement(tmp_path):
    settings = dataclasses.replace(NOISY, groups=60)
    zeros = np.zeros(len(evaluation_sums.columns(2, True)))
    evaluate(tmp_path, Fleet(range(1, 61), vector=zeros), settings=settings)
    vectors = [
        json.loads(line)["vector"] for line in (tmp_path / "groups.jsonl").read_text().splitlines()
    ]
    assert np.std(vectors) == pytest.approx(2.0 * np.sqrt(len(zeros)), rel=0.1)  # 1,440 draws
    header, rounds = read_ledger(tmp_path / "privacy_ledger.jsonl")
    assert len({line["content"] for line in rounds}) == 60  # the same sums, and other noise
    text = privacy_statement(tmp_path / "privacy_ledger.jsonl")
    expected = accounting.unsampled_gaussian(noise_multiplier=2.0, participations=1, delta=1e-5)
    assert f"{expected.epsilon:.2f}" in next(
        line for line in text.splitlines() if line.startswith("epsilon")
    )
    assert "Covered: the sums of all groups" in text
    assert "initial model" not in text
    assert "the upload of each device, before it adds the noise" in text
    assert not header.secure_sums


def test_a_ledger_that_lost_its_lines_gives_no_statement(tmp_path):
    settings = dataclasses.replace(NOISY, groups=2)
    evaluate(tmp_path, Fleet([1, 2]), settings=settings)
    ledger = tmp_path / "privacy_ledger.jsonl"
    ledger.write_bytes(ledger.read_bytes().splitlines(keepends=True)[0])
    with pytest.raises(CheckFailed, match=r"records 0 rounds, but .*groups.jsonl is of round 2"):
        privacy_statement(ledger)
    ledger.unlink()
    with pytest.raises(CheckFailed, match="is missing, but the run trained with privacy"):
        privacy_statement(ledger)


@pytest.mark.parametrize("name", [names.COMPARISON, names.COMPARISON_WITH_OWN_WORDS])
def test_a_ledger_with_fewer_groups_than_the_table_gives_no_statement(tmp_path, name):
    comparison, _ = evaluate(tmp_path, Fleet([1, 2]), settings=dataclasses.replace(NOISY, groups=2))
    ledger = tmp_path / "privacy_ledger.jsonl"
    (tmp_path / name).write_text(json.dumps(comparison.to_json()))
    assert "rounds released   2" in privacy_statement(ledger)
    ledger.write_bytes(ledger.read_bytes().splitlines(keepends=True)[0])
    (tmp_path / "groups.jsonl").unlink()
    with pytest.raises(CheckFailed, match=f"records 0 rounds, but .*{name} is of round 2"):
        privacy_statement(ledger)
    (tmp_path / name).write_text("[1]")  # damaged, so it shows no groups
    assert "rounds released   0" in privacy_statement(ledger)


def test_the_ledger_of_another_evaluation_is_refused(tmp_path):
    runs = [tmp_path / "quiet", tmp_path / "same", tmp_path / "loud"]
    for run, noise in zip(runs, (0.5, 0.5, 20.0), strict=True):
        settings = dataclasses.replace(NOISY, groups=2, noise_multiplier=noise)
        evaluate(run, Fleet([1, 2]), settings=settings)
    ledger, settings_path = (runs[0] / name for name in ("privacy_ledger.jsonl", "evaluation.json"))
    content, settings_text = ledger.read_bytes(), settings_path.read_text()
    for other in runs[1:]:
        shutil.copy(other / "privacy_ledger.jsonl", ledger)
        with pytest.raises(CheckFailed, match="is not the ledger of the evaluation") as error:
            privacy_statement(ledger)
        assert error.value.exit_code == 5
    ledger.write_bytes(content)
    settings_path.write_text(settings_text.replace("0.5", "0.75"))
    with pytest.raises(CheckFailed, match="noise multiplier is another"):
        privacy_statement(ledger)
    settings_path.unlink()
    with pytest.raises(CheckFailed, match=r"evaluation.json is missing"):
        privacy_statement(ledger)
    (runs[0] / "groups.jsonl").unlink()
    assert "NO CLAIM" not in privacy_statement(ledger)  # kept alone, to count a lost evaluation
    with pytest.raises(UsageError, match="is an evaluation on devices"):
        resumed_line(runs[1] / "privacy_ledger.jsonl", 9)


def test_what_a_killed_write_left_is_not_something_else(tmp_path):
    in_progress.new_name(tmp_path / "evaluation.json").write_text("{")
    evaluate(tmp_path, Fleet(range(1, GROUPS + 1)), *MASKED, settings=NOISY)
    assert (tmp_path / "evaluation.json").is_file()


@pytest.mark.parametrize("file", ["config.toml", "notes.txt", "model/model.json"])
def test_a_folder_of_something_else_is_left_alone(tmp_path, file):
    """The ledger of an evaluation would be taken for that of the model."""
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).touch()
    with pytest.raises(RunDirectoryError, match="is not the folder of an evaluation"):
        evaluate(tmp_path, Fleet([]), settings=NOISY)
    assert {path.name for path in tmp_path.iterdir()} == {file.partition("/")[0]}


@pytest.mark.parametrize("file", ["config.toml", "model/model.json"])
def test_the_ledger_of_an_evaluation_covers_no_model(tmp_path, file):
    evaluate(tmp_path, Fleet([1, 2]), settings=dataclasses.replace(NOISY, groups=2))
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).touch()
    with pytest.raises(CheckFailed, match="which covers no model"):
        privacy_statement(tmp_path / "privacy_ledger.jsonl")


def test_much_noise_does_not_pass_as_not_worse():
    interval = Interval(0.0, -0.3, 0.3, 0.15, 9)
    difference = Difference(interval, "not distinguishable", interval)
    metrics = dict.fromkeys(compare_on_devices.GATE_METRICS, difference)
    comparison = SimpleNamespace(names=["a", "b"], differences=[metrics])
    with pytest.raises(CheckFailed, match=r"b may lose 30.0 points of recall_at_3_no_eos"):
        compare_on_devices.check_gate([comparison], "not-worse", 1.0)
    compare_on_devices.check_gate([comparison], "not-worse", 31.0)


def test_a_restored_evaluation_with_other_devices_has_other_noise(tmp_path):
    run, backup = tmp_path / "run", tmp_path / "backup"
    settings = dataclasses.replace(NOISY, groups=2)
    with pytest.raises(ProgramError, match="stopped"):
        evaluate(run, Stopping([1]), settings=settings)
    shutil.copytree(run, backup)
    evaluate(run, Fleet([2]), settings=settings)
    evaluate(backup, Fleet([2], first_device=1000), settings=settings)
    lines = [(path / "groups.jsonl").read_text().splitlines() for path in (run, backup)]
    assert lines[0][0] == lines[1][0]
    first, second = (np.array(json.loads(line[1])["vector"]) for line in lines)
    # The sums differ by less than 3 in each number; the noise by sqrt(2) * 2 * sqrt(24) = 14.
    assert np.std(first - second) > 6


class Stopping(Fleet):
    """A server that is stopped after the devices of these groups."""

    @contextlib.contextmanager
    def __call__(self, app):
        with super().__call__(app):
            stop = threading.Thread(target=self._stop, args=[app], daemon=True)
            stop.start()
            yield

    def _stop(self, app):
        while app._store.round is None or app._store.round.number <= max(self.groups):
            threading.Event().wait(0.05)
        app._store.stop()


def test_a_device_counts_at_most_its_bound(tmp_path):
    settings = dataclasses.replace(SETTINGS, groups=2)
    size = len(evaluation_sums.columns(2, True))
    huge = np.full(size, 1e30)
    huge[0] = -1e30
    alone, _ = evaluate(tmp_path, Fleet([1, 2], vector=huge), settings=settings)
    np.testing.assert_array_equal(alone.first.sums["tokens"], [0.0, 0.0])
    assert (alone.first.sums["hits_at_3"] == GOAL * MAX_WORDS).all()


def test_an_evaluation_is_resumed_with_its_own_settings(tmp_path):
    settings = dataclasses.replace(SETTINGS, groups=2)
    evaluate(tmp_path, Fleet([1, 2]), settings=settings)
    again = evaluate(tmp_path, Fleet([]), settings=settings)  # only prints
    assert again[0].first.text.words > 0
    for changed in (
        dataclasses.replace(settings, max_words=32),
        dataclasses.replace(settings, own_words=0.3),
        dataclasses.replace(settings, groups=3),
        dataclasses.replace(settings, noise_multiplier=1.0),
    ):
        with pytest.raises(RunDirectoryError, match="was started with another value of"):
            evaluate(tmp_path, Fleet([]), settings=changed)
    with pytest.raises(RunDirectoryError, match="another value of plan"):
        evaluate(tmp_path, Fleet([]), settings=settings, models=MODELS[::-1])
    (tmp_path / "groups.jsonl").write_text('{"round": 1}\n')
    with pytest.raises(RunDirectoryError, match="line 1: is damaged"):
        evaluate(tmp_path, Fleet([]), settings=settings)


def test_a_cut_line_is_counted_again(tmp_path):
    settings = dataclasses.replace(SETTINGS, groups=2)
    path = tmp_path / "groups.jsonl"
    path.write_text('{"round": 1, "devi')
    assert summed_rounds._read_groups(path, lambda line: True) == []
    assert path.read_bytes() == b""
    assert settings.first_round == 1


def test_models_that_do_not_fit_are_refused(tmp_path):
    other = Vocabulary((*SPECIAL_WORDS, "you", "b"), NormalisationRules(language="en"))
    with pytest.raises(ConfigError, match="other has another vocabulary than current"):
        evaluate(tmp_path, Fleet([]), models=[MODELS[0], evaluated("other", 3.0, other)])
    small = evaluated("small", 1.0)
    small.model.trainable_variables[0].numpy = lambda: np.zeros([len(VOCABULARY), 1])
    with pytest.raises(ConfigError, match="small has other sizes than current"):
        evaluate(tmp_path, Fleet([]), models=[MODELS[0], small])
    with pytest.raises(UsageError, match="1 to 8 different models"):
        evaluate(tmp_path / "same", Fleet([]), models=[MODELS[0], evaluated("copy", 1.0)])
    with pytest.raises(ConfigError, match="secure_neighbours` = 56 needs more devices"):
        evaluate(tmp_path, Fleet([]), "devices.secure_sums=true")


@pytest.mark.parametrize(
    "flags, message",
    [
        (["run", "--workdir=ab"], "requires --config"),
        (["run", "--workdir=ab", "--config=c", "--gate=better"], "--gate requires two models"),
        (["a", "b", "--workdir=ab", "--config=c", "--noise-multiplier=-1"], "must be 0, or in"),
        (["a", "b", "--workdir=ab", "--config=c", "--noise-multiplier=1e-7"], "must be 0, or in"),
        (["a", "b", "--workdir=ab", "--config=c", "--noise-multiplier=1e10"], "must be 0, or in"),
        (["a", "b", "--workdir=ab", "--config=c", "--noise-multiplier=inf"], "must be finite"),
        (["a", "b", "--workdir=ab", "--config=c", "--delta=1"], r"in \(0, 1\)"),
        (["a", "b", "--workdir=ab", "--config=c", "--own-words=1"], r"in \[0, 1\)"),
        (["a", "b", "--workdir=ab", "--config=c", "--margin=-1"], "--margin must be >= 0"),
    ],
)
def test_flags_that_do_not_fit(flags, message):
    with pytest.raises(UsageError, match=message):
        compare_on_devices.Options.parse("compare-on-devices", flags)
