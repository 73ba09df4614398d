"""One cluster for all tests of this folder that need one."""

import pytest


@pytest.fixture(scope="session")
def cluster():
    """Two nodes on loopback; only for tests that `test_two_nodes.py` runs in a namespace."""
    from tests.support.cluster.cluster_fakes import Cluster

    with Cluster(nodes=1) as found:
        yield found
