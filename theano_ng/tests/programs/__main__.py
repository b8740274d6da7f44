"""Run generated programs: ``python -m theano_ng.tests.programs --seconds 60 --seed 1``; see `command` for the options.

The run is a process of its own, whose caches begin empty.
"""

import os
import subprocess
import sys
import tempfile

with tempfile.TemporaryDirectory(prefix="programs", ignore_cleanup_errors=True) as folder:
    flags = ",".join([*filter(None, [os.environ.get("THEANO_FLAGS")]), "base_compiledir=" + folder])
    command = [sys.executable, "-m", "theano_ng.tests.programs.command", *sys.argv[1:]]
    status = subprocess.run(command, env=dict(os.environ, THEANO_FLAGS=flags)).returncode
sys.exit(status)
