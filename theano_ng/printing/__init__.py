"""Graphs as text and pictures, and the Op `Print`.

- `pprint` / `pp`: an expression as one line of mathematics
- `debugprint`: a graph as an indented tree
- `pydotprint`: a picture
- `Print`: an Op that prints a value when it is computed
"""

from theano_ng.configdefaults import config
from theano_ng.gof import ports
from theano_ng.gof.graph import Apply
from theano_ng.gof.op import Op
from theano_ng.lazy import lazy_names
from theano_ng.printing.debug import char_from_number, debugprint
from theano_ng.printing.picture import pydot_available, pydot_imported_msg, pydotprint, pydotprint_variables
from theano_ng.printing.pretty import (
    DefaultPrinter,
    FunctionPrinter,
    IgnorePrinter,
    LeafPrinter,
    OperatorPrinter,
    PatternPrinter,
    PPrinter,
    PrinterState,
    default_printer,
    greek,
    leaf_printer,
    pp,
    pprint,
    special,
    use_ascii,
)
from theano_ng.printing.print_op import Print, _print_fn
from theano_ng.printing.strings import (
    _TagGenerator,
    hex_digest,
    min_informative_str,
    position_independent_str,
    var_descriptor,
)

ports.infix_text.fill(pprint)
ports.graph_picture.fill("theano_ng.printing.notebook:svg")
ports.graph_outline.fill("theano_ng.printing.notebook:html")

integer_types = (int,)
string_types = (str,)


# Names that Theano 1.0 has in this module, but that higher layers define. They are imported on first access.
_lent, __dir__, _ = lazy_names(
    __name__, {"theano_ng.compile.functions.object": "Function", "theano_ng.compile.sharedvalue": "SharedVariable"}
)


def __getattr__(name):
    if name == "pydot_imported":
        # Import pydot only on demand, because this import takes longer than the import of the rest of this package.
        return pydot_available()
    return _lent(name)


__all__ = [
    "Apply",
    "DefaultPrinter",
    "FunctionPrinter",
    "IgnorePrinter",
    "LeafPrinter",
    "Op",
    "OperatorPrinter",
    "PPrinter",
    "PatternPrinter",
    "Print",
    "PrinterState",
    "_TagGenerator",
    "_print_fn",
    "char_from_number",
    "config",
    "debugprint",
    "default_printer",
    "greek",
    "hex_digest",
    "integer_types",
    "leaf_printer",
    "min_informative_str",
    "position_independent_str",
    "pp",
    "pprint",
    "pydot_imported_msg",
    "pydotprint",
    "pydotprint_variables",
    "special",
    "string_types",
    "use_ascii",
    "var_descriptor",
]
