"""An oracle for rewriting rules: it compares the graph before a rule with the graph after it.

========================  ==========================================================================
`registry`                every registered rule
`examples`, `vocabulary`  the examples in docstrings of rules, and the names that the examples use
`templates`, `instances`  graphs on which a rule is tried
`input_values`            the values of the inputs of these graphs, with `special_values` such as NaN
`applying`                the application of one rule to one graph; graphs computed in Python
`reference`               true values, upper bounds of rounding errors (`bounded`; of loops `loop_bounds`)
`comparing`, `accepted`   kinds of differences, and the differences that are documented
`proofs`                  equations proved by z3 and sympy
`oracle`, `devices`       the verdict about a rule, and about a rule for arrays on devices
`reproducer`, `page`      differences as Python programs; verdicts as text, JSON and a manual page
`command`                 ``python -m theano_ng.audit.rewrites``
========================  ==========================================================================
"""

from theano_ng.lazy import lazy_names

# Lazy: `reference` needs mpmath, and the examples of rules do not.
__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "theano_ng.audit.rewrites.applying": "Computation rewritten",
        "theano_ng.audit.rewrites.oracle": "FULL QUICK Effort judge",
        "theano_ng.audit.rewrites.registry": "Registered registered rule_named",
    },
    modules="vocabulary",
)
