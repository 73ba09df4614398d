"""Comparisons: intervals and verdicts against NumPy, and the task end to end."""

import csv
import dataclasses
import io
import json
import math

import numpy as np
import pytest
from scipy import stats

from tasks import cli, predictors
from tasks import compare as compare_task
from tests.fakes import ledger_header, save_untrained_run, tiny_config
from tff_keyboard.baselines.ngram_predictor import NGramPredictor
from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.evaluation import comparison
from tff_keyboard.evaluation.predictor_evaluation import PREDICTOR_RATIOS
from tff_keyboard.metrics.jackknife import Interval
from tff_keyboard.privacy.ledger import PrivacyLedger
from tff_keyboard.report import comparison_text
from tff_keyboard.storage.errors import RunDirectoryError

PEOPLE = 8


def random_sums(seed):
    """Sums that obey what real ones do: hits <= words <= tokens."""
    rng = np.random.default_rng(seed)
    names = {name for pair in PREDICTOR_RATIOS.values() for signs in pair for name in signs}
    sums = {name: rng.integers(1, 20, PEOPLE).astype(float) for name in sorted(names)}
    sums["tokens"] += 200
    sums["characters"] += 500
    sums["impressions"] += 100
    sums["zero_state_impressions"] += 20
    sums["nll"] += 900
    return sums


def model_result(name, seed, fingerprint="a"):
    return comparison.ModelResult(
        name=name,
        kind="ngram",
        vocabulary_rows=10,
        vocabulary_fingerprint=fingerprint,
        sums=random_sums(seed),
        seconds=1.0,
        suggestion_milliseconds={"p50": 0.1, "p95": 0.2},
    )


def numpy_difference(first, second, numerator, denominator):
    """Paired jackknife over people of a difference of ratios of two names."""

    def ratio(sums, kept):
        return sums[numerator][kept].sum() / sums[denominator][kept].sum()

    everyone = np.ones(PEOPLE, bool)
    without = []
    for person in range(PEOPLE):
        kept = everyone.copy()
        kept[person] = False
        without.append(ratio(first, kept) - ratio(second, kept))
    error = math.sqrt((PEOPLE - 1) / PEOPLE * np.sum((without - np.mean(without)) ** 2))
    value = ratio(first, everyone) - ratio(second, everyone)
    reach = stats.t.ppf(0.975, PEOPLE - 1) * error
    return value, value - reach, value + reach


def test_difference_is_the_paired_jackknife():
    first, second = random_sums(1), random_sums(2)
    found = comparison.metric_difference(first, second, "recall_at_1_all")
    np.testing.assert_allclose(found[:3], numpy_difference(first, second, "hits_at_1", "tokens"))
    found = comparison.metric_difference(first, second, "perplexity")
    expected = np.exp(numpy_difference(first, second, "nll", "tokens"))
    np.testing.assert_allclose(found[:3], expected)


def test_a_model_does_not_differ_from_itself():
    sums = random_sums(3)
    difference = comparison.metric_difference(sums, sums, "kss")
    assert difference[:3] == (0, 0, 0)
    assert comparison.verdict(difference, better="higher") == "not distinguishable"


@pytest.mark.parametrize(
    "low, high, better, neutral, expected",
    [
        (0.1, 0.3, "higher", 0, "better"),
        (-0.3, -0.1, "higher", 0, "worse"),
        (-0.1, 0.3, "higher", 0, "not distinguishable"),
        (0.0, 0.3, "higher", 0, "not distinguishable"),
        (0.8, 0.9, "lower", 1, "better"),
        (1.1, 1.2, "lower", 1, "worse"),
        (0.9, 1.1, "lower", 1, "not distinguishable"),
        (math.nan, math.nan, "higher", 0, ""),
        (0.1, 0.3, "", 0, ""),
    ],
)
def test_verdicts(low, high, better, neutral, expected):
    interval = Interval((low + high) / 2, low, high, 0.1, PEOPLE)
    assert comparison.verdict(interval, better=better, neutral=neutral) == expected


def compared(fingerprint="a"):
    text = {"name": "x", "people": PEOPLE, "words": 9, "pseudo_users": False, "max_length": 0}
    models = [model_result("one", 1), model_result("two", 2, fingerprint)]
    return comparison.compare(models, [f"p{i}" for i in range(PEOPLE)], text)


