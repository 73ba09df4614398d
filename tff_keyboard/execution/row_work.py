"""Work on the rows of many clients at once, inside the computation of a single client.

The clients of a round start from the same weights. A computation that reads only these weights and
the client's rows is therefore the same function for all clients, and one call can serve many.
`of_rows` marks such a function in the graph of the client's computation:

    results = of_rows(function, rows)

In any TFF context this is `function(rows)`. A pack of clients (`client_packing/round_form.py`)
calls the function once with the rows of a group of clients, and gives each client its own part of
the results. The graph itself carries the marks: names of identity operations, which TFF's compiler
keeps.
"""

import re
from collections.abc import Callable, Sequence

import tensorflow as tf

_INPUT, _OUTPUT = "row_work_input", "row_work_output"
_MARK = re.compile(rf"(?:.*/)?({_INPUT}|{_OUTPUT})_(\d+)(?:_\d+)?")


def of_rows(
    function: Callable[[tf.Tensor], Sequence[tf.Tensor]], rows: tf.Tensor
) -> list[tf.Tensor]:
    """Returns `function(rows)`, which a pack may compute for several clients at once.

    Call it at the start of a TFF computation, outside of functions, at most once.

    Args:
      function: Converts rows, int32 [rows, width], padded on the right with 0, to tensors [results,
        ...]. A row has as many results as it has numbers other than 0 after the first. The results
        depend only on the row and on values that all clients share. The results of a row come
        before the results of the next row.
      rows: int32 [rows, width].
    """
    results = function(tf.identity(rows, f"{_INPUT}_0"))
    return [tf.identity(result, f"{_OUTPUT}_{i}") for i, result in enumerate(results)]


def find_marks(node_names: Sequence[str]) -> tuple[str, list[str]] | None:
    """Returns the names of the node of the rows and of the nodes of the results; None without.

    >>> find_marks(["a/row_work_input_0", "b", "a/row_work_output_1", "a/row_work_output_0_1"])
    ('a/row_work_input_0', ['a/row_work_output_0_1', 'a/row_work_output_1'])
    """
    inputs, outputs = [], {}
    for name in node_names:
        mark = _MARK.fullmatch(name)
        if mark and mark[1] == _INPUT:
            inputs.append(name)
        elif mark:
            outputs[int(mark[2])] = name
    if len(inputs) != 1 or not outputs:
        return None
    return inputs[0], [outputs[i] for i in sorted(outputs)]
