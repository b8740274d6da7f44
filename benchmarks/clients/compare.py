"""Comparison of the results of two runs of a program."""

import collections

TOLERANCE = 1e-5
"""Tolerance of differences.

It is relative to the larger number, and for projections of arrays to the norm of the array.
"""

Horizon = collections.namedtuple("Horizon", "rows later reason")
"""The limits of the comparison of a program that amplifies rounding errors.

`rows` is the number of first rows, which are compared with `TOLERANCE`. `later` maps the names of numbers to the
relative tolerances of the later rows. `reason` is the reason for these tolerances."""

HORIZONS = {
    "lstm_text": Horizon(
        2,
        {"cost": 0.05, "gradient_norm": 0.3},
        "steps scaled by the size of small gradients amplify a rounding error some 1e4 times in 120 steps of a recurrent network",
    ),
    "pymc3_nuts": Horizon(
        11,
        {
            "mu": 0.15,
            "tau": 0.2,
            "sigma": 0.02,
            "theta_0": 0.05,
            "theta_7": 0.1,
            "sd_mu": 0.25,
            "sd_tau": 0.25,
            "sd_sigma": 0.25,
        },
        "a Hamiltonian path amplifies rounding exponentially; later rows are estimates from a thousand draws, which may differ by three to four"
        " of their standard errors",
    ),
}
"""The programs that amplify rounding errors, so that later results depend on the last bits of the first results.

All results of other programs are compared with `TOLERANCE`.
"""


def differences(program, run, other, small=False):
    """Compare two runs of a program.

    Parameters
    ----------
    program : str
        Name of the program, without ``.py``.
    run, other : dict
        The results that the program wrote with ``--json``.
    small : bool
        Whether both runs were short. No `Horizon` applies to short runs.

    Returns
    -------
    worst : float
        The largest relative difference among the numbers that are compared with `TOLERANCE`.
    messages : list of str
        Descriptions of the differences above their tolerances.
    """
    horizon = None if small else HORIZONS.get(program)
    worst, messages = 0.0, []

    def compare(what, a, b, size, allowed):
        nonlocal worst
        difference = abs(a - b) / size if a != b else 0.0
        if allowed == TOLERANCE:
            worst = max(worst, difference)
        # Unlike `difference > allowed`, this condition is true if the difference is NaN.
        if not difference <= allowed:
            messages.append("%s: %s is %r and %r, allowed are %g" % (program, what, a, b, allowed))

    if [sorted(row) for row in run["rows"]] != [sorted(row) for row in other["rows"]]:
        return float("inf"), ["%s: the rows have other names" % program]
    for k, (row, other_row) in enumerate(zip(run["rows"], other["rows"])):
        for name in sorted(row):
            a, b = row[name], other_row[name]
            if name == "row":
                if a != b:
                    messages.append("%s: row %d is called %s and %s" % (program, k, a, b))
                continue
            allowed = TOLERANCE if horizon is None or k < horizon.rows else horizon.later[name]
            compare("%s of row %s" % (name, row["row"]), a, b, max(abs(a), abs(b)), allowed)
    if sorted(run["checksums"]) != sorted(other["checksums"]):
        return float("inf"), [*messages, "%s: the arrays have other names" % program]
    if horizon is None:
        for name, (norm, projection) in run["checksums"].items():
            other_norm, other_projection = other["checksums"][name]
            size = max(norm, other_norm)
            compare("the norm of %s" % name, norm, other_norm, size, TOLERANCE)
            compare("the projection of %s" % name, projection, other_projection, size, TOLERANCE)
    return worst, messages
