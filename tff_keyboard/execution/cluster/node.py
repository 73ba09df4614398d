"""The actor on each node of a cluster, which computes items on threads of its machine.

This module imports neither Ray nor TensorFlow, because the driver sends the class by its name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tff_keyboard.execution.engine import Function


class Node:
    """The actor's class. `compute` is called in one thread for each concurrent item."""

    def __init__(self) -> None:
        from tff_keyboard.execution import threading_options
        from tff_keyboard.host import quiet

        quiet.import_tensorflow_federated()
        threading_options.use_one_thread_an_operation()
        self._functions: dict[str, Function] = {}

    def compute(self, key: str, function: list[Any], shared: list[Any], item: Any) -> Any:
        """Computes one item.

        Args:
          key: Identifies the function.
          function: A reference to the function, in a list so that Ray passes the reference itself.
          shared: A reference to the data that all items share, in a list.
          item: The item.
        """
        import ray

        if key not in self._functions:
            self._functions[key] = ray.get(function[0])
        return self._functions[key](ray.get(shared[0]), item)
