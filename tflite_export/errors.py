"""The two errors of this package; the command line turns each into one line and an exit code."""


class ExportError(ValueError):
    """A run directory, model file, vocabulary or option that cannot be exported or loaded.

    The message is one line: the name as the user wrote it, the rule, the value, the way out.
    """


class CheckFailed(ValueError):
    """A written model file broke a promise: its size, its operators, its parity with Keras."""


class ParityFailed(CheckFailed):
    """The written file does not suggest what the model does.

    Attributes:
      table: The whole comparison, as text of several lines.
    """

    def __init__(self, message: str, table: str):
        super().__init__(message)
        self.table = table
