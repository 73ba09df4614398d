"""A device's part in a secure sum: `tff_keyboard_fleet/wire/secure_sums/` over `RoundClient`.

Its secrets are only in memory. The trained delta is on disk as integers without masks, which only
the owner can read. It leaves the device masked, or not at all.
"""

import dataclasses
from collections.abc import Callable, Collection

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tff_keyboard.storage.errors import ExportError
from tff_keyboard_fleet.device.client import RoundClient
from tff_keyboard_fleet.device.store import SavedTask
from tff_keyboard_fleet.wire import messages, secure_steps
from tff_keyboard_fleet.wire.messages import Accepted
from tff_keyboard_fleet.wire.plan import Plan
from tff_keyboard_fleet.wire.secure_sums import masks
from tff_keyboard_fleet.wire.secure_sums.device import Device
from tff_keyboard_fleet.wire.secure_sums.errors import SecureSumError


class MaskedUpload:
    """The steps of one seat, each taken once.

    Args:
      client: The connection to the server.
      key: The device's key.
      task: The seat.
      plan: The plan of the round.
      upload: Returns the body of an upload whose payload is the integers without masks. It is
        called after neighbours have shared with this device.
      keep: Called with the masked body before it is sent.
      known: Public keys of real devices, the only neighbours that it accepts; None to accept any.

    Attributes:
      accepted: The server's answer to the masked vector; None until then.

    Raises:
      ExportError: If the server gave the round no label, or no sum can have the plan's numbers.
    """

    def __init__(
        self,
        client: RoundClient,
        key: Ed25519PrivateKey,
        task: SavedTask,
        plan: Plan,
        upload: Callable[[], bytes],
        keep: Callable[[bytes], None] = lambda masked: None,
        known: Collection[bytes] | None = None,
    ):
        if plan.secure_sums is None or not task.secure_sum:
            raise ExportError("The round has no label for its secure sum.")
        sums = plan.secure_sums
        try:
            label = secure_steps.label(task.secure_sum, task.plan, task.model)
            settings = secure_steps.settings(sums, plan.upload_size, label)
        except ValueError as error:
            raise ExportError(f"`plan.secure_sums`: {error}") from None
        self.assignment = task.assignment
        self.accepted: Accepted | None = None
        self._client, self._round, self._bits = client, task.round, sums.bits
        self._device = Device(settings, key, lambda each: known is None or each in known)
        self._upload, self._keep = upload, keep
        self._share: secure_steps.Share | None = None
        self._masked = b""
        self._confirm: secure_steps.Confirm | None = None
        self._unmask: secure_steps.Unmask | None = None

    def advertise(self) -> secure_steps.Next:
        """Posts its keys, the first step, which needs no training. Raises the errors of `go_on`."""
        first = secure_steps.advertise(self.assignment, self._device.advert)
        return self._client.secure(self._round, "advertise", first)

    def go_on(self) -> float | None:
        """Takes all steps that the server can answer now.

        Returns:
          Seconds to wait before the next call, or None at the end.

        Raises:
          Refused: If the server rejects a step, or closed it without this device.
          SecureSumError: If a request of the server would reveal a secret.
          ServerUnavailable: If the server cannot be reached. The same call continues.
        """
        try:
            return self._go_on()
        except SecureSumError:
            raise
        except ValueError as error:  # not hex, or not a key
            raise SecureSumError(
                f"The server's answer does not fit the secure sum ({error})."
            ) from None

    def _go_on(self) -> float | None:
        """Takes the next steps of the sum. Returns the seconds to wait; None after the last step.

        The steps: advertise keys, share secrets, upload, confirm the devices that reported, reveal
        shares.
        """
        if self._share is None:
            answer = self.advertise()
            if answer.neighbours is None:
                return _wait(answer)
            adverts = [secure_steps.advert(bytes.fromhex(x.device), x) for x in answer.neighbours]
            self._share = secure_steps.share(self.assignment, self._device.share(adverts))
        if not self._masked:
            answer = self._client.secure(self._round, "share", self._share)
            if answer.envelopes is None:
                return _wait(answer)
            self._masked = self._mask(answer)
        if self.accepted is None:
            self._keep(self._masked)
            self.accepted = self._client.upload(self._round, self._masked)
        if self._confirm is None:
            asked = secure_steps.Confirm(assignment=self.assignment)
            answer = self._client.secure(self._round, "confirm", asked)
            if answer.retry_after_s is not None:
                return _wait(answer)
            if answer.reported is None:
                return None
            confirmations = self._device.confirm(secure_steps.asked(answer))
            self._confirm = secure_steps.confirm(self.assignment, confirmations)
        if self._unmask is None:
            answer = self._client.secure(self._round, "confirm", self._confirm)
            if answer.retry_after_s is not None:
                return _wait(answer)
            if answer.confirmations is None:
                return None
            reveal = self._device.unmask(secure_steps.from_hex(answer.confirmations))
            self._unmask = secure_steps.unmask(self.assignment, reveal)
        self._client.secure(self._round, "unmask", self._unmask)
        return None

    def _mask(self, answer: secure_steps.Next) -> bytes:
        """Returns the upload with its vector masked, given the envelopes from the neighbours."""
        header, payload = messages.unpack_upload(self._upload())
        vector = np.frombuffer(payload, masks.WORDS[self._bits])
        envelopes = secure_steps.received(self._device.name, answer.envelopes or [])
        report = self._device.report(envelopes, vector)
        header = dataclasses.replace(header, included=secure_steps.in_hex(report.included))
        return messages.pack_upload(header, report.masked.tobytes())


def _wait(answer: secure_steps.Next) -> float:
    """Returns the seconds to wait, if the answer has no result yet."""
    if answer.retry_after_s is None:
        raise SecureSumError("the server has closed the sum")
    return float(max(answer.retry_after_s, 1))
