"""A device's part in a secure sum: `tff_keyboard/wire/secure_sums/` over `RoundClient`.

Its secrets are in memory alone. What was trained is on disk as integers without masks, for the
owner; it leaves the device masked, or not at all.
"""

from collections.abc import Callable, Collection

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tff_keyboard.storage.errors import ExportError, SecureSumError
from tff_keyboard.wire import messages, secure_steps
from tff_keyboard.wire.messages import Accepted
from tff_keyboard.wire.plan import Plan
from tff_keyboard.wire.secure_sums import masks
from tff_keyboard.wire.secure_sums.device import Device
from tflite_export.device.client import RoundClient
from tflite_export.device.store import SavedTask


class MaskedUpload:
    """The steps of one seat, each taken once.

    Args:
      upload: Reads the body of an upload whose payload is the integers without masks; called once
        others have shared with this device.
      keep: Called with the masked body before it is sent.
      known: Public keys of real devices, the only neighbours that it takes; None: it takes any.

    Attributes:
      accepted: The server's answer to the masked vector; None: it does not have it yet.

    Raises:
      ExportError: The server gave the round no label, or the plan's numbers fit no sum.
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
            settings = secure_steps.settings(sums, plan.parameters, task.secure_sum)
        except ValueError as error:
            raise ExportError(f"`plan.secure_sums`: {error}") from None
        self.assignment = task.assignment
        self.accepted: Accepted | None = None
        self._client, self._round, self._bits = client, task.round, sums.bits
        self._device = Device(settings, key, lambda each: known is None or each in known)
        self._upload, self._keep = upload, keep
        self._share: secure_steps.Share | None = None
        self._masked = b""
        self._unmask: secure_steps.Unmask | None = None

    def advertise(self) -> secure_steps.Next:
        """Posts its keys, the first step, for which nothing need be trained; raises as `go_on`."""
        first = secure_steps.advertise(self.assignment, self._device.advert)
        return self._client.secure(self._round, "advertise", first)

    def go_on(self) -> float | None:
        """Goes as far as the server lets it; seconds to wait until it may go on, None at the end.

        Raises:
          Refused: The server does not take a step, or closed it without this device.
          SecureSumError: What the server asks would give something away.
          ServerAway: As of any request; the same call goes on.
        """
        try:
            return self._go_on()
        except SecureSumError:
            raise
        except ValueError as error:  # no hex, or no key
            raise SecureSumError(f"The server's answer fits no secure sum ({error}).") from None

    def _go_on(self) -> float | None:
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
        if self._unmask is None:
            asked = secure_steps.Unmask(assignment=self.assignment)
            answer = self._client.secure(self._round, "unmask", asked)
            if answer.retry_after_s is not None:
                return _wait(answer)
            if answer.reported is None:
                return None
            reveal = self._device.unmask(secure_steps.asked(answer))
            self._unmask = secure_steps.unmask(self.assignment, reveal)
        self._client.secure(self._round, "unmask", self._unmask)
        return None

    def _mask(self, answer: secure_steps.Next) -> bytes:
        header, payload = messages.unpack_upload(self._upload())
        vector = np.frombuffer(payload, masks.WORDS[self._bits])
        envelopes = secure_steps.received(self._device.name, answer.envelopes or [])
        masked = self._device.report(envelopes, vector)
        return messages.pack_upload(header, masked.tobytes())


def _wait(answer: secure_steps.Next) -> float:
    if answer.retry_after_s is None:
        raise SecureSumError("the server's sum is over")
    return float(max(answer.retry_after_s, 1))
