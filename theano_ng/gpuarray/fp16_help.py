"""Functions for kernels with float16 elements. Arrays contain float16, and kernels compute in float32."""


def work_dtype(dtype):
    """Return the dtype in which kernels compute with elements.

    Parameters
    ----------
    dtype : str
        Dtype of the array elements.

    Returns
    -------
    str
        "float32" for "float16", else `dtype`.
    """
    return "float32" if dtype == "float16" else dtype


def load_w(dtype):
    """Return the function with which a kernel reads an element.

    Parameters
    ----------
    dtype : str
        Dtype of the array.

    Returns
    -------
    str
        ``"ga_half2float"`` for "float16", else ``""``: ``"%s(x[i])" % load_w(dtype)`` is the element in the
        `work_dtype`.
    """
    return "ga_half2float" if dtype == "float16" else ""


def write_w(dtype):
    """Return the function with which a kernel converts a value before it stores it.

    Parameters
    ----------
    dtype : str
        Dtype of the array.

    Returns
    -------
    str
        ``"ga_float2half"`` for "float16", else ``""``: ``"z[i] = %s(value)" % write_w(dtype)`` stores a value of the
        `work_dtype`.
    """
    return "ga_float2half" if dtype == "float16" else ""
