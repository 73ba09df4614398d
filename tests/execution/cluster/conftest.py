"""One cluster for all tests in this folder that need one."""

import pytest


@pytest.fixture(scope="session")
def cluster():
    """Starts two nodes on loopback, for tests that `test_two_nodes.py` runs in a namespace."""
    from tests.support.cluster.cluster_fakes import Cluster

    with Cluster(nodes=1) as found:
        yield found
