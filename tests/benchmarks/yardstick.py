"""How fast this machine is at this moment: the same work, whatever is measured beside it.

Shared machines differ by up to two from one minute to the next; figures of two runs are compared with this one in mind.
"""

import time

import numpy as np

_NUMBERS = 2_000_000


def yardstick():
    """CPU seconds of a plain Python loop and of numpy's sorting, over two million numbers each."""
    numbers = np.random.default_rng(1).random(_NUMBERS)
    begin = time.process_time()
    total = 0
    for number in range(_NUMBERS):
        total += number
    np.sort(numbers, kind="stable")
    return time.process_time() - begin
