"""What can go wrong around the rounds, each with one line that says the way out."""

import signal

from tff_keyboard.storage.errors import ProgramError, RunDirectoryError, UserError

__all__ = [
    "ClusterError",
    "ProgramError",
    "RunDirectoryError",
    "StopTraining",
    "TrainingInterrupted",
    "WorkerError",
]


class WorkerError(ProgramError):
    """No TFF worker could be started, or none is left to finish a round."""


class ClusterError(ProgramError):
    """A cluster cannot be used, or too much of it was lost."""


class TrainingInterrupted(UserError):
    """SIGINT or SIGTERM ended the training; the last checkpoint is valid.

    `exit_code` is 128 + the signal number, as shells report it: 130 or 143.
    """

    def __init__(self, signal_number: int, completed_rounds: int, checkpoint_round: int):
        self.signal_number = signal_number
        self.exit_code = 128 + signal_number
        name = signal.Signals(signal_number).name
        saved = f"rounds 1 to {checkpoint_round} are saved" if checkpoint_round else "none is done"
        super().__init__(
            f"{name} after round {completed_rounds}: {saved}. "
            "Run the same command again to go on; the result is the same as without the stop."
        )


class StopTraining(Exception):
    """Raised by a hook to end the training before the current round is released.

    The round is discarded: no metrics, no checkpoint, no weights of it are kept.
    """
