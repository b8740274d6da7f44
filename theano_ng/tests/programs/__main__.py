"""Run generated programs: ``python -m theano_ng.tests.programs --seconds 60 --seed 1``. For the options, see `command`.

A run has separate caches, which are empty at the beginning. It consists of several processes, one after another. Each
process runs a limited number of programs, and the next process continues.
"""

import os
import subprocess
import sys
import tempfile

with tempfile.TemporaryDirectory(prefix="programs", ignore_cleanup_errors=True) as folder:
    flags = ",".join([*filter(None, [os.environ.get("THEANO_FLAGS")]), "base_compiledir=" + folder])
    more, statuses = os.path.join(folder, "more"), []
    command = [sys.executable, "-m", "theano_ng.tests.programs.command", *sys.argv[1:], "--more", more]
    going_on = []
    while going_on is not None:
        done = subprocess.run(command + going_on, env=dict(os.environ, THEANO_FLAGS=flags))
        statuses.append(done.returncode)
        going_on = None
        if os.path.exists(more):
            with open(more) as file:
                going_on = file.read().split()
            os.remove(more)
sys.exit(next(filter(None, statuses), 0))
