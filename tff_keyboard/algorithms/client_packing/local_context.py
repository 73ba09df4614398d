"""An execution context for TFF: computations run in this process, without a server.

    tff_keyboard.algorithms.local_context()  # from here on, in this thread

It runs TensorFlow computations, `initialize` of any process, and computations over clients that TFF
can write as a `MapReduceForm`: learning processes, aggregators, evaluations. All other computations
raise `CannotPackError`.

    tff_keyboard.algorithms.local_context(allow_tff_server=True)

runs these in TFF's own native context. It starts a server process, which listens on all network
interfaces of the machine, without a password, until this process ends.
"""

from collections.abc import Callable, Sequence
from concurrent import futures
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff

from tff_keyboard.algorithms.client_packing import load_balancing
from tff_keyboard.algorithms.client_packing.round_form import CannotPackError, RoundForm, make_pack
from tff_keyboard.data import elements
from tff_keyboard.execution import threading_options
from tff_keyboard.execution.engine import Engine, LocalEngine
from tff_keyboard.execution.graph_function import GraphFunction, leaf_types, leaves_of, pack_as
from tff_keyboard.execution.graph_piece import is_tensorflow
from tff_keyboard.storage.errors import printable

_MAX_COMPILED = 64  # compiled computations

NOT_LOCAL = (
    "Pass `allow_tff_server=True` to run it in TFF's own server, which listens on all network "
    "interfaces of this machine, without a password"
)


class LocalContext(tff.framework.SyncContext):
    """Runs computations in this process.

    Args:
      engine: Computes the work of clients. None means threads of this process.
      allow_tff_server: Whether computations that cannot run in this process go to TFF's native
        context, which starts a server. If not, they raise `CannotPackError`.
    """

    def __init__(self, engine: Engine | None = None, *, allow_tff_server: bool = False):
        self._engine = engine or LocalEngine()
        self._threads = getattr(self._engine, "threads", 1)
        self._allow_tff_server = allow_tff_server
        self._compiled: dict[int, tuple[tff.Computation, Callable[[Any], Any]]] = {}
        self._native: tff.framework.SyncContext | None = None

    def invoke(self, comp: tff.Computation, arg: Any) -> Any:
        """Runs a computation. TFF calls this method.

        Raises:
          CannotPackError: If the computation cannot run in this process, and no server is allowed.
        """
        return self._function(comp)(arg)

    def function(self, computation: tff.Computation) -> Callable[..., Any]:
        """Returns the computation as a function that runs here, with any default context."""

        def run(*arguments: Any, **named: Any) -> Any:
            parameter = computation.type_signature.parameter
            if parameter is None:
                return self.invoke(computation, None)
            if len(arguments) == 1 and not named:
                return self.invoke(computation, arguments[0])
            pairs = [*((None, value) for value in arguments), *named.items()]
            return self.invoke(computation, tff.structure.Struct(pairs))

        return run

    def _function(self, comp: tff.Computation) -> Callable[[Any], Any]:
        """Returns the compiled computation. Drops the oldest one if too many are compiled."""
        # By identity, because comparing two computations takes as long as serializing them.
        compiled = self._compiled.get(id(comp))
        if compiled is None:
            while len(self._compiled) >= _MAX_COMPILED:
                del self._compiled[next(iter(self._compiled))]
            compiled = self._compiled[id(comp)] = comp, self._compile(comp)
        return compiled[1]

    def _compile(self, comp: tff.Computation) -> Callable[[Any], Any]:
        """Returns a function of the computation's argument.

        TFF's server runs the computation if this process cannot and `allow_tff_server` is set.
        """
        try:
            if not tff.types.contains(
                comp.type_signature, lambda part: isinstance(part, tff.FederatedType)
            ):
                return _tensorflow(comp, comp)
            if comp.type_signature.parameter is None:
                return _tensorflow(_initialization(comp), comp)
            return self._over_clients(comp)
        except CannotPackError as error:
            if not self._allow_tff_server:
                reason = printable(str(error)).rstrip(".")
                raise CannotPackError(
                    f"A computation cannot run in this process: {reason}. {NOT_LOCAL}."
                ) from error
            return lambda arg: self._run_natively(comp, arg)

    def _over_clients(self, comp: tff.Computation) -> Callable[[Any], Any]:
        """Returns a function that runs the computation on packs of its clients."""
        form = RoundForm(comp)

        def run(arg: Any) -> Any:
            server, clients = form.split(arg)
            if form.element_spec is None:
                return form(self._engine, server, clients)
            client_elements = _elements_of([sequence for (sequence,) in clients], self._threads)
            groups = load_balancing.balance_load(
                [len(elements) for elements in client_elements],
                load_balancing.num_packs(len(client_elements), 0),
            )
            packs = [
                make_pack([client_elements[i] for i in pack], form.element_spec) for pack in groups
            ]
            return form(self._engine, server, packs)

        return run

    def _run_natively(self, comp: tff.Computation, arg: Any) -> Any:
        if self._native is None:
            self._native = tff.backends.native.create_sync_local_cpp_execution_context()
        return self._native.invoke(comp, arg)


