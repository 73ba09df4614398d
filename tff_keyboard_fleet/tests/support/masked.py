"""Steps of secure sums by test devices: `device.masked_upload` over WSGI."""

import numpy as np

from tff_keyboard_fleet.device.masked_upload import MaskedUpload
from tff_keyboard_fleet.tests.support.devices import code_of
from tff_keyboard_fleet.wire import messages, secure_steps
from tff_keyboard_fleet.wire.messages import Refused
from tff_keyboard_fleet.wire.plan import Plan
from tff_keyboard_fleet.wire.secure_sums import grid, masks


class Client:
    """The part of a `RoundClient` that a `MaskedUpload` needs. Calls `after` after each request."""

    def __init__(self, device, after=lambda: None):
        self._device, self._after = device, after

    def secure(self, round_num, step, message):
        path = f"/v1/rounds/{round_num}/secure/{step}"
        return self._ask("POST", path, messages.encode(message), secure_steps.Next)

    def upload(self, round_num, body):
        accepted = self._ask("PUT", f"/v1/rounds/{round_num}/upload", body, messages.Accepted)
        self._device.token = accepted.token
        return accepted

    def _ask(self, method, path, body, answer):
        status, data = self._device.send(method, path, body)
        self._after()
        if status != 200:
            raise Refused(code_of(data), "")
        return messages.decode(answer, data)


def masked_upload(device, task, plan: Plan, delta, after=lambda: None):
    """Returns the part of a device in a sum, with its delta on the grid."""
    sums = plan.secure_sums
    steps = grid.to_grid(np.asarray(delta, np.float32), clip_norm=sums.clip_norm, step=sums.step)
    header = messages.UploadHeader(
        assignment=task.assignment,
        weight=1.0,
        loss=0.0,
        codec=messages.MASKED,
        shape=[plan.upload_size],
    )
    body = messages.pack_upload(header, steps.astype(masks.WORDS[sums.bits]).tobytes())
    return MaskedUpload(Client(device, after), device.key, task, plan, lambda: body)


def settle(uploads, tick=lambda: None, most=60):
    """Lets all devices continue in turn until none waits, and returns the codes of refusals."""
    refused, waiting = {}, list(uploads)
    for _ in range(most):
        still = []
        for upload in waiting:
            try:
                if upload.go_on() is not None:
                    still.append(upload)
            except Refused as error:
                refused[upload.assignment] = error.code
        if not still:
            return refused
        waiting = still
        tick()
    raise AssertionError("the sum does not end")
