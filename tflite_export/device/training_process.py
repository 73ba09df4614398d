"""Trains in a process of its own, `python -m tflite_export.device.training_process`.

As on a phone: what the interpreter takes is given back when it ends, and a file that crashes or
stalls it costs the task, not the device; it has neither key nor cache. It reads a `Job`, writes the
upload's body and prints `Done`, each as JSON. No word of a text is printed.
"""

import dataclasses
import hashlib
import json
import os
import pathlib
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

from tff_keyboard.host import children
from tff_keyboard.storage import files, typed_json
from tff_keyboard.storage.errors import ExportError, UserError
from tff_keyboard.wire import messages
from tff_keyboard.wire.messages import UploadHeader
from tff_keyboard.wire.plan import Plan

if TYPE_CHECKING:
    import numpy as np

# One thread, and what is freed goes back to the system (glibc; others do not know the words).
_SMALL = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_THRESHOLD_": "65536",
    "MALLOC_TRIM_THRESHOLD_": "65536",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Job:
    """What there is to do; paths as strings.

    Attributes:
      plan: The plan's file.
      graph: The packed `.tflite`; weights beside it in `model`.
      upload: The file to write.
      texts: What to train on, oldest first.
      library: `libcifg.so` to train with; None: LiteRT.
    """

    plan: str
    graph: str
    model: str
    upload: str
    assignment: str
    texts: list[str]
    library: str | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Done:
    """What was done: the figures of the upload, and its size."""

    weight: float
    loss: float
    steps: int
    upload_bytes: int


def run_in_child(job: Job, seconds: float) -> Done:
    """Does the job in a child process, which ends with this one.

    Raises:
      ExportError: It failed, crashed, or did not end in time; one line.
    """
    module = [sys.executable, "-m", __name__]
    command = children.signalled_when_orphaned(module, signal.SIGKILL)
    given = json.dumps(typed_json.plain(job))
    try:
        done = subprocess.run(
            command,
            input=given,
            capture_output=True,
            text=True,
            timeout=seconds,
            env=os.environ | _SMALL,
        )
    except subprocess.TimeoutExpired:
        raise ExportError(f"Training did not end within {seconds:.0f} s.") from None
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise ExportError(f"Training failed: {lines[-1][:200]}")
    found: Done = typed_json.read(Done, json.loads(done.stdout), "done")
    return found


def do(job: Job) -> Done:
    """Does the job in this process.

    Raises:
      ExportError: The graph is another than the plan says, cannot train, or training diverges.
    """
    from tff_keyboard.wire import weights as wire_weights
    from tflite_export.device import trainer as trainers

    plan = Plan.from_bytes(files.read_bytes(pathlib.Path(job.plan)))
    graph = pathlib.Path(job.graph)
    trainer: trainers.Trainer
    if job.library:
        trainer = trainers.LibcifgTrainer(graph, pathlib.Path(job.library))
    else:
        trainer = trainers.LiteRtTrainer(graph)
    if trainer.fingerprint != plan.vocabulary:
        raise ExportError(f"{graph}: has another vocabulary than the plan says.")

    def initial() -> "np.ndarray":
        return wire_weights.from_bytes(files.read_bytes(pathlib.Path(job.model)))

    try:
        trained = trainers.train(trainer, initial, job.texts, plan)
    except ValueError as error:
        raise ExportError(f"{graph}: cannot train as the plan says ({error}).") from None
    payload = encoded(trained.delta, plan, job.assignment)
    is_masked = plan.secure_sums is not None  # all weigh alike then, and tell no loss
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


def encoded(delta: "np.ndarray", plan: Plan, assignment: str) -> bytes:
    """The payload of an upload, by the plan's codec; that of a secure sum is still to be masked."""
    from tff_keyboard.wire import weights as wire_weights

    if plan.secure_sums is not None:
        from tff_keyboard.wire.secure_sums import grid, masks

        sums = plan.secure_sums
        steps = grid.to_grid(delta, clip_norm=sums.clip_norm, step=sums.step)
        return steps.astype(masks.WORDS[sums.bits]).tobytes()
    if plan.codec.name == messages.RAW:
        return wire_weights.to_bytes(delta)
    from tff_keyboard.wire import update_codec

    seed = int.from_bytes(hashlib.sha256(assignment.encode()).digest()[:8], "little")
    codec = plan.codec
    return update_codec.encode(delta, bits=codec.bits or 4, seed=seed, rotated=codec.rotated)


def main() -> int:
    """Reads a job from stdin, prints what was done; the exit code."""
    job: Job = typed_json.read(Job, json.load(sys.stdin), "job")
    try:
        print(json.dumps(typed_json.plain(do(job))))
    except UserError as error:
        print(" ".join(str(error).split()), file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
