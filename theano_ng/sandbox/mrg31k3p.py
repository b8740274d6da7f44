"""The arithmetic of MRG31k3p: single steps, random numbers computed from states, and jumps by powers of matrices.

The generator combines two linear recurrences of order three:

.. math:: x_n = 2^{22} x_{n-2} + (2^7 + 1) x_{n-3} \\bmod m_1, \\qquad y_n = 2^{15} y_{n-1} + (2^{15} + 1) y_{n-3} \\bmod m_2

with :math:`m_1 = 2^{31} - 1` and :math:`m_2 = 2^{31} - 21069`. A state is (x_n, x_{n-1}, x_{n-2}, y_n, y_{n-1}, y_{n-2}).

P. L'Ecuyer and R. Touzin, "Fast Combined Multiple Recursive Generators with Multipliers of the form a = +/- 2^d +/- 2^e", Proceedings of the 2000
Winter Simulation Conference, 683-689. Streams: P. L'Ecuyer, R. Simard, E. J. Chen and W. D. Kelton, "An Object-Oriented Random-Number Package
with Many Long Streams and Substreams", Operations Research 50 (2002), 1073-1075.
"""

import numpy as np

M1 = np.asarray(2147483647, "int32")
"""2^31 - 1, the modulus of the first recurrence."""
M2 = np.asarray(2147462579, "int32")
"""2^31 - 21069, the modulus of the second recurrence."""
MASK12 = 511
MASK13 = 16777215
MASK2 = 65535
MULT2 = 21069
NORM = 2.0**-31
"""The factor that maps an integer from 1 to 2^31 - 1 to a float64 number in (0, 1)."""

# The factor for float32 is the largest float32 number below 2^-31. The largest random integer, 2^31 - 1, is rounded to
# 2^31 in float32, and the product of 2^31 with the factor must be less than 1.
NORM_FLOAT32 = np.float32(4.6566126e-10)
# The factor for float16 is the largest float16 number below 2^-15. It is multiplied by an integer from 1 to 2^15, and
# the product must be less than 1. The product is exact in float32: it is an integer below 2^24, divided by 2^24.
NORM_FLOAT16 = np.float32(511 / 2**24)


def _power_of(companion, exponent, modulus):
    """Return a matrix to the power 2**exponent modulo `modulus`, computed by squaring."""
    matrix = np.array(companion, dtype=object)
    for _ in range(exponent):
        matrix = matrix.dot(matrix) % modulus
    return matrix.astype("int64")


_STEP1 = [[0, 2**22, 2**7 + 1], [1, 0, 0], [0, 1, 0]]
_STEP2 = [[2**15, 0, 2**15 + 1], [1, 0, 0], [0, 1, 0]]

A1p72 = _power_of(_STEP1, 72, int(M1))
A2p72 = _power_of(_STEP2, 72, int(M2))
A1p134 = _power_of(_STEP1, 134, int(M1))
A2p134 = _power_of(_STEP2, 134, int(M2))

np_int32_vals = [np.int32(i) for i in (0, 7, 9, 15, 16, 22, 24)]


def matVecModM(A, s, m):
    """Return the product of a matrix and a vector modulo m, exactly for numbers below 2**31.

    Parameters
    ----------
    A : array_like of int, (k, 3)
    s : array_like of int, (..., 3)
    m : int

    Returns
    -------
    numpy.ndarray of int32, (..., k)
    """
    A, s, m = np.asarray(A, "int64"), np.asarray(s, "int64"), int(m)
    # Reduce each product first: products are below 2**62, but a sum of three could exceed 2**63.
    return ((A * s[..., np.newaxis, :] % m).sum(-1) % m).astype("int32")


def multMatVect(v, A, m1, B, m2):
    """Multiply A by the first half of `v` modulo m1, and B by the second half modulo m2, and join the products.

    Parameters
    ----------
    v : array_like of int, (..., 6)
    A, B : array_like of int, (3, 3)
    m1, m2 : int

    Returns
    -------
    numpy.ndarray of int32, (..., 6)
    """
    v = np.asarray(v)
    return np.concatenate([matVecModM(A, v[..., :3], m1), matVecModM(B, v[..., 3:], m2)], axis=-1)


def ff_2p134(rstate):
    """Return the state after 2**134 steps, with which the next stream begins."""
    return multMatVect(rstate, A1p134, M1, A2p134, M2)


def ff_2p72(rstate):
    """Return the state after 2**72 steps, with which the next substream begins."""
    return multMatVect(rstate, A1p72, M1, A2p72, M2)


def substreams(rstate, n):
    """Return the initial states of n substreams, each 2**72 steps after the previous state.

    Parameters
    ----------
    rstate : array_like of int, (6,)
    n : int

    Returns
    -------
    numpy.ndarray of int32, (n, 6)
        The first row is `rstate`.
    """
    states = np.asarray(rstate, "int32")[np.newaxis]
    jump1, jump2 = A1p72, A2p72
    while len(states) < n:
        # Double the number of states: each new state is len(states) substreams after an existing state.
        states = np.concatenate([states, multMatVect(states[: n - len(states)], jump1, M1, jump2, M2)])
        jump1, jump2 = (
            matVecModM(jump1, jump1.T, M1).T.astype("int64"),
            matVecModM(jump2, jump2.T, M2).T.astype("int64"),
        )
    return np.ascontiguousarray(states)


def _less(y, m):
    """Return y modulo m for 0 <= y < 2 m. For y = 2 m return m, like the published code."""
    return np.where(y >= m, y - m, y)


def next_states(states):
    """Compute one step of many streams.

    Parameters
    ----------
    states : sequence of six arrays of int64
        x_n, x_{n-1}, x_{n-2}, y_n, y_{n-1}, y_{n-2}.

    Returns
    -------
    states : list of six arrays
        The states after the step.
    z : array of int64
        The random integers of the new states, from 1 to 2^31 - 1.
    """
    x1, x2, x3, y1, y2, y3 = states
    m1, m2 = int(M1), int(M2)
    x = ((x2 & MASK12) << 22) + (x2 >> 9) + ((x3 & MASK13) << 7) + (x3 >> 24)
    x = _less(_less(x, m1) + x3, m1)
    y = _less(((y1 & MASK2) << 15) + MULT2 * (y1 >> 16), m2)
    z = _less(((y3 & MASK2) << 15) + MULT2 * (y3 >> 16), m2)
    y = _less(y + _less(z + y3, m2), m2)
    return [x, x1, x2, y, y1, y2], np.where(x <= y, x - y + m1, x - y)


def mrg_next_value(rstate, new_rstate, NORM, mask, offset):
    """Compute one step of one stream, and return a random number.

    Parameters
    ----------
    rstate : array_like of int, (6,)
    new_rstate : array of int, (6,)
        The array into which the new state is written.
    NORM : float
    mask, offset : int
        If the mask is -1 and the offset 0, the integer z is used unchanged.

    Returns
    -------
    float
        ((z & mask) + offset) * NORM for the random integer z of the new state.
    """
    states, z = next_states([np.int64(x) for x in rstate])
    new_rstate[...] = [int(x) for x in states]
    return ((int(z) & int(mask)) + int(offset)) * NORM


def numbers(z, dtype):
    """Map random integers from 1 to 2^31 - 1 to numbers in (0, 1).

    Parameters
    ----------
    z : array of int64
    dtype : {'float16', 'float32', 'float64'}
    """
    if dtype == "float64":
        return z * NORM
    if dtype == "float32":
        return z.astype("float32") * NORM_FLOAT32
    return (((z & 32767) + 1).astype("float32") * NORM_FLOAT16).astype("float16")
