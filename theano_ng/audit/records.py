"""The records of an audit: cases, findings, verdicts and reports."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from theano_ng.audit.causes import causes

STATUSES = ("ok", "failed", "skipped")


@dataclass(frozen=True)
class Case:
    """A case of the audit: an Op and example inputs, from which the audit generates other inputs.

    Parameters
    ----------
    op : Op or callable
        The Op, or a function that applies an Op. A call with symbolic inputs returns the symbolic outputs.
    inputs : sequence
        One entry per input: an example value, a Type, or a Variable. Only the type of a Variable is used.
    name : str, optional
        Name of the case in reports. Default: the name of the Op.
    tied : callable, optional
        ``tied(values)`` returns True if the generated values may be used together. By default, all generated values
        are used.
    vary : collection of str, optional
        The properties of the examples to vary. Default: all of `generate.VARIATIONS`.
    skip : dict, optional
        Name of a check, or of one of `driver.PROPERTIES` -> reason why it does not apply to this Op. The report shows the
        reason.
    tolerance : float, optional
        Relative tolerance of gradients.
    """

    op: Any
    inputs: tuple
    name: str = ""
    tied: Callable = None
    vary: Any = None
    skip: dict = field(default_factory=dict)
    tolerance: float = None

    def __post_init__(self):
        object.__setattr__(self, "inputs", tuple(self.inputs))
        if not self.name:
            object.__setattr__(self, "name", _name_of(self.op))


def _name_of(op):
    """Return the name of a function, or the text of an Op. If its methods fail, return the name of its class."""
    try:
        return getattr(op, "__name__", None) or str(op)
    except Exception:  # the checks report this exception
        return type(op).__name__


@dataclass(frozen=True)
class Finding:
    """An error that an audit found, with the smallest input that shows it.

    Attributes
    ----------
    check : str
        The check that found the error: ``c_code``, ``infer_shape`` ...
    error : str
        Name of the error, from `names`.
    message : str
        Description in one line.
    inputs : list of str
        Description of each input: dtype, shape, layout, values.
    evidence : str
        Details: differences, stack trace of the sanitizer ...
    location : str
        ``file:line`` of the code that is probably wrong. "" if it is unknown.
    change : str
        If only another Op of the class shows the error: the constructor argument that differs from the Op of the case,
        such as ``alpha=0.0 instead of 0.3``. Otherwise "".
    consequences : tuple of Finding
        In `Report.findings`: the findings that this finding probably explains.
    """

    check: str
    error: str
    message: str
    inputs: tuple = ()
    evidence: str = ""
    location: str = ""
    change: str = ""
    consequences: tuple = ()


@dataclass(frozen=True)
class Verdict:
    """The result of one check of one case.

    Attributes
    ----------
    check : str
    status : {'ok', 'failed', 'skipped'}
    examples : int
        Number of inputs tried.
    seconds : float
    findings : tuple of Finding
    reason : str
        The reason for skipping the check.
    note : str
        What the check did not test, for instance lines of code that no example reached.
    """

    check: str
    status: str
    examples: int = 0
    seconds: float = 0.0
    findings: tuple = ()
    reason: str = ""
    note: str = ""


@dataclass(frozen=True)
class Report:
    """All verdicts about one case.

    Attributes
    ----------
    case, op : str
    verdicts : tuple of Verdict
    seconds : float
    error : str
        The reason why the command could not examine the case. Otherwise "".
    """

    case: str
    op: str
    verdicts: tuple
    seconds: float = 0.0
    error: str = ""

    @property
    def findings(self):
        """The causes: the findings that no other finding explains. The verdicts contain all findings."""
        return causes([finding for verdict in self.verdicts for finding in verdict.findings])

    @property
    def ok(self):
        return not self.findings and not self.error
