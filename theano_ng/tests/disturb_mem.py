"""A function that changes the addresses of objects from run to run, to reveal behavior that depends on addresses."""

import time

_keep = []


def disturb_mem():
    """Allocate a number of objects that depends on the clock, and keep every second object.

    Programs that are to be deterministic call this between steps whose order must not depend on addresses.
    """
    count = int(time.time() * 1e6) % 1000
    made = [[] for _ in range(count)]
    _keep.extend(made[::2])
