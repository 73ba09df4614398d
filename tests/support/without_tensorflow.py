"""`pytest --without-tensorflow`: what imports TensorFlow is skipped the moment it does.

So nobody has to list what needs it, and no run that is told so can import it by mistake.
"""

import importlib.machinery
import sys

import pytest

PACKAGES = ("tensorflow", "tensorflow_federated", "tensorflow_privacy", "keras")


class Refusal:
    """Ends the test or file that imports one of these; where they lie may be asked."""

    def find_spec(self, name, path, target=None):
        spec = importlib.machinery.PathFinder.find_spec(name, path) if name in PACKAGES else None
        if spec:
            spec.loader = self
        return spec

    def create_module(self, spec):
        pytest.skip("needs TensorFlow", allow_module_level=True)

    def exec_module(self, module):
        """Never reached."""


def start():
    """Refuses from here on."""
    assert not [name for name in PACKAGES if name in sys.modules]
    sys.meta_path.insert(0, Refusal())
