"""A model that crashes, loops or fills memory does so in a child, and gives one line here."""

import contextlib
import json
import os
import pathlib
import signal
import stat

import numpy as np
import pytest

from tests.support.keyboard import export_fakes
from tests.support.keyboard.export_fakes import export
from tff_keyboard.storage.errors import CheckFailed, ExportError
from tflite_export.export.export_options import ExportOptions
from tflite_export.format import manifest
from tflite_export.gate import model_trial
from tflite_export.runtime import interpreters
from tflite_export.runtime.keyboard_predictor import KeyboardPredictor


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trial")
    run = export_fakes.save_run(folder / "run")
    return export(run, folder / "k.tflite", ExportOptions(trainable=True)).paths


def children():
    return pathlib.Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()


def refused(path, kind, message):
    before = children()
    with pytest.raises(kind, match=message) as caught:
        model_trial.use_in_child(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)
    assert children() == before
    return str(caught.value)


def test_a_sound_one_says_nothing_and_is_as_it_was(sound, capfd):
    before = sound.model.read_bytes()
    model_trial.use_in_child(sound.model)
    assert capfd.readouterr() == ("", "")
    assert sound.model.read_bytes() == before


def forge(sound, folder, data):
    """Returns an export of these bytes, with the right hashes."""
    paths = manifest.ExportPaths(folder / "k.tflite")
    content = json.loads(sound.manifest.read_text())
    content["model"] |= {"sha256": manifest.sha256(data), "bytes": len(data)}
    paths.model.write_bytes(data)
    paths.manifest.write_text(json.dumps(content))
    paths.vocabulary.write_bytes(sound.vocabulary.read_bytes())
    return paths.model


def test_a_root_that_lies_outside_the_file(sound, tmp_path, capfd, monkeypatch):
    """LiteRT checks the buffer first.

    TensorFlow's interpreter reads 2 GB further on: signal 11, unless memory is mapped there.
    """
    data = b"\xff\xff\xff\x7f" + sound.model.read_bytes()[4:]
    path = forge(sound, tmp_path, data)
    if "litert" in interpreters.installed_runtimes():
        refused(path, ExportError, "not a model the TFLite interpreter can open")
    monkeypatch.setattr(interpreters, "RUNTIMES", ("tensorflow",))
    either = r"crashes the interpreter \(SIGSEGV\)|not a model the TFLite interpreter can open"
    refused(path, (CheckFailed, ExportError), either)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("end", [signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE])
def test_any_crash(sound, monkeypatch, end):
    monkeypatch.setattr(model_trial, "open_keyboard", lambda *_, **__: os.kill(os.getpid(), end))
    assert end.name in refused(sound.model, CheckFailed, "crashes the interpreter")


def test_an_exit_in_the_middle(sound, monkeypatch):
    monkeypatch.setattr(model_trial, "open_keyboard", lambda *_, **__: os._exit(7))
    refused(sound.model, CheckFailed, "exit code 7")


@pytest.fixture
def ends(monkeypatch):
    """Returns both ends of the pipe to the child: reading, writing."""
    made = []

    def pipe(make=os.pipe):
        made[:] = make()
        return tuple(made)

    monkeypatch.setattr(os, "pipe", pipe)
    return made


@pytest.mark.parametrize(
    "said",
    [b"", b"{", b"\xff", b'""x', b"5", b"null", b"[" * 30_000],
    ids=["nothing", "cut", "no text", "more", "number", "null", "deep"],
)
def test_an_exit_without_an_answer(sound, monkeypatch, ends, said):
    """The interpreter may call `exit(0)`, or write other output."""

    def leaves(*_, **__):
        os.write(ends[1], said)
        os._exit(0)

    monkeypatch.setattr(model_trial, "open_keyboard", leaves)
    refused(sound.model, CheckFailed, "no answer")


def test_a_long_answer_is_cut(sound, monkeypatch):
    """A pipe takes 64 KiB; a writer of more waits for the reader."""

    def long(*_, **__):
        signal.alarm(20)  # if nobody reads
        raise ExportError(f"{sound.model}: " + "\N{GRINNING FACE}" * 10**6)

    monkeypatch.setattr(model_trial, "open_keyboard", long)
    assert len(refused(sound.model, ExportError, "\N{GRINNING FACE}")) <= 2_000


def test_endless_output_is_stopped(sound, monkeypatch, ends):
    def talks(*_, **__):
        signal.alarm(20)
        while True:
            os.write(ends[1], b"x" * 2**16)

    monkeypatch.setattr(model_trial, "open_keyboard", talks)
    refused(sound.model, CheckFailed, "does not finish")


def test_the_child_does_not_hold_the_end_that_is_read(sound, monkeypatch, ends):
    def holds(*_, **__):
        with contextlib.suppress(OSError):  # closed, or another file has its number
            os._exit(3 if stat.S_ISFIFO(os.fstat(ends[0]).st_mode) else 4)
        os._exit(4)

    monkeypatch.setattr(model_trial, "open_keyboard", holds)
    refused(sound.model, CheckFailed, "exit code 4")


def test_a_pipe_closed_by_a_child_that_lives_on(sound, monkeypatch, ends):
    def lives_on(*_, **__):
        signal.alarm(20)  # if nobody looks at the time
        os.close(ends[1])
        signal.pause()

    monkeypatch.setattr(model_trial, "open_keyboard", lives_on)
    monkeypatch.setattr(model_trial, "SECONDS", 1)
    refused(sound.model, CheckFailed, "does not finish")


def loops(*_, **__):
    while True:
        pass


def sleeps(*_, **__):
    signal.pause()


@pytest.mark.parametrize("what, limit", [(loops, "CPU_SECONDS"), (sleeps, "SECONDS")])
def test_endless_model_is_stopped(sound, monkeypatch, what, limit):
    monkeypatch.setattr(model_trial, "open_keyboard", what)
    monkeypatch.setattr(model_trial, limit, 1)
    refused(sound.model, CheckFailed, "does not finish")


def test_memory_has_a_bound(sound, monkeypatch):
    monkeypatch.setattr(model_trial, "MEMORY_BYTES", 2**28)
    monkeypatch.setattr(model_trial, "open_keyboard", lambda *_, **__: np.ones(2**30))
    refused(sound.model, ExportError, "MemoryError")


@pytest.mark.parametrize(
    "error", [KeyError("a\nb"), TypeError("c"), RecursionError(), MemoryError()]
)
def test_unexpected_error_is_one_line(sound, monkeypatch, error):
    def broken(*_, **__):
        raise error

    monkeypatch.setattr(model_trial, "open_keyboard", broken)
    refused(sound.model, ExportError, type(error).__name__)


def test_a_damaged_part_is_what_the_reader_says(sound, tmp_path):
    path = forge(sound, tmp_path, sound.model.read_bytes())
    (tmp_path / "k.vocabulary").write_bytes(b"other")
    with pytest.raises(ExportError, match="does not match its manifest"):
        model_trial.use_in_child(path)


def test_an_interrupt_leaves_no_child(sound, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    before = children()
    monkeypatch.setattr(model_trial, "open_keyboard", sleeps)
    monkeypatch.setattr("select.select", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model_trial.use_in_child(sound.model)
    assert children() == before


def test_what_the_interpreter_refuses_to_run_is_one_line(sound):
    """The file opens, because operators and shapes are checked at the first run."""
    step = KeyboardPredictor(sound.model).signature("step")
    with pytest.raises(ExportError, match="cannot run `step`"):
        step(
            token=np.zeros([2], np.int32), c=np.zeros([3, 3], np.float32), h=np.zeros([1], np.int8)
        )