def test_csv_and_table_say_what_the_json_says():
    result = compared()
    rows = list(csv.DictReader(io.StringIO(comparison_text.to_csv(result))))
    by_key = {(row["model"], row["metric"]): row for row in rows}
    kss = by_key["two", "kss"]
    assert float(kss["value"]) == result["models"][1]["metrics"]["kss"]["value"]
    assert float(kss["difference"]) == result["differences"][0]["metrics"]["kss"]["value"]
    assert by_key["one", "kss"]["verdict"] == ""
    table = comparison_text.table(result)
    value = result["models"][0]["metrics"]["recall_at_1_no_eos"]["value"]
    assert f"{100 * value:.2f} [" in table
    for row in result["differences"][0]["metrics"].values():
        assert row["verdict"] in table
    assert "p0" not in json.dumps(result)  # people are digests


def test_perplexities_of_other_vocabularies_are_not_compared():
    metrics = compared("b")["differences"][0]["metrics"]
    assert "perplexity" not in metrics
    assert metrics["kss"]["verdict"]
    assert "other words" in comparison_text.table(compared("b"))


def test_one_person_gives_no_interval():
    one = dataclasses.replace(
        model_result("one", 1), sums={k: v[:1] for k, v in random_sums(1).items()}
    )
    text = {"name": "x", "people": 1, "words": 9, "pseudo_users": True, "max_length": 0}
    result = comparison.compare([one, dataclasses.replace(one, name="b")], ["p"], text)
    assert result["models"][0]["metrics"]["kss"]["low"] is None
    assert result["differences"][0]["metrics"]["kss"]["verdict"] == ""
    assert "NaN" not in json.dumps(result)
    comparison_text.table(result)


@pytest.fixture(scope="module")
def place(store, tmp_path_factory):
    """A folder with a store, a run directory of an untrained CIFG, and a saved n-gram."""
    folder = tmp_path_factory.mktemp("compare")
    (folder / "store").symlink_to(store)
    config = tiny_config(
        folder / "store", "data.max_length=6", "model.units=9", "model.embedding_size=5"
    )
    save_untrained_run(folder / "run", config)
    store = ClientStore(folder / "store")
    NGramPredictor.train(predictors.pooled_messages(store), store.vocabulary, order=3).save(
        folder / "saved_ngram"
    )
    return folder


def test_compares_models_of_all_kinds(place, tmp_path, capsys):
    models = [str(place / "run"), "ngram:3", "unigram", str(place / "saved_ngram")]
    arguments = [*models, f"--out={tmp_path / 'out'}"]
    assert cli.launch(compare_task, arguments) == cli.OK
    result = json.loads((tmp_path / "out" / "comparison.json").read_text())
    assert [model["name"] for model in result["models"]] == [
        "run", "ngram:3", "unigram", "saved_ngram",
    ]  # fmt: skip
    by_name = {model["name"]: model["metrics"] for model in result["models"]}
    assert by_name["ngram:3"] == by_name["saved_ngram"]
    for better, worse in (("ngram:3", "unigram"), ("unigram", "run")):
        for name in ("recall_at_3_no_eos", "kss"):
            assert by_name[better][name]["value"] > by_name[worse][name]["value"]
    verdicts = {row["model"]: row["metrics"]["kss"]["verdict"] for row in result["differences"]}
    assert verdicts["ngram:3"] == "better"
    assert result["text"]["max_length"] == 6  # of the run's config
    store = ClientStore(place / "store")
    assert result["text"]["people"] == len(store.client_ids("held_out"))
    assert not [p for p in (tmp_path / "out").iterdir() if p.name.startswith(".")]
    shown = capsys.readouterr().out
    assert "keystrokes saved" in shown
    assert "better" in shown


def test_compares_ngrams_of_every_size(place, tmp_path):
    models = ["ngram", "ngram:1k", "ngram:6kB"]
    result = compare_task.run(models, store_path=str(place / "store"), out=tmp_path)
    whole, pruned, file = (model["details"] for model in result["models"])
    assert sum(pruned["ngrams"]) == 1000 < sum(whole["ngrams"])
    assert file["bytes"] <= 6000
    assert "bytes" not in pruned
    perplexities = [model["metrics"]["perplexity"]["value"] for model in result["models"]]
    assert perplexities[0] != perplexities[1] != perplexities[2]


def test_an_exported_file_is_compared_word_by_word(place, tmp_path):
    from tasks import export as export_task

    arguments = [str(place / "run"), f"--out={tmp_path / 'kb.tflite'}", "--quantize=none"]
    assert cli.launch(export_task, arguments) == cli.OK
    models = [str(place / "run"), str(tmp_path / "kb.tflite")]
    result = compare_task.run(models, out=tmp_path)
    # The file sorts its rows; in the ids of the run its ties and its perplexity are comparable.
    for name in ("recall_at_3_no_eos", "kss", "perplexity"):
        keras, exported = (model["metrics"][name]["value"] for model in result["models"])
        assert exported == pytest.approx(keras, rel=1e-4)
        assert name in result["differences"][0]["metrics"]
    assert result["models"][1]["kind"] == "tflite"


