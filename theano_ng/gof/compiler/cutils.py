"""Functions that run compiled thunks from Python."""

import sys

from theano_ng.configdefaults import config

PY3 = True

__all__ = ["PY3", "compile_cutils", "config", "run_cthunk"]


def run_cthunk(cthunk):
    """Run the thunk of a compiled module.

    Parameters
    ----------
    cthunk : PyCapsule
        The thunk, as the function ``instantiate`` of a compiled module returned it.

    Returns
    -------
    int
        0 on success, otherwise the failure code. After a failure, the thunk's error storage contains the exception.
    """
    import ctypes

    api = ctypes.pythonapi
    api.PyCapsule_GetPointer.restype = api.PyCapsule_GetContext.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    api.PyCapsule_GetContext.argtypes = [ctypes.py_object]
    run = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(api.PyCapsule_GetContext(cthunk))
    return run(api.PyCapsule_GetPointer(cthunk, None))


def compile_cutils():
    """Return the module with `run_cthunk`: this module. Nothing has to be compiled."""
    return sys.modules[__name__]
