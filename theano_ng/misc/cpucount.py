"""The number of processors."""

import os


def cpuCount():
    """Return the number of processors of this machine, at least 1. CPU limits of the process are ignored."""
    return os.cpu_count() or 1
