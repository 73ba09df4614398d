"""The error of a secure sum."""

from tff_keyboard.storage.errors import ProgramError


class SecureSumError(ProgramError, ValueError):
    """A failed step of secure aggregation: a wrong message of another party, or too few devices.

    Attributes:
      device: Key of the device that sent the wrong message, if known.
    """

    device: bytes | None = None
