"""Halves in kernels: they are stored as float16 and computed with as float32."""


def work_dtype(dtype):
    """The dtype in which numbers are computed with.

    Parameters
    ----------
    dtype : str
        That of the elements of arrays.

    Returns
    -------
    str
        "float32" for "float16", else `dtype`.
    """
    return "float32" if dtype == "float16" else dtype


def load_w(dtype):
    """The function by which a kernel reads an element.

    Parameters
    ----------
    dtype : str
        That of the array.

    Returns
    -------
    str
        ``"ga_half2float"`` for "float16", else ``""``: ``"%s(x[i])" % load_w(dtype)`` is the number in the `work_dtype`.
    """
    return "ga_half2float" if dtype == "float16" else ""


def write_w(dtype):
    """The function by which a kernel converts a number to what it stores.

    Parameters
    ----------
    dtype : str
        That of the array.

    Returns
    -------
    str
        ``"ga_float2half"`` for "float16", else ``""``: ``"z[i] = %s(value)" % write_w(dtype)`` stores a number of the `work_dtype`.
    """
    return "ga_float2half" if dtype == "float16" else ""