def local_context(*, threads: int = 0, allow_tff_server: bool = False) -> LocalContext:
    """Creates a `LocalContext`, sets it as TFF's default context in this thread, and returns it.

        tk.algorithms.local_context()  # before anything else that uses TensorFlow

    Args:
      threads: Packs of clients at a time, >= 0; 0 means the processors that this process may use.
        Results do not depend on it.
      allow_tff_server: Whether computations that cannot run in this process go to TFF's native
        context. It starts a server, which listens on all network interfaces of the machine, without
        a password, until this process ends. If False, such a computation raises
        `CannotPackError`, a `ValueError`, when it is called.
    """
    threading_options.use_one_thread_an_operation()
    context = LocalContext(LocalEngine(threads), allow_tff_server=allow_tff_server)
    tff.framework.set_default_context(context)
    return context


def _initialization(comp: tff.Computation) -> tff.Computation:
    """Returns a computation without arguments, such as `initialize`, without its placement."""
    try:
        return tff.backends.mapreduce.get_state_initialization_computation(comp)
    except (TypeError, ValueError) as error:  # of TFF, which finds another form
        raise CannotPackError(f"Its result must be one value at the server: {error}") from error


def _tensorflow(computation: tff.Computation, signature: tff.Computation) -> Callable[[Any], Any]:
    """Returns a function that runs a TensorFlow computation, with `signature`'s result type."""
    types = [computation.type_signature.parameter, computation.type_signature.result]
    leaves = [leaf for part in types for leaf in leaf_types(part)]
    if not all(isinstance(leaf, tff.TensorType) for leaf in leaves):
        raise CannotPackError(f"Its leaves must be tensors, got {computation.type_signature}.")
    if not is_tensorflow(computation):
        raise CannotPackError("It is not a `tff.tensorflow.computation`.")
    function = GraphFunction.from_computation(computation)
    parameter = computation.type_signature.parameter
    packed_type = computation.type_signature.result
    result_type = signature.type_signature.result

    def run(arg: Any) -> Any:
        leaves = [] if parameter is None else leaves_of(arg, parameter)
        packed = pack_as(packed_type, iter(function(*leaves)))
        return tff.types.type_to_py_container(packed, result_type)

    return run


def _elements_of(sequences: Sequence[Any], threads: int) -> list[Sequence[Any]]:
    """Returns the elements of each client, which hold a dataset or a sequence of elements.

    Several threads read datasets, because starting an iterator takes longer than a short training.
    """

    def elements_of(sequence: Any) -> Sequence[Any]:
        if isinstance(sequence, tf.data.Dataset):
            return elements.numpy_elements(sequence)
        return list(sequence)

    if all(not isinstance(s, tf.data.Dataset) or elements.is_known(s) for s in sequences):
        return list(map(elements_of, sequences))
    with futures.ThreadPoolExecutor(threads, thread_name_prefix="reader") as pool:
        return list(pool.map(elements_of, sequences))
