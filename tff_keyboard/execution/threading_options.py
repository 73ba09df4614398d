"""Makes TensorFlow compute each operation on one thread, so that the order of sums is fixed."""

import os
import warnings

import tensorflow as tf


def use_one_thread_an_operation() -> None:
    """Sets TensorFlow's threads for this process. Warns if TensorFlow is already in use.

    Several concurrent clients, each on its own thread, are faster than several threads inside the
    thin matrix products of one client. The results also do not depend on the number of cores, so
    they can be reproduced on any machine.
    """
    from_environment = os.environ.get("TF_NUM_INTRAOP_THREADS") == "1"
    if from_environment or tf.config.threading.get_intra_op_parallelism_threads() == 1:
        return
    try:
        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(1)
    except RuntimeError:
        warnings.warn(
            "TensorFlow is already initialised with one thread per core for each operation, so the "
            "last bits of results depend on the number of cores. Call "
            "`tff_keyboard.algorithms.local_context()` before any other use of TensorFlow.",
            stacklevel=2,
        )
