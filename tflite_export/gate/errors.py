"""The errors of the gate; the others are in `tff_keyboard.storage.errors`."""

from tff_keyboard.storage.errors import CheckFailed


class ParityFailed(CheckFailed):
    """The written file suggests other words than the model. `table` is the whole comparison."""

    def __init__(self, message: str, table: str):
        super().__init__(message)
        self.table = table


class GateUndecided(CheckFailed):
    """There is too little text to decide whether the file suggests the same words as the model."""
