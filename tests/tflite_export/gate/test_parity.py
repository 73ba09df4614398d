"""The gate passes valid files and stops broken ones, down to a few wrong rows."""

import dataclasses
import math

import numpy as np
import pytest

from tests.support.keyboard import export_fakes
from tests.support.keyboard.export_fakes import export
from tff_keyboard.data.vocabulary import BOS, EOS, NUM_SPECIAL
from tff_keyboard.storage.errors import CheckFailed, ExportError
from tflite_export.export import export as export_module
from tflite_export.export.export_options import QUANTIZATIONS, ExportOptions
from tflite_export.format.manifest_content import ParityDifference
from tflite_export.gate import parity
from tflite_export.gate.parity import ParityFailed
from tflite_export.gate.shown_words import ShownReport
from tflite_export.graphs.cifg_weights import CifgWeights
from tflite_export.runtime.keyboard_predictor import KeyboardPredictor

VOCABULARY = export_fakes.vocabulary()
TEXTS = export_fakes.texts()
STRIP = 3


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return export_fakes.save_run(tmp_path_factory.mktemp("run"))


def compared(run, folder, quantization="none", seed=1):
    result = export(
        run,
        folder / "keyboard.tflite",
        ExportOptions(quantization=quantization, allow_loss=True),
    )
    predictor = KeyboardPredictor(result.paths.model, VOCABULARY)
    return parity.compare(export_fakes.model(seed), VOCABULARY, predictor, TEXTS)


QUICK = ("none", "int8-rows")  # the others are those of `test_gate.py`


@pytest.mark.parametrize(
    "quantization",
    [
        pytest.param(q, marks=() if q in QUICK else pytest.mark.slow)
        for q in QUANTIZATIONS
        if q != "auto"  # one of the others, by the model
    ],
)
def test_sound_files_pass(run, tmp_path, quantization):
    report = compared(run, tmp_path, quantization)
    # 44 words: ties and near-ties of so small a vocabulary weigh more than in a real one.
    tolerance = dataclasses.replace(
        parity.TOLERANCES[quantization], recall=0.01, agreement=0.93, rms_error=0.1, max_error=1.0
    )
    report.check(tolerance)
    if quantization == "none":
        report.check(parity.TOLERANCES["none"])
        assert report.same_best == report.same_three == 1.0
        assert report.max_logit_error < 1e-4


def swap_rows(table):
    """Swaps two rows of 44, as one wrong index does."""
    table[[10, 11]] = table[[11, 10]]


def shift_rows(table):
    """Shifts every word by one row, as ids without the special rows do."""
    table[NUM_SPECIAL:] = np.roll(table[NUM_SPECIAL:], 1, axis=0)


def zero_rows(table):
    """Sets a row scale to zero."""
    table[20:23] = 0.0


def halve(table):
    """Halves the scale of the whole table."""
    table *= 0.5


def round_to_two_bits(table):
    """Rounds to far too few steps."""
    step = np.abs(table).max() / 1.5
    table[:] = np.round(table / step) * step


@pytest.mark.slow
@pytest.mark.parametrize(
    "corrupt",
    [swap_rows, shift_rows, zero_rows, halve, round_to_two_bits],
    ids=lambda f: f.__name__,
)
@pytest.mark.parametrize(
    "quantization", [pytest.param("none", marks=pytest.mark.slow), "int8-rows"]
)
def test_a_corrupted_table_is_caught(run, tmp_path, monkeypatch, quantization, corrupt):
    sound = CifgWeights.from_model

    def corrupted(model):
        weights = sound(model)
        table = weights.embedding.copy()
        corrupt(table)
        return dataclasses.replace(weights, embedding=table)

    monkeypatch.setattr(CifgWeights, "from_model", corrupted)
    out = tmp_path / "keyboard.tflite"
    # The table's own check would be the first to see it (test_gate.py).
    monkeypatch.setattr(export_module, "check_contents", lambda *_: None)
    with pytest.raises(ParityFailed, match="differ from the model"):
        export(run, out, ExportOptions(quantization=quantization), held_out=TEXTS)
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_gate_is_caught(run, tmp_path, monkeypatch):
    sound = CifgWeights.from_model

    def swapped(model):
        weights = sound(model)
        kernels = (weights.kernels[2], weights.kernels[1], weights.kernels[0])
        return dataclasses.replace(weights, kernels=kernels)

    monkeypatch.setattr(CifgWeights, "from_model", swapped)
    with pytest.raises(ParityFailed):
        export(run, tmp_path / "keyboard.tflite", ExportOptions(), held_out=TEXTS)


