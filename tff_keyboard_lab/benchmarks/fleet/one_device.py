"""One attempt of one device, as `tff-keyboard device --once`, with a copy of its upload.

python -m tff_keyboard_lab.benchmarks.fleet.one_device URL STORE COPIES [LIBCIFG]
"""

import hashlib
import pathlib
import sys

from tff_keyboard.storage import files
from tff_keyboard.storage.errors import UserError
from tff_keyboard_fleet.device.client import RoundClient
from tff_keyboard_fleet.device.device import Device
from tff_keyboard_fleet.device.eligibility import DeviceFacts
from tff_keyboard_fleet.device.store import DeviceStore
from tff_keyboard_fleet.wire.messages import Accepted

FACTS = DeviceFacts(
    ram_gib=4.0, charging=True, unmetered=True, idle=True, locale="en_US", app_version="1"
)


def main(url: str, store: str, copies: str, library: str = "") -> int:
    """Runs the attempt and returns the exit code of the task."""

    class Copying(RoundClient):
        """A client of the round server that keeps a copy of each upload in a folder."""

        def upload(self, round_num: int, body: bytes) -> Accepted:
            path = pathlib.Path(copies) / hashlib.sha256(body).hexdigest()
            files.write_atomically(path, [body])
            return super().upload(round_num, body)

    opened = DeviceStore(pathlib.Path(store))
    try:
        client = Copying(url, opened.key())
        path = pathlib.Path(library) if library else None
        Device(opened, client, lambda: FACTS, library=path).attempt()
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    finally:
        opened.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
