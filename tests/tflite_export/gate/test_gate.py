"""Valid files pass the gate, and the intended check finds each corruption."""

import functools
from typing import ClassVar

import numpy as np
import pytest

from tests.support.keyboard import export_corruptions, export_fakes
from tests.support.keyboard.export_fakes import export
from tff_keyboard.data.vocabulary import EOS, PAD
from tff_keyboard.storage.errors import CheckFailed
from tflite_export.export.export import check_contents
from tflite_export.export.export_options import QUANTIZATIONS, ExportOptions
from tflite_export.gate import parity
from tflite_export.gate.parity import GateUndecided, ParityFailed
from tflite_export.runtime.keyboard_predictor import KeyboardPredictor

SMALL = (300, 24, 16)  # rows, units, dim
FULL = (10_000, 670, 96)
LOSS = ("logits x 0.25", "logits x 4")  # what needs text, and may be allowed


class Run:
    """A made-up model in a run directory."""

    def __init__(self, folder, size):
        self.fake = export_fakes.Sized(*size)
        self.directory = self.fake.save(folder)

    def export(self, folder, *, text=True, **options):
        return export(
            self.directory,
            folder / "k.tflite",
            ExportOptions(**options),
            held_out=self.fake.texts if text else None,
        )


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return Run(tmp_path_factory.mktemp("small"), SMALL)


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    return Run(tmp_path_factory.mktemp("full"), FULL)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("quantization", QUANTIZATIONS)
def test_sound_files_pass(small, tmp_path, quantization):
    result = small.export(tmp_path, quantization=quantization)
    shown = result.parity.shown
    assert shown.strips > result.parity.positions
    assert (shown.wrong_strips, shown.wrong_states) == (0, 0)
    assert not result.parity.little_text


@pytest.mark.slow
@pytest.mark.parametrize("name", export_corruptions.of_size(SMALL[0]))
def test_a_corruption_is_caught(small, tmp_path, name):
    corruption, message = export_corruptions.of_size(SMALL[0])[name]
    with (
        export_corruptions.broken_writer(corruption),
        pytest.raises(CheckFailed, match=message) as caught,
    ):
        small.export(tmp_path)
    assert isinstance(caught.value, ParityFailed) == (name in LOSS)
    assert names(tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(export_corruptions.of_size(SMALL[0])) - set(LOSS)))
def test_a_broken_file_is_caught_without_text_and_never_allowed(small, tmp_path, name):
    corruption, message = export_corruptions.of_size(SMALL[0])[name]
    with (
        export_corruptions.broken_writer(corruption),
        pytest.raises(CheckFailed, match=message),
    ):
        small.export(tmp_path, text=False, allow_loss=True)
    assert names(tmp_path) == []


@pytest.mark.slow
def test_a_sound_file_of_full_size_passes(full, tmp_path):
    assert full.export(tmp_path).parity.same_best > 0.96


@pytest.mark.slow
@pytest.mark.parametrize("name", export_corruptions.of_size(FULL[0]))
def test_a_corruption_of_full_size_is_caught(full, tmp_path, name):
    corruption, message = export_corruptions.of_size(FULL[0])[name]
    with export_corruptions.broken_writer(corruption), pytest.raises(CheckFailed, match=message):
        full.export(tmp_path)


class Corrupted(KeyboardPredictor):
    """A trainable file with one signature that does something else."""

    changes: ClassVar = {}

    def signature(self, name):
        sound = super().signature(name)
        change = self.changes.get(name)
        return sound if change is None else functools.partial(change, self, sound)


def up_the_slope(file, train, tokens, learning_rate):
    """Trains by gradient ascent."""
    return train(tokens=tokens, learning_rate=-learning_rate)


def without_projection(file, train, tokens, learning_rate):
    """Leaves one of the five weights untrained."""
    before = file.signature("weights")()
    loss = train(tokens=tokens, learning_rate=learning_rate)
    after = file.signature("weights")()
    file.signature("set_weights")(**after | {"projection": before["projection"]})
    return loss


def half_the_loss(file, train, **arguments):
    return {"loss": 0.5 * train(**arguments)["loss"]}


