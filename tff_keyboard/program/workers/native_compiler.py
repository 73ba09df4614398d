"""TFF's compiler for workers, in a process whose clock may jump.

TFF has grappler optimise each graph once, in this process, for a "cluster" that TensorFlow opens
and shuts down again each time. Shutting down waits for a thread with a deadline of the wall clock:
when that jumps, the wait is over at once, the cluster counts as open for good, and nothing can be
compiled in this process any more ("Can't provision more than one single cluster at a time").
Here grappler gets a cluster that is only a description of one processor: there is nothing to open.
The graphs are the same, node for node.
"""

import functools
import threading
import types
from typing import Any

import tensorflow_federated as tff

# Neither package has a public way to grappler.
from tensorflow.core.protobuf import device_properties_pb2
from tensorflow.python.grappler import cluster as grappler_cluster
from tensorflow.python.grappler import tf_optimizer
from tensorflow_federated.python.core.environments.tensorflow_backend import graph_optimizations

_lock = threading.Lock()


def to_native(computation: tff.Computation) -> tff.Computation:
    """See `tff.backends.native.desugar_and_transform_to_native`."""
    with _lock:
        original = graph_optimizations.tf_optimizer
        graph_optimizations.tf_optimizer = types.SimpleNamespace(OptimizeGraph=_optimize)
        try:
            return tff.backends.native.desugar_and_transform_to_native(computation)
        finally:
            graph_optimizations.tf_optimizer = original


def _optimize(config: Any, graph: Any) -> Any:
    return tf_optimizer.OptimizeGraph(config, graph, cluster=_one_processor())


@functools.cache
def _one_processor() -> grappler_cluster.Cluster:
    name = "/job:localhost/replica:0/task:0/device:CPU:0"
    processor = device_properties_pb2.DeviceProperties(type="CPU")
    device = device_properties_pb2.NamedDevice(name=name, properties=processor)
    return grappler_cluster.Cluster(devices=[device])