@pytest.mark.slow
def test_counts_are_those_of_counting_by_hand(run, tmp_path):
    """Computes recall and keystrokes of the float model by sorting words and typing letters."""
    report = compared(run, tmp_path)
    truth = export_fakes.NumpyCifg(CifgWeights.from_model(export_fakes.model()))
    hits_1 = hits_3 = words = characters = typed = positions = 0
    for messages in TEXTS.values():
        for message in messages:
            ids = [BOS, *VOCABULARY.encode(message)]
            positions += len(ids)
            for logits, word in zip(truth.logits(ids), message, strict=False):
                ranked = sorted(
                    range(NUM_SPECIAL, len(VOCABULARY)), key=lambda row: (-logits[row], row)
                )
                ranked = [VOCABULARY.words[row] for row in ranked]
                words += 1
                hits_1 += ranked[0] == word
                hits_3 += word in ranked[:STRIP]
                characters += len(word)
                typed += next(
                    (
                        length
                        for length in range(len(word))
                        if word in [w for w in ranked if w.startswith(word[:length])][:STRIP]
                    ),
                    len(word),
                )
    assert report.words == words
    assert report.positions == positions
    assert report.people == len(TEXTS)
    assert report.differences["recall_at_1"].keras == pytest.approx(hits_1 / words)
    assert report.differences["recall_at_3"].file == pytest.approx(hits_3 / words)
    assert report.differences["kss"].keras == pytest.approx((characters - typed) / characters)


@pytest.mark.slow
def test_interval_is_the_jackknife_of_the_paired_difference(run, tmp_path):
    """Leaves each user out of the texts and compares again."""
    path = export(run, tmp_path / "k.tflite", ExportOptions(quantization="int8")).paths.model
    predictor = KeyboardPredictor(path, VOCABULARY)

    def difference(texts):
        report = parity.compare(export_fakes.model(), VOCABULARY, predictor, texts)
        return report.differences["recall_at_3"]

    without = np.array(
        [
            difference({name: TEXTS[name] for name in TEXTS if name != left_out}).value
            for left_out in TEXTS
        ]
    )
    people = len(TEXTS)
    error = math.sqrt((people - 1) / people * np.square(without - without.mean()).sum())
    t_quantile = 2.5705818366  # 97.5 %, 5 degrees of freedom
    assert difference(TEXTS).half_width == pytest.approx(t_quantile * error, rel=1e-6, abs=1e-12)


def report_of(**changes):
    difference = ParityDifference(0.2, 0.2, 0.001)
    values = {
        "people": 5,
        "words": 10_000,
        "positions": 12_000,
        "same_best": 0.99,
        "same_three": 0.95,
        "differences": dict.fromkeys(("recall_at_1", "recall_at_3", "kss"), difference),
        "max_logit_error": 0.3,
        "rms_logit_error": 0.02,
        "logit_spread": 1.0,
        "shown": ShownReport(12_000, 0, 1e-6, 0, 0.0),
        "little_text": False,
        "forgiven": None,
    }
    return parity.ParityReport(**(values | changes))


TOLERANCE = parity.TOLERANCES["int8-rows"]


def with_recall(name, file, half_width=0.0):
    differences = report_of().differences | {name: ParityDifference(0.2, file, half_width)}
    return report_of(differences=differences)


