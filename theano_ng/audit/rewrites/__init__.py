"""An oracle for rewriting rules: graphs are compared before and after a rule.

========================  ==========================================================================
`registry`                every registered rule
`examples`, `vocabulary`  the examples in their docstrings, and the names that these use
`templates`, `instances`  graphs on which a rule is tried
`special`, `contents`     the values with which they are computed
`applying`                one rule applied to one graph, and graphs computed by Python
`reference`               true values, and bounds of the errors of rounding (`bounded`; of loops `steps`)
`comparing`, `accepted`   kinds of differences, and those that are documented
`proofs`                  equations proved by z3 and sympy
`oracle`                  the verdict about a rule
`program`, `page`         what was found as Python, text, JSON and as a page of the manual
`command`                 ``python -m theano_ng.audit.rewrites``
========================  ==========================================================================
"""

from theano_ng.lazy import lazy_names

# `reference` needs mpmath, which the examples of rules do not.
__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "theano_ng.audit.rewrites.applying": "Computation rewritten",
        "theano_ng.audit.rewrites.oracle": "FULL QUICK Effort judge",
        "theano_ng.audit.rewrites.registry": "Registered registered rule_named",
    },
    modules="vocabulary",
)
