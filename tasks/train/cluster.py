"""Looks after a Ray cluster: its certificates, and whether its nodes can compute for this machine.

tff-keyboard cluster authority --out=FOLDER                                once for a cluster
tff-keyboard cluster certificate --authority=FOLDER --name=10.0.0.1 --out=ray       for a machine
tff-keyboard cluster status [--address=HOST:PORT] [--store=data/sms]

`certificate` writes ca.crt, tls.crt and tls.key for a machine that others reach by these addresses
or names. `status` prints a line for each node that has the resource `tff_keyboard`: whether it is
free, and what differs from this machine (Python, packages, our code, instruction set, the store).
docs/cluster.md says how a cluster is started. The exit code is 5 if a node would be refused, or if
there is none.
"""

import dataclasses
import pathlib
from typing import Annotated, Literal

from ..options import Range, TaskOptions, Words
from tff_keyboard.storage.errors import CheckFailed, UsageError


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(TaskOptions):
    """What the task can be told."""

    action: Annotated[
        Literal["status", "authority", "certificate"],
        Words("what to do: status, authority or certificate"),
    ]
    address: Annotated[str, "HOST:PORT of the head, or local; the default is RAY_ADDRESS."] = ""
    store: Annotated[
        pathlib.Path | None, "Client store that every node must have; by default none is checked."
    ] = None
    out: Annotated[pathlib.Path | None, "Folder to write an authority or a certificate to."] = None
    authority: Annotated[pathlib.Path | None, "Folder of the authority that signs."] = None
    name: Annotated[
        tuple[str, ...], "Address or DNS name of the machine, as 10.0.0.1; may be repeated."
    ] = ()
    days: Annotated[int, "How long an authority or a certificate is valid.", Range(1, 3650)] = 365

    def __post_init__(self) -> None:
        super().__post_init__()
        needed = {"authority": ("out",), "certificate": ("out", "authority", "name")}
        missing = [f for f in needed.get(self.action, ()) if not getattr(self, f)]
        if missing:
            flags = ", ".join(f"--{field}" for field in missing)
            raise UsageError(f"`cluster {self.action}` needs {flags}. See --help.")


def run(options: Options) -> None:
    """Does what `action` says.

    Raises:
      ClusterError: The cluster cannot be joined, or a certificate not be made.
      CheckFailed: A node would be refused, or there is none.
    """
    from tff_keyboard.program.cluster import certificates

    if options.action == "authority":
        assert options.out
        certificates.make_authority(options.out, options.days)
        print(f"Authority: {options.out}. Its ca.key admits machines: it stays here.")
    elif options.action == "certificate":
        assert options.out
        assert options.authority
        certificates.make_certificate(options.authority, options.name, options.out, options.days)
        print(f"For {', '.join(options.name)}: {options.out}/ca.crt, tls.crt and tls.key.")
    else:
        _print_status(options)


def _print_status(options: Options) -> None:
    from tff_keyboard.host.text_table import aligned
    from tff_keyboard.program.cluster import cluster_status
    from tff_keyboard.storage import names

    files = {}
    if options.store is not None:
        files = {f"store {options.store.name}": str(options.store.absolute() / names.DATA_CARD)}
    nodes = cluster_status.look(options.address, files)
    rows = [(node.name, node.used_by, "; ".join(node.differences) or "yes") for node in nodes]
    print(aligned([("node", "computes for", "fits"), *rows], left=3))
    if not nodes:
        raise CheckFailed("No node of the cluster computes. docs/cluster.md says how to start one.")
    refused = sum(bool(node.differences) for node in nodes)
    if refused:
        raise CheckFailed(f"{refused} of {len(nodes)} nodes would be refused.")
