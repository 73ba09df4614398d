"""Trains in a process of its own, `python -m tflite_export.device.training_process`.

As on a phone: what the interpreter takes is given back when it ends, and a file that crashes or
stalls it costs the task, not the device. It reads a `Job`, writes the upload's body and prints
`Done`, each as JSON. No word of a text is printed.
"""

import dataclasses
import hashlib
import json
import os
import pathlib
import signal
import subprocess
import sys

from tff_keyboard.host import children
from tff_keyboard.storage import files, typed_json
from tff_keyboard.storage.errors import ExportError, UserError
from tff_keyboard.wire import messages
from tff_keyboard.wire.messages import UploadHeader
from tff_keyboard.wire.plan import Plan


@dataclasses.dataclass(frozen=True, kw_only=True)
class Job:
    """What there is to do; paths as strings.

    Attributes:
      plan: The plan's file.
      graph: The packed `.tflite`; weights beside it in `model`.
      cache: The client cache.
      upload: The file to write.
      library: `libcifg.so` to train with; None: LiteRT.
    """

    plan: str
    graph: str
    model: str
    cache: str
    upload: str
    assignment: str
    library: str | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Done:
    """What was done: ids of the examples that were used, figures of the upload, and its size."""

    used: list[int]
    weight: float
    loss: float
    steps: int
    upload_bytes: int


def run_in_child(job: Job, *, seconds: float) -> Done:
    """Does the job in a child process, which ends with this one.

    Raises:
      ExportError: It failed, crashed, or did not end in time; one line.
    """
    module = [sys.executable, "-m", __name__]
    command = children.signalled_when_orphaned(module, signal.SIGKILL)
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    given = json.dumps(typed_json.plain(job))
    try:
        done = subprocess.run(
            command, input=given, capture_output=True, text=True, timeout=seconds, env=environment
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
      DataError: The cache cannot be used.
    """
    from tff_keyboard.wire import weights as wire_weights
    from tflite_export.device import trainer as trainers
    from tflite_export.device.cache import ClientCache

    plan = Plan.from_bytes(files.read_bytes(pathlib.Path(job.plan)))
    graph = pathlib.Path(job.graph)
    trainer = (
        trainers.LibcifgTrainer(graph, pathlib.Path(job.library))
        if job.library
        else trainers.LiteRtTrainer(graph)
    )
    if trainer.fingerprint != plan.vocabulary:
        raise ExportError(f"{graph}: has another vocabulary than the plan says.")
    cache = ClientCache(pathlib.Path(job.cache))
    examples = cache.newest(plan.max_messages)
    cache.close()
    initial = wire_weights.from_bytes(files.read_bytes(pathlib.Path(job.model)))
    try:
        trained = trainers.train(trainer, initial, [text for _, text in examples], plan)
    except ValueError as error:
        raise ExportError(f"{graph}: cannot train as the plan says ({error}).") from None
    payload = encoded(trained.delta, plan, job.assignment)
    header = UploadHeader(
        assignment=job.assignment,
        weight=trained.weight,
        loss=trained.loss,
        codec=plan.codec.name,
        shape=[trained.delta.size],
    )
    body = messages.pack_upload(header, payload)
    files.write_atomically(pathlib.Path(job.upload), [body], mode=files.OWNER_ONLY)
    return Done(
        used=[number for number, _ in examples],
        weight=trained.weight,
        loss=trained.loss,
        steps=plan.epochs * trained.sequences,
        upload_bytes=len(body),
    )


def encoded(delta, plan: Plan, assignment: str) -> bytes:  # type: ignore[no-untyped-def]
    """The payload of an upload, by the plan's codec."""
    from tff_keyboard.wire import weights as wire_weights

    if plan.codec.name == messages.RAW:
        return wire_weights.to_bytes(delta)
    from tff_keyboard.wire import update_codec

    seed = int.from_bytes(hashlib.sha256(assignment.encode()).digest()[:8], "little")
    return update_codec.encode(delta, bits=plan.codec.bits, seed=seed)


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
