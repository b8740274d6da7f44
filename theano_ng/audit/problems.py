"""The exceptions of the audit, and texts of one line about exceptions."""


def first_line(text):
    """Return the first line of a text that is not blank, or ''."""
    return next((line.strip() for line in str(text).splitlines() if line.strip()), "")


def one_line(failure):
    """Describe an exception in one line."""
    text = first_line(failure)
    return "%s: %s" % (type(failure).__name__, text) if text else type(failure).__name__


class Problem(Exception):
    """The exception by which a check reports an error that an example shows.

    Parameters
    ----------
    error : str
        One of `names.NAMES`.
    message : str
        Description in one line.
    evidence, location : str
        The attributes of the `Finding`.
    """

    def __init__(self, error, message, evidence="", location=""):
        super().__init__(error, message, evidence, location)
        self.error, self.message, self.evidence, self.location = error, message, evidence, location

    def __str__(self):
        return "%s: %s" % (self.error, self.message)


class Reject(Exception):
    """The exception by which a check rejects an example that does not apply. Such an example is not counted."""


class RefusedInputs(ValueError):
    """An Op refuses the example inputs of its case."""


class AuditError(Exception):
    """An error of the audit, not of the Op."""
