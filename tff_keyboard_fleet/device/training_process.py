"""Trains in a process of its own, `python -m tff_keyboard_fleet.device.training_process`.

As on a phone, the interpreter's memory is freed when the process ends, and a file that crashes or
stalls the interpreter ends the task, not the device. The process has neither key nor cache. It
reads a `Job`, writes the upload's body and prints `Done`, each as JSON. It prints no word of a
text.
"""

import dataclasses
import functools
import hashlib
import json
import os
import pathlib
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from tff_keyboard.host import children
from tff_keyboard.storage import files, json_text, typed_json
from tff_keyboard.storage.errors import ExportError, UserError
from tff_keyboard_fleet.wire import messages
from tff_keyboard_fleet.wire.messages import UploadHeader
from tff_keyboard_fleet.wire.plan import Plan

if TYPE_CHECKING:
    import numpy as np

    from tff_keyboard_fleet.device import trainer as trainers

# One thread, and freed memory returns to the system (variables of glibc; other libcs ignore them).
_SMALL = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_THRESHOLD_": "65536",
    "MALLOC_TRIM_THRESHOLD_": "65536",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Job:
    """A training task. Paths are strings.

    Attributes:
      plan: File of the plan.
      graph: File of the packed `.tflite`.
      model: File of the weights.
      upload: File to write.
      assignment: Identifier of the seat.
      texts: Messages to train on, oldest first.
      library: `libcifg.so` to train with; None for LiteRT, which also evaluates.
      models: Files of further weights, in a round that evaluates several models.
    """

    plan: str
    graph: str
    model: str
    upload: str
    assignment: str
    texts: list[str]
    library: str | None = None
    models: list[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Done:
    """The figures of the upload, and its size.

    In a round that evaluates or looks for words, `steps` is the number of messages that it used,
    the newest ones.
    """

    weight: float
    loss: float
    steps: int
    upload_bytes: int


def run_in_child(job: Job, seconds: float) -> Done:
    """Does the job in a child process, which ends when this process ends.

    Raises:
      ExportError: If the child failed, crashed, or did not end in time. The message is one line.
    """
    command = children.with_parent_death_signal(children.python_module(__name__), signal.SIGKILL)
    job_json = json.dumps(typed_json.plain(job))
    try:
        child = subprocess.run(
            command,
            input=job_json,
            capture_output=True,
            text=True,
            timeout=seconds,
            env=os.environ | _SMALL,
        )
    except subprocess.TimeoutExpired:
        raise ExportError(f"Training did not end within {seconds:.0f} s.") from None
    if child.returncode:
        lines = child.stderr.strip().splitlines() or [f"exit code {child.returncode}"]
        raise ExportError(f"Training failed: {lines[-1][:200]}")
    result: Done = typed_json.read(Done, json_text.parse(child.stdout), "done")
    return result


def do(job: Job) -> Done:
    """Does the job in this process. In a secure sum, the update is zeros if training fails.

    Raises:
      ExportError: If the graph or the weights differ from the plan. Without secure sums also if the
        graph cannot train, training diverges, or the texts have no words.
    """
    from tff_keyboard_fleet.device import trainer as trainers
    from tff_keyboard_fleet.wire import weights as wire_weights

    plan = Plan.from_bytes(files.read_bytes(pathlib.Path(job.plan)))
    work = _new_words if plan.new_words is not None else _model_work
    compute = work(job, plan)
    is_masked = plan.secure_sums is not None  # all devices weigh the same and report no loss
    try:
        trained = compute()
    except Exception as error:
        if not is_masked:
            if isinstance(error, ValueError):
                raise ExportError(f"{job.graph}: cannot follow the plan ({error}).") from None
            raise
        # Training may fail because of the text. A device that dropped out would tell the server so.
        zeros = wire_weights.from_bytes(bytes(wire_weights.BYTES_PER_NUMBER * plan.upload_size))
        trained = trainers.Trained(zeros, weight=0.0, loss=0.0, steps=0)
    payload = encoded(trained.delta, plan, job.assignment)
    header = UploadHeader(
        assignment=job.assignment,
        weight=1.0 if is_masked else trained.weight,
        loss=0.0 if is_masked else trained.loss,
        codec=plan.codec.name,
        shape=[trained.delta.size],
    )
    parts = [messages.pack_upload(header, b""), payload]
    files.write_atomically(pathlib.Path(job.upload), parts, mode=files.OWNER_ONLY)
    return Done(
        weight=trained.weight,
        loss=trained.loss,
        steps=trained.steps,
        upload_bytes=sum(map(len, parts)),
    )


def _model_work(job: Job, plan: Plan) -> "Callable[[], trainers.Trained]":
    """Opens the graph, and returns the training or evaluation on it.

    Raises `ExportError` if the graph or the weights differ from the plan.
    """
    from tff_keyboard_fleet.device import trainer as trainers
    from tff_keyboard_fleet.wire import weights as wire_weights

    graph = pathlib.Path(job.graph)
    trainer: trainers.Trainer
    if job.library and plan.evaluation is None:
        trainer = trainers.LibcifgTrainer(graph, pathlib.Path(job.library))
    else:
        trainer = trainers.LiteRtTrainer(graph)
    _check_vocabulary(graph, trainer.fingerprint, plan)

    def initial() -> "np.ndarray":
        return wire_weights.from_bytes(files.read_bytes(pathlib.Path(job.model)))

    if (size := initial().size) != plan.parameters:
        raise ExportError(f"{job.model}: has {size} weights, but the plan has {plan.parameters}.")
    if plan.evaluation is None:
        return lambda: trainers.train(trainer, initial, job.texts, plan)
    assert isinstance(trainer, trainers.LiteRtTrainer)
    return functools.partial(_evaluated, trainer, job, plan)


def _new_words(job: Job, plan: Plan) -> "Callable[[], trainers.Trained]":
    """Reads the vocabulary of the graph, and returns the count of the words that it lacks.

    Raises `ExportError` if the vocabulary differs from the plan.
    """
    from tff_keyboard_fleet.device import trainer as trainers
    from tff_keyboard_fleet.device import word_counter
    from tflite_export.format import manifest

    graph = pathlib.Path(job.graph)
    _, vocabulary = manifest.load_checked(graph)
    _check_vocabulary(graph, vocabulary.fingerprint, plan)

    def counted() -> trainers.Trained:
        vector = word_counter.count(job.texts, vocabulary, plan)
        return trainers.Trained(vector, weight=1.0, loss=0.0, steps=len(job.texts))

    return counted


def _check_vocabulary(graph: pathlib.Path, fingerprint: str, plan: Plan) -> None:
    if fingerprint != plan.vocabulary:
        raise ExportError(f"{graph}: its vocabulary differs from the plan.")


def _evaluated(trainer: "trainers.LiteRtTrainer", job: Job, plan: Plan) -> "trainers.Trained":
    """Returns the sums of an evaluation, in the place of a delta."""
    from tff_keyboard_fleet.device import evaluator
    from tff_keyboard_fleet.device import trainer as trainers
    from tff_keyboard_fleet.wire import weights as wire_weights

    def weights_of(path: str) -> "np.ndarray":
        return wire_weights.from_bytes(files.read_bytes(pathlib.Path(path)))

    models = [functools.partial(weights_of, path) for path in (job.model, *job.models)]
    vector, messages_read = evaluator.evaluate(trainer, models, job.texts, plan)
    return trainers.Trained(vector, weight=1.0, loss=0.0, steps=messages_read)


def encoded(delta: "np.ndarray", plan: Plan, assignment: str) -> bytes:
    """Encodes the payload of an upload with the plan's codec.

    In a secure sum it is not masked yet.
    """
    from tff_keyboard_fleet.wire import weights as wire_weights

    if plan.secure_sums is not None:
        from tff_keyboard_fleet.wire.secure_sums import grid, masks

        sums = plan.secure_sums
        steps = grid.to_grid(delta, clip_norm=sums.clip_norm, step=sums.step)
        return steps.astype(masks.WORDS[sums.bits]).tobytes()
    if plan.codec.name == messages.RAW:
        return wire_weights.to_bytes(delta)
    from tff_keyboard.storage import update_codec

    seed = int.from_bytes(hashlib.sha256(assignment.encode()).digest()[:8], "little")
    codec = plan.codec
    return update_codec.encode(delta, bits=codec.bits or 4, seed=seed)


def main() -> int:
    """Reads a job from stdin, prints the result, and returns the exit code."""
    job: Job = typed_json.read(Job, json_text.parse(sys.stdin.read()), "job")
    try:
        print(json.dumps(typed_json.plain(do(job))))
    except UserError as error:
        print(" ".join(str(error).split()), file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
