"""Served rounds with secure sums match `train`."""

import numpy as np
import pytest

from tests.support.fakes import tiny_config
from tff_keyboard.algorithms.rounds import noised
from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard_fleet.on_devices.serve import serve_federated
from tff_keyboard_fleet.tests.on_devices import test_serve
from tff_keyboard_fleet.tests.on_devices.test_serve import PLAIN, PRIVATE, Fleet, Reversed
from tff_keyboard_fleet.tests.support.masked import masked_upload, settle
from tff_keyboard_fleet.wire.plan import Plan

SECURE = (
    *PLAIN,
    "aggregation.client_weighting=uniform",
    "devices.min_report_fraction=1.0",
    "devices.secure_neighbours=2",
    "devices.secure_sums=true",
    "train.rounds=3",
)
RULES = {
    "mean": ("aggregation.protection={type='fixed', clip_norm=0.2}",),
    "private mean": (
        "aggregation.privacy={type='gaussian', distribution='discrete', clip_norm=0.2}",
        *PRIVATE,
    ),
    "tree": ("aggregation.privacy={type='tree', clip_norm=0.2}", *PRIVATE),
    "blt": ("aggregation.privacy={type='blt', clip_norm=0.2}", *PRIVATE),
}


class SecureFleet(Fleet):
    """Devices of a round that all train, then take the steps of its sum in parallel."""

    def _run(self, app):
        try:
            for round_num, clients in self._people.items():
                uploads = []
                for number, batches in clients:
                    device = self._devices[number] or test_serve.Device(app, number)
                    self._devices[number] = device
                    task, _, delta, _, _ = self._trained(device, round_num, batches)
                    plan = Plan.from_bytes(device.get(f"/v1/plans/{task.plan}").get_data())
                    uploads.append(masked_upload(device, task, plan, delta))
                assert not settle(uploads)
                self.uploads += len(uploads)
        except BaseException as error:
            self.errors.append(error)
            raise


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES)
def test_served_secure_sums_match_train(rule, store, tmp_path, monkeypatch):
    monkeypatch.setattr(noised, "content_of_data", lambda key: None)  # as in `test_serve`
    config = tiny_config(store, *SECURE, *RULES[rule])
    people = test_serve.recorded_training(config, tmp_path / "train", monkeypatch)
    fleet = SecureFleet(people, config, len(ClientStore(store).vocabulary))
    serve_federated(config, tmp_path / "served", serve=fleet, graph=Reversed())
    assert fleet.uploads == sum(map(len, people.values()))
    expected = test_serve.weights_of(tmp_path / "train")
    actual = test_serve.weights_of(tmp_path / "served")
    for name in expected:
        np.testing.assert_allclose(actual[name], expected[name], rtol=1e-5, atol=1e-6, err_msg=name)
