"""Errors of the training program, each with one line and a remedy."""

from tff_keyboard.host.interruption import SignalReceived
from tff_keyboard.storage.errors import ClusterError as ClusterError
from tff_keyboard.storage.errors import ProgramError as ProgramError
from tff_keyboard.storage.errors import RunDirectoryError as RunDirectoryError


class TrainingInterrupted(SignalReceived):
    """An error of a training that SIGINT or SIGTERM ended. The last checkpoint is valid."""

    def __init__(self, signal_number: int, completed_rounds: int, checkpoint_round: int):
        saved = (
            f"rounds 1 to {checkpoint_round} are saved" if checkpoint_round else "no round is saved"
        )
        super().__init__(signal_number, f"after round {completed_rounds}: {saved}")
