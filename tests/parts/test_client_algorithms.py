"""The registry of client algorithms, and that reading its options imports no TensorFlow."""

import subprocess
import sys

import pytest

from tff_keyboard import config as config_lib
from tff_keyboard.config import ConfigError
from tff_keyboard.parts.client_algorithm import CLIENT_ALGORITHMS


def test_every_module_defines_the_part_of_its_name():
    assert {"fedavg", "fedprox", "fedsgd", "mimelite"} <= CLIENT_ALGORITHMS.keys()
    for name, options in CLIENT_ALGORITHMS.items():
        assert options().type == name


def test_options_are_read_without_tensorflow():
    code = (
        "import sys; from tff_keyboard import config; "
        "from tff_keyboard.parts.client_algorithm import CLIENT_ALGORITHMS as a; "
        "[config.loads('', [f'client.type={n}']) for n in a]"
        "; print([m for m in sys.modules if m.startswith('tensorflow')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("name", list(CLIENT_ALGORITHMS))
def test_a_recorded_config_is_read_again(name):
    config = config_lib.loads("", [f"client.type={name}", "client.batch_size=3"])
    assert config_lib.loads(config_lib.dump(config)) == config
    assert config.client == CLIENT_ALGORITHMS[name](batch_size=3)


def test_the_default_is_fedavg():
    assert config_lib.RunConfig().client == CLIENT_ALGORITHMS["fedavg"]()


def test_a_misspelt_name_gets_a_suggestion():
    with pytest.raises(ConfigError, match=r"`client.type` must be one of .*Did you mean 'fedprox'"):
        config_lib.loads("", ["client.type=fedprx"])


def test_bytes_of_a_client():
    sizes = {
        name: (options().models_down, options().models_up)
        for name, options in CLIENT_ALGORITHMS.items()
    }
    assert sizes.pop("mimelite") == (2, 2)
    assert set(sizes.values()) == {(1, 1)}
    assert CLIENT_ALGORITHMS["mimelite"](momentum=0.0).models_down == 1
