"""The causes among the findings of a report. The other findings are consequences of them.

One fault of an Op often shows in several checks: an Op that overwrites its input also gives another result in a second
call, and its gradient seems to be wrong. The report shows the cause first, and the consequences under it.
"""

from dataclasses import replace

# Cause -> names of the errors that it explains, in the order in which causes are looked for. The first causes are those
# after which no other observation means anything.
_WRONG_VALUES = (
    "BadThunkOutput",
    "NonDeterministic",
    "DependsOnState",
    "InaccurateResult",
    "PythonCDisagree",
    "BadGradient",
    "BadRop",
    "BadConnectionPattern",
)
_MEMORY = (*_WRONG_VALUES, "Crash", "UndefinedBehaviour", "UninitializedOutput", "InvalidValueError", "MemoryLeak")
_EXPLAINS = {
    "AddressError": _MEMORY,
    "BadReferences": (*_MEMORY, "AddressError", "ReferenceLeak", "ReferenceUnderflow", "MutatesOp", "MutatesNode"),
    "ReferenceUnderflow": (*_MEMORY, "AddressError", "ReferenceLeak", "MutatesOp", "MutatesNode"),
    "UndefinedBehaviour": ("Crash", *_WRONG_VALUES),
    "Crash": _WRONG_VALUES,
    "CompileError": ("BadCacheVersion",),
    "BadDestroyMap": (*_WRONG_VALUES, "BadViewMap", "UninitializedOutput"),
    "BadViewMap": _WRONG_VALUES,
    "UninitializedOutput": _WRONG_VALUES,
    "MutatesOp": (*_WRONG_VALUES, "BadHash", "BadPickle", "BadCacheVersion"),
    "NonDeterministic": ("BadThunkOutput", "DependsOnState", "InaccurateResult", "BadGradient", "BadRop", "BadPickle"),
    "DependsOnState": ("BadThunkOutput", "NonDeterministic", "BadGradient", "BadRop", "MemoryLeak"),
    "BadMakeNode": ("BadOutputType", "InvalidValueError", "BadThunkOutput", "BadGradientType", "BadInferShape"),
    "BadOutputType": ("InvalidValueError", "BadThunkOutput", "PythonCDisagree", "BadGradientType", "BadInferShape"),
    "InvalidValueError": ("BadThunkOutput", "PythonCDisagree"),
    "PythonCDisagree": ("BadThunkOutput",),
    "BadThunkOutput": ("InaccurateResult", "BadGradient", "BadRop"),
    "InaccurateResult": ("BadThunkOutput", "BadGradient", "BadRop"),
    "BadHash": ("BadEquality", "BadPickle", "BadCacheVersion", "UnexpectedError"),
    "BadEquality": ("BadHash", "BadPickle", "BadCacheVersion", "UnexpectedError"),
    "BadGradientType": ("BadGradient",),
    "ReferenceLeak": ("MemoryLeak",),
}


def causes(findings):
    """Return the findings that no other finding explains, each with the findings that it explains.

    Parameters
    ----------
    findings : sequence of Finding
        The findings of all checks of a case, in the order of the checks.

    Returns
    -------
    list of Finding
        The attribute `consequences` contains the explained findings, which include findings with the same name. The
        causes that explain other findings come first.
    """
    left, found = list(findings), []
    for name in [*_EXPLAINS, *dict.fromkeys(f.error for f in findings if f.error not in _EXPLAINS)]:
        same = [finding for finding in left if finding.error == name]
        if not same:
            continue
        first = min(same, key=lambda finding: not finding.inputs)  # the first one with an example, if there is one
        explained = [f for f in left if f is not first and (f.error == name or f.error in _EXPLAINS.get(name, ()))]
        left = [f for f in left if f is not first and f not in explained]
        found.append(replace(first, consequences=tuple(explained)))
    return found