def test_compares_on_a_text_file(place, tmp_path):
    text = tmp_path / "phrases.txt"
    text.write_text("".join(f"see you at {n} tomorrow\nok thanks\n" for n in ("one", "two", "six")))
    result = compare_task.run(
        [str(place / "saved_ngram"), "unigram"],
        text_path=str(text),
        store_path=str(place / "store"),
        blocks=3,
        out=tmp_path / "out",
    )
    assert result["text"] == {
        "name": "phrases.txt", "people": 3, "words": 21, "pseudo_users": True, "max_length": 0,
        "store": ClientStore(place / "store").card_hash, "store_path": str(place / "store"),
    }  # fmt: skip


@pytest.mark.parametrize(
    "arguments, code",
    [
        ([], cli.USAGE),
        (["ngram"], cli.USAGE),  # no store
        (["ngram:1.44", "--store={place}/store"], cli.USAGE),
        (["ngram:0.1kB", "--store={place}/store"], cli.USAGE),
        (["ngram:1M", "nowhere.ngram", "--store={place}/store"], cli.BAD_INPUT),
        (["nowhere", "--store={place}/store"], cli.USAGE),
        (["ngram", "ngram", "--store={place}/store"], cli.USAGE),
        (["ngram", "--text={place}/none.txt"], cli.USAGE),
        (["{place}/saved_ngram", "--text={place}/none.txt"], cli.BAD_INPUT),
        (["{place}/saved_ngram", "--text={place}/run/config.toml", "--blocks=1"], cli.USAGE),
        (["unigram", "--store={place}/run"], cli.BAD_INPUT),
        (["unigram", "--store={place}/store", "--clients=train_later"], cli.BAD_INPUT),
    ],
)
def test_refuses_with_one_line(place, tmp_path, capsys, arguments, code):
    words = [word.format(place=place) for word in arguments]
    assert cli.launch(compare_task, [*words, f"--out={tmp_path}"]) == code
    error = capsys.readouterr().err.strip().splitlines()
    assert error[-1].startswith("error: ")


def test_a_folder_that_cannot_be_written_to_is_named_before_the_work(place, tmp_path, capsys):
    (tmp_path / "file").write_text("not a folder")
    out = tmp_path / "file" / "out"
    assert cli.launch(compare_task, [str(place / "run"), f"--out={out}"]) == cli.MACHINE
    captured = capsys.readouterr()
    assert captured.err.startswith(f"error: Cannot write {out}: Not a directory.")
    assert captured.err.count("\n") == 1
    assert captured.out == ""


def test_a_failed_write_leaves_the_old_comparison(place, tmp_path, monkeypatch, capsys):
    (tmp_path / "comparison.json").write_text("old")

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tff_keyboard.storage.files.os.fsync", full)
    models = [str(place / "saved_ngram"), f"--store={place / 'store'}"]
    assert cli.launch(compare_task, [*models, f"--out={tmp_path}"]) == cli.MACHINE
    assert "comparison.json: No space left on device." in capsys.readouterr().err
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "comparison.json": "old"
    }


def test_models_of_other_rules_are_refused(place, tmp_path, capsys):
    from tff_keyboard.data.vocabulary import NormalisationRules, Vocabulary

    store = ClientStore(place / "store")
    whitespace = Vocabulary(store.vocabulary.words, NormalisationRules(mode="whitespace"))
    NGramPredictor.train([np.array([4, 5])], whitespace, order=2).save(tmp_path / "other")
    arguments = ["unigram", str(tmp_path / "other"), f"--store={place / 'store'}"]
    assert cli.launch(compare_task, [*arguments, f"--out={tmp_path}"]) == cli.USAGE
    assert "other rules" in capsys.readouterr().err


def test_names_are_paths_where_short_ones_clash():
    assert predictors.names_of(["a/run", "b/run", "unigram"]) == ["a/run", "b/run", "unigram"]


def test_two_runs_with_one_noise_key_are_not_compared(tmp_path):
    runs = [tmp_path / name for name in ("a", "b")]
    for run in runs:
        header = dataclasses.replace(ledger_header(), key_id="ab")
        PrivacyLedger(run / "privacy_ledger.jsonl", header)
    with pytest.raises(RunDirectoryError, match="have one noise key"):
        compare_task.run([str(run) for run in runs], out=tmp_path / "out")
    assert not (tmp_path / "out").exists()
