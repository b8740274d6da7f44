"""Programs of several processes that MPI connects."""

import importlib.util
import os
import shutil
import subprocess
import sys
import unittest

import theano_ng

MPIEXEC = shutil.which("mpiexec", path=os.path.dirname(sys.executable)) or shutil.which("mpiexec")


def run(count, path, *arguments, **environment):
    """Run a Python program in several processes; return their output. `environment`: additional variables.

    Raises
    ------
    unittest.SkipTest
        If mpi4py or mpiexec is missing, or if they belong to different MPIs.
    AssertionError
        If a process fails.
    """
    if not importlib.util.find_spec("mpi4py"):
        raise unittest.SkipTest("mpi4py is not installed (pip install 'theano_ng[mpi]')")
    if MPIEXEC is None:
        raise unittest.SkipTest("there is no mpiexec (pip install 'theano_ng[mpi]')")
    root = os.path.dirname(os.path.dirname(os.path.abspath(theano_ng.__file__)))
    environment = dict(
        os.environ,
        PYTHONPATH=os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")])),
        # These variables permit Open MPI to start processes of the user root, and more processes than cores.
        OMPI_ALLOW_RUN_AS_ROOT="1",
        OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
        OMPI_MCA_rmaps_base_oversubscribe="1",
        PRTE_MCA_rmaps_default_mapping_policy=":oversubscribe",
        **environment,
    )
    done = subprocess.run(
        [MPIEXEC, "-n", str(count), sys.executable, path, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        env=environment,
    )
    if "different MPIs" in done.stdout:
        raise unittest.SkipTest("mpiexec and mpi4py belong to different MPIs")
    if done.returncode:
        raise AssertionError(done.stdout)
    return done.stdout
