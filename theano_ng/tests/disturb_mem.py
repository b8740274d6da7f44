"""Make the addresses of objects differ from run to run, so that what depends on them shows."""

import time

_keep = []


def disturb_mem():
    """Allocate a random number of objects, by the clock, and keep every second one.

    Programs that are to be deterministic call this between steps whose order must not depend on addresses.
    """
    count = int(time.time() * 1e6) % 1000
    made = [[] for _ in range(count)]
    _keep.extend(made[::2])
