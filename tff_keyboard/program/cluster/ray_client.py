"""Ray as we use it: joined with a token, without statistics, its signal handler put back."""

import os
import secrets
import signal
import threading
from typing import Any

from tff_keyboard.host import quiet
from tff_keyboard.program.cluster import security
from tff_keyboard.program.errors import ClusterError

RESOURCE = "tff_keyboard"  # `ray start --resources='{"tff_keyboard": 1}'`: a node that computes
_SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # leave CUDA_VISIBLE_DEVICES alone
    "RAY_DISABLE_IMPORT_WARNING": "1",
}
_OBJECT_STORE_BYTES = 500_000_000  # of a cluster on this machine: a state and a few results


def join(address: str) -> Any:
    """The module `ray`, joined to the cluster at `address`; "local" starts one of one node.

    Raises `ClusterError` if Ray is not installed, or the cluster is insecure, refuses us or is not
    there.
    """
    security.check(address)
    security.check_reach(address)
    os.environ.update(_SETTINGS)
    options: dict[str, Any] = {"address": address}
    if address == security.LOCAL:
        os.environ.setdefault("RAY_AUTH_MODE", "token")
        # A first worker that took longer (60 s if left out) would leave us waiting for ever.
        os.environ.setdefault("RAY_worker_register_timeout_seconds", "1200")
        if not (os.environ.get("RAY_AUTH_TOKEN") or os.environ.get("RAY_AUTH_TOKEN_PATH")):
            os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
        options |= {
            "include_dashboard": False,
            "num_cpus": 1,
            "resources": {RESOURCE: 1},
            "object_store_memory": _OBJECT_STORE_BYTES,
        }
    ray = _imported()
    in_main_thread = threading.current_thread() is threading.main_thread()
    handler = signal.getsignal(signal.SIGTERM)
    try:
        with quiet.standard_error_dropped():  # twenty lines of Ray's core for a wrong token
            ray.init(**options, log_to_driver=False, logging_level="critical")
    except Exception as error:  # Ray's own, gRPC's and the system's
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        raise ClusterError(
            f"The Ray cluster at {address} cannot be joined: "
            f"{(lines or [type(error).__name__])[0][:300]} The usual reason is another token: "
            "~/.ray/auth_token, or the file that RAY_AUTH_TOKEN_PATH names, must be that of the "
            "head. docs/cluster.md has the commands."
        ) from error
    finally:
        if in_main_thread:
            signal.signal(signal.SIGTERM, handler)
    return ray


def _imported() -> Any:
    try:
        import ray
    except ImportError:
        raise ClusterError(
            "`execution.engine` = 'ray' needs the package ray: `uv sync --extra cluster`, or "
            "`pip install --no-deps -r requirements-cluster.txt`."
        ) from None
    return ray


def live_nodes(ray: Any) -> dict[str, str]:
    """Id -> name, for people, of each node that computes."""
    return {
        node["NodeID"]: f"{node['NodeManagerAddress']}/{node['NodeID'][:6]}"
        for node in ray.nodes()
        if node["Alive"] and node["Resources"].get(RESOURCE, 0) >= 1
    }


def free_nodes(ray: Any) -> set[str]:
    """Ids of nodes that no training uses."""
    from ray._private import state  # the public call has the sum of all nodes only

    found = state.available_resources_per_node()
    return {node_id for node_id, left in found.items() if left.get(RESOURCE, 0) >= 1}


def on_node(node_id: str) -> dict[str, Any]:
    """Options of an actor or a task that runs on one node only and takes no CPU of Ray's."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    strategy = NodeAffinitySchedulingStrategy(node_id, soft=False)
    return {"num_cpus": 0, "scheduling_strategy": strategy}
