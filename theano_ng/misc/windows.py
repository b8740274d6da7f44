"""Functions that start other programs. On Windows, the programs get no console window."""

import os
import subprocess


def subprocess_Popen(command, **params):
    """Start a program. On Windows, the shell runs it, so that scripts are found, and no console window opens.

    Parameters
    ----------
    command : str or list of str
    **params
        Arguments for `subprocess.Popen`. By default, the standard input of the program is empty.
    """
    if os.name == "nt":
        startupinfo = subprocess.STARTUPINFO()
        startupinfo.dwFlags |= subprocess.STARTF_USESHOWWINDOW
        params.setdefault("startupinfo", startupinfo)
        params.setdefault("shell", True)
    params.setdefault("stdin", subprocess.DEVNULL)
    return subprocess.Popen(command, **params)


def call_subprocess_Popen(command, **params):
    """Run a program, discard its output, and return its exit status.

    Raises
    ------
    TypeError
        If `stdout` or `stderr` is given.
    """
    if "stdout" in params or "stderr" in params:
        raise TypeError("call_subprocess_Popen discards the output of the program: stdout and stderr cannot be given")
    return subprocess_Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **params).wait()


def output_subprocess_Popen(command, **params):
    """Run a program. Return its standard output and standard error as bytes, and its exit status.

    Raises
    ------
    TypeError
        If `stdout` or `stderr` is given.
    """
    if "stdout" in params or "stderr" in params:
        raise TypeError("output_subprocess_Popen returns the output of the program: stdout and stderr cannot be given")
    process = subprocess_Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **params)
    out, err = process.communicate()
    return out, err, process.returncode