def counts_pad(file, train, tokens, learning_rate):
    """Counts PAD as a target, as if it were the end of the message."""
    return train(tokens=np.where(tokens == PAD, EOS, tokens), learning_rate=learning_rate)


def rounded(file, weights):
    """Rounds to a hundredth of the digits."""
    return {name: np.round(value * 16.0) / 16.0 for name, value in weights().items()}


def swapped_rows(file, weights):
    found = weights()
    found["embedding"][[9, 99]] = found["embedding"][[99, 9]]
    return found


def all_but_the_table(file, set_weights, **values):
    table = file.signature("weights")()["embedding"]
    return set_weights(**values | {"embedding": table})


@pytest.fixture(scope="module")
def trainable_file(small, tmp_path_factory):
    return small.export(tmp_path_factory.mktemp("trainable"), text=False, trainable=True)


@pytest.mark.slow
def test_a_sound_trainable_file_passes_and_is_not_trained(small, trainable_file):
    path = trainable_file.paths.model
    file = KeyboardPredictor(path)
    before = file.signature("weights")()
    check_contents(path.read_bytes(), file, small.fake.model, small.fake.vocabulary)
    after = file.signature("weights")()
    for name, value in before.items():
        np.testing.assert_array_equal(after[name], value)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("signature", "change"),
    [
        ("train", up_the_slope),
        ("train", without_projection),
        ("train", half_the_loss),
        ("train", counts_pad),
        ("weights", rounded),
        ("weights", swapped_rows),
        ("set_weights", all_but_the_table),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_training_that_goes_wrong_is_caught(small, trainable_file, signature, change):
    file = type("File", (Corrupted,), {"changes": {signature: change}})(trainable_file.paths.model)
    with pytest.raises(CheckFailed, match=f"The signature `{signature}` .* is wrong"):
        check_contents(
            trainable_file.paths.model.read_bytes(), file, small.fake.model, small.fake.vocabulary
        )


def people(count, words):
    """Returns users with a number of words each, in messages of ten."""
    return {f"person {n}": [["to"] * 10] * (words // 10) for n in range(count)}


@pytest.mark.parametrize("texts", [people(4, 1000), people(99, 10), {}, {"a": [[]]}])
def test_little_text_is_no_verdict(small, tmp_path, texts):
    with pytest.raises(GateUndecided, match=r"needs 1,000 words of 5 clients"):
        export(small.directory, tmp_path / "k.tflite", ExportOptions(), held_out=texts)
    assert names(tmp_path) == []


@pytest.mark.slow
def test_little_text_can_be_allowed_and_is_said(small, tmp_path):
    texts = dict(list(small.fake.texts.items())[:2])
    result = export(
        small.directory,
        tmp_path / "k.tflite",
        ExportOptions(quantization="none", allow_little_text=True),
        held_out=texts,
    )
    assert result.parity.little_text
    assert "little text" in result.parity.table()
    assert not parity.is_little(people(5, 200))


class Drifting(KeyboardPredictor):
    """A file whose `step` is right for the length of messages, and wrong from 100 tokens on."""

    def signature(self, name):
        sound = super().signature(name)
        if name != "step":
            return sound

        def step(token, c, h):
            self.steps = 1 if not c.any() else self.steps + 1
            out = sound(token=token, c=c, h=h)
            return out | {"new_h": out["new_h"] + (self.steps > 100)}

        step.input_shapes = sound.input_shapes
        step.output_shapes = sound.output_shapes
        return step


@pytest.mark.slow
def test_drift_shows_in_the_long_message(small, tmp_path):
    result = small.export(tmp_path, quantization="none", text=False)
    file, drifting = (kind(result.paths.model) for kind in (KeyboardPredictor, Drifting))
    compared = [
        parity.compare(small.fake.model, small.fake.vocabulary, predictor, small.fake.texts)
        for predictor in (file, drifting)
    ]
    sound, late = compared
    assert late.same_best == sound.same_best == 1.0
    assert sound.max_logit_error < 1e-3 < 0.1 < late.max_logit_error
    assert (sound.shown.wrong_states, late.shown.wrong_states) == (0, 2)  # 200 and 301 tokens
