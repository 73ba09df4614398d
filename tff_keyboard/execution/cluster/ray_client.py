"""Joins Ray with a token and without usage statistics, and restores the signal handler."""

import os
import pathlib
import secrets
import signal
import tempfile
import threading
from collections.abc import Mapping
from typing import Any

from tff_keyboard.execution.cluster import node_facts, security
from tff_keyboard.host import quiet
from tff_keyboard.storage.errors import ClusterError

ANSWER_SECONDS = 120.0  # a node starts a process to answer
_ANSWER_OF_HEAD = 20.0  # seconds
_WITHOUT_PROXY = [("grpc.enable_http_proxy", 0)]  # as Ray itself connects
RESOURCE = "tff_keyboard"  # nodes with it compute: `ray start --resources='{"tff_keyboard": 1}'`
_SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # leave CUDA_VISIBLE_DEVICES alone
    "RAY_DISABLE_IMPORT_WARNING": "1",
}
_OBJECT_STORE_BYTES = 500_000_000  # for a cluster on this machine: a state, a few results
_LONGEST_DIRECTORY = 40  # the path of a socket in it has at most 107 bytes
_directories: list[tempfile.TemporaryDirectory] = []  # of clusters that were started here


def join(address: str) -> Any:
    """Joins the cluster at `address` and returns the module `ray`.

    The address "local" starts a cluster of one node on this machine, in a directory that only this
    user can enter. `leave` ends it.

    Raises `ClusterError` if Ray is not installed, or if the cluster is insecure, rejects the
    connection or does not exist.
    """
    security.check(address)
    security.check_reach(address)
    os.environ.update(_SETTINGS)
    options: dict[str, Any] = {"address": address}
    if address == security.LOCAL:
        os.environ["RAY_AUTH_MODE"] = "token"  # whatever the user set
        # By default a first worker that takes longer than 60 s makes `ray.init` wait forever.
        os.environ.setdefault("RAY_worker_register_timeout_seconds", "1200")
        if not (os.environ.get("RAY_AUTH_TOKEN") or os.environ.get("RAY_AUTH_TOKEN_PATH")):
            os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
        options |= {
            "include_dashboard": False,
            "num_cpus": 1,
            "resources": {RESOURCE: 1},
            "object_store_memory": _OBJECT_STORE_BYTES,
            "_temp_dir": _new_directory(),
        }
    ray = _imported()
    if address != security.LOCAL:
        _refuse_open_cluster(address)
    in_main_thread = threading.current_thread() is threading.main_thread()
    handler = signal.getsignal(signal.SIGTERM)
    try:
        with quiet.standard_error_dropped():  # Ray writes twenty lines for a wrong token
            ray.init(**options, log_to_driver=False, logging_level="critical")
    except Exception as error:  # errors of Ray, gRPC and the system
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        raise ClusterError(
            f"Cannot join the Ray cluster at {address}: "
            f"{(lines or [type(error).__name__])[0][:300]} The usual reason is a wrong token: "
            "~/.ray/auth_token, or the file in RAY_AUTH_TOKEN_PATH, must be the token of the "
            "head. See docs/cluster.md."
        ) from error
    finally:
        if in_main_thread:
            signal.signal(signal.SIGTERM, handler)
    try:
        security.check_directory()
    except ClusterError:
        leave(ray)
        raise
    return ray


def _refuse_open_cluster(address: str) -> None:
    """Raises if the cluster answers a question without a token.

    A head that was started without RAY_AUTH_MODE=token accepts drivers that have one.
    """
    import grpc
    from ray._private import tls_utils
    from ray.core.generated import gcs_service_pb2, gcs_service_pb2_grpc

    if os.environ.get("RAY_USE_TLS") == "1":
        certificate, key, authority = tls_utils.load_certs_from_env()
        credentials = grpc.ssl_channel_credentials(
            root_certificates=authority, private_key=key, certificate_chain=certificate
        )
        channel = grpc.secure_channel(address, credentials, _WITHOUT_PROXY)
    else:
        channel = grpc.insecure_channel(address, _WITHOUT_PROXY)
    with channel:
        nodes = gcs_service_pb2_grpc.NodeInfoGcsServiceStub(channel)
        try:
            nodes.GetAllNodeInfo(gcs_service_pb2.GetAllNodeInfoRequest(), timeout=_ANSWER_OF_HEAD)
        except grpc.RpcError as error:
            if error.code() == grpc.StatusCode.UNAUTHENTICATED:
                return
            raise ClusterError(
                f"Cannot check whether the cluster at {address} asks for a token "
                f"({error.code().name}). {security.HOW}"
            ) from None
    raise ClusterError(
        f"The cluster at {address} asks for no token, so every client that can connect can run "
        "code on it. Start its head and all nodes with RAY_AUTH_MODE=token. See docs/cluster.md."
    )


def leave(ray: Any) -> None:
    """Leaves the cluster. Ends it, and removes its directory, if it was started here."""
    ray.shutdown()
    while _directories:
        _directories.pop().cleanup()


def _new_directory() -> str:
    """Returns a new directory inside one with mode 0700.

    Ray makes its own directory writable for all. Both are also removed when this process ends.
    """
    is_short = len(tempfile.gettempdir()) < _LONGEST_DIRECTORY - len("/ray-12345678/ray")
    directory = tempfile.TemporaryDirectory(
        prefix="ray-", dir=None if is_short else "/tmp", ignore_cleanup_errors=True
    )
    _directories.append(directory)
    return str(pathlib.Path(directory.name).resolve() / "ray")


def _imported() -> Any:
    try:
        import ray
    except ImportError:
        raise ClusterError(
            "`execution.engine` = 'ray' requires the package ray: run `uv sync --extra cluster`, "
            "or `pip install --no-deps -r requirements-cluster.txt`."
        ) from None
    return ray


def live_nodes(ray: Any) -> dict[str, str]:
    """Returns a mapping from the id to the readable name of each node that computes."""
    return {
        node["NodeID"]: f"{node['NodeManagerAddress']}/{node['NodeID'][:6]}"
        for node in ray.nodes()
        if node["Alive"] and node["Resources"].get(RESOURCE, 0) >= 1
    }


def free_nodes(ray: Any) -> set[str]:
    """Returns the ids of nodes that no training uses."""
    from ray._private import state  # the public function returns only the sum over nodes

    resources = state.available_resources_per_node()
    return {
        node_id
        for node_id, resources_left in resources.items()
        if resources_left.get(RESOURCE, 0) >= 1
    }


def ask_for_facts(ray: Any, node_id: str, files: Mapping[str, str]) -> Any:
    """Asks a node for its `node_facts.facts`. Returns a reference to the answer."""
    ask = ray.remote(node_facts.facts).options(**on_node(node_id), max_retries=0)
    return ask.remote(dict(files))


def on_node(node_id: str) -> dict[str, Any]:
    """Returns the options of an actor or task that runs on one node and reserves no CPU of Ray."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    strategy = NodeAffinitySchedulingStrategy(node_id, soft=False)
    return {"num_cpus": 0, "scheduling_strategy": strategy}
