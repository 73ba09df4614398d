"""Runs a function in several threads at the same time."""

import threading


def in_threads(work, count=8):
    """Calls `work(number)` in `count` threads at a time. Returns the results in order.

    Raises the first error of a thread.
    """
    results, errors = [None] * count, []
    start = threading.Barrier(count)

    def run(number):
        start.wait()
        try:
            results[number] = work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results
