"""What passes between the parts of the audit: cases, findings, verdicts, reports."""

from dataclasses import dataclass, field
from typing import Any, Callable

STATUSES = ("ok", "failed", "skipped")


@dataclass(frozen=True)
class Case:
    """An Op, and inputs to start from.

    Parameters
    ----------
    op : Op or callable
        Called with symbolic inputs, it gives the outputs. A callable may build its Op from them.
    inputs : sequence
        One entry for each input: an example value, a Type, or a Variable whose type is meant.
    name : str, optional
        In reports; by default that of the Op.
    tied : callable, optional
        ``tied(values) -> bool``: whether generated values are good input together. By default lengths that are equal in the examples
        stay equal.
    vary : collection of str, optional
        What to vary about the examples; all of `generate.VARIATIONS` by default.
    skip : dict, optional
        Check name -> why it does not apply to this Op; shown in the report.
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
            object.__setattr__(self, "name", getattr(self.op, "__name__", None) or str(self.op))


@dataclass(frozen=True)
class Finding:
    """Something wrong, with the smallest input that shows it.

    Attributes
    ----------
    check : str
        The check that found it: ``c_code``, ``infer_shape`` ...
    error : str
        Its name: that of DebugMode's exception, or one of `names`.
    message : str
        One line.
    inputs : list of str
        Each input: dtype, shape, layout, values.
    evidence : str
        All that is known: differences, stack of the sanitizer ...
    location : str
        ``file:line`` of the code to look at; "" where unknown.
    """

    check: str
    error: str
    message: str
    inputs: tuple = ()
    evidence: str = ""
    location: str = ""


@dataclass(frozen=True)
class Verdict:
    """What one check says about one case.

    Attributes
    ----------
    check : str
    status : {'ok', 'failed', 'skipped'}
    examples : int
        Inputs tried.
    seconds : float
    findings : tuple of Finding
    reason : str
        Why it was skipped.
    """

    check: str
    status: str
    examples: int = 0
    seconds: float = 0.0
    findings: tuple = ()
    reason: str = ""


@dataclass(frozen=True)
class Report:
    """All verdicts about one case."""

    case: str
    op: str
    verdicts: tuple
    seconds: float = 0.0

    @property
    def findings(self):
        return [finding for verdict in self.verdicts for finding in verdict.findings]

    @property
    def ok(self):
        return not self.findings
