"""`pytest --without-tensorflow`: what asks for TensorFlow is skipped the moment it does.

So nobody has to list what needs it, and no run that is told so can import it by mistake.
"""

import sys

import pytest

PACKAGES = ("tensorflow", "tensorflow_federated", "tensorflow_privacy", "keras")


class Refusal:
    """A finder of modules that ends the test or file which asks for one of these."""

    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in PACKAGES:
            pytest.skip("needs TensorFlow", allow_module_level=True)


def start():
    """Refuses from here on."""
    assert not [name for name in PACKAGES if name in sys.modules]
    sys.meta_path.insert(0, Refusal())
