"""The errors of the training program, each with one line that says the way out."""

from tff_keyboard.host.interruption import SignalReceived
from tff_keyboard.storage.errors import ProgramError as ProgramError
from tff_keyboard.storage.errors import RunDirectoryError as RunDirectoryError


class WorkerError(ProgramError):
    """No TFF worker could be started, or none is left to finish a round."""


class NoPrivateEndpointError(ProgramError):
    """A worker could listen on an open port only. Trying again does not help."""


class ClusterError(ProgramError):
    """A cluster cannot be used, or too much of it was lost."""


class TrainingInterrupted(SignalReceived):
    """SIGINT or SIGTERM ended the training; the last checkpoint is valid."""

    def __init__(self, signal_number: int, completed_rounds: int, checkpoint_round: int):
        saved = f"rounds 1 to {checkpoint_round} are saved" if checkpoint_round else "none is done"
        super().__init__(signal_number, f"after round {completed_rounds}: {saved}")