@pytest.mark.parametrize("name", ["recall_at_1", "recall_at_3"])
@pytest.mark.parametrize("file", [0.2 - 0.00101, 0.2 + 0.00101, math.nan])
def test_recall_outside_a_tenth_of_a_point_fails(name, file):
    with pytest.raises(ParityFailed, match=name):
        with_recall(name, file).check(TOLERANCE)
    with_recall(name, 0.2 - 0.00099).check(TOLERANCE)


@pytest.mark.parametrize("name", ["recall_at_1", "recall_at_3"])
@pytest.mark.parametrize("sign", [-1, 1])
def test_a_change_of_recall_fails_only_outside_its_interval(name, sign):
    with_recall(name, 0.2 + sign * 0.0056, half_width=0.0251).check(TOLERANCE)  # Dutch
    with_recall(name, 0.2 + sign * 0.0056, half_width=0.0047).check(TOLERANCE)
    for half_width in (0.0045, math.nan):
        with pytest.raises(ParityFailed, match=rf"{name} differs by [+-]0\.560 \+- "):
            with_recall(name, 0.2 + sign * 0.0056, half_width).check(TOLERANCE)


def test_one_word_of_little_text_is_no_failure():
    one_word = {
        name: ParityDifference(0.2, 0.2 + 1 / 500, 0.0)
        for name in ("recall_at_1", "recall_at_3", "kss")
    }
    report_of(words=500, differences=one_word).check(TOLERANCE)
    with pytest.raises(ParityFailed):
        report_of(words=501, differences=one_word).check(TOLERANCE)


def test_low_agreement_fails_though_recall_is_the_same():
    with pytest.raises(ParityFailed, match=r"best word agrees at 95\.00 %"):
        report_of(same_best=0.95).check(TOLERANCE)


@pytest.mark.parametrize("error", [math.nan, math.inf, 2.01 * TOLERANCE.max_error])
def test_large_logit_errors_fail(error):
    report_of(max_logit_error=1.99 * TOLERANCE.max_error, logit_spread=2.0).check(TOLERANCE)
    with pytest.raises(ParityFailed, match=r"of their spread \(max"):
        report_of(max_logit_error=error, logit_spread=2.0).check(TOLERANCE)
    with pytest.raises(ParityFailed, match=r"of their spread \(rms"):
        report_of(rms_logit_error=2.01 * TOLERANCE.rms_error, logit_spread=2.0).check(TOLERANCE)


def test_logits_that_are_all_alike_have_no_spread_to_compare_with():
    with pytest.raises(ParityFailed, match="of their spread"):
        report_of(logit_spread=0.0).check(TOLERANCE)


def test_a_strip_that_contradicts_the_logits_is_no_loss():
    with pytest.raises(CheckFailed, match="1 of 12,000 strips") as caught:
        report_of(shown=ShownReport(12_000, 1, 0.5, 0, 0.0)).check(TOLERANCE)
    assert not isinstance(caught.value, ParityFailed)


def test_the_figures_come_with_the_failure():
    with pytest.raises(ParityFailed) as caught:
        report_of(same_best=0.5).check(TOLERANCE)
    assert "\n" not in str(caught.value)
    assert "same best word     50.00 %" in caught.value.table


@pytest.mark.slow
@pytest.mark.parametrize("texts", [{}, {"a": []}, {"a": [[]]}])
def test_text_without_a_word_is_rejected(run, tmp_path, texts):
    options = ExportOptions(allow_little_text=True)
    with pytest.raises(ExportError, match="no words to compare"):
        export(run, tmp_path / "k.tflite", options, held_out=texts)


@pytest.mark.slow
def test_text_of_unknown_words_counts_as_missed_by_both(run, tmp_path):
    path = export(run, tmp_path / "k.tflite", ExportOptions()).paths.model
    predictor = KeyboardPredictor(path, VOCABULARY)
    report = parity.compare(
        export_fakes.model(), VOCABULARY, predictor, {"a": [["qqq", "zzz"]], "b": [["xxx"]]}
    )
    assert report.words == 3
    assert report.positions == 5  # and two ends of message
    assert report.differences["recall_at_3"].keras == 0.0
    assert EOS < NUM_SPECIAL
