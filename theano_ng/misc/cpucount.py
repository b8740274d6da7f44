"""Number of processors."""

import os


def cpuCount():
    """Number of processors of this machine, at least 1; limits that a process was given do not count."""
    return os.cpu_count() or 1
