"""The blocks of C code in a module: the blocks of variables and nodes, and the struct that contains them.

A *policy* is a function that returns a part of the C code of a variable.
"""

from theano_ng.configdefaults import config
from theano_ng.gof.codegen.modulecode import delimited, indented
from theano_ng.gof.type import CLinkerType
from theano_ng.gof.utils import MethodNotDefined, comment_text

__all__ = [
    "CodeBlock",
    "Roles",
    "StructBlock",
    "accepts",
    "apply_policy",
    "code_gen",
    "failure_code",
    "failure_code_init",
    "further_cell",
    "get_c_cleanup",
    "get_c_declare",
    "get_c_extract",
    "get_c_extract_out",
    "get_c_init",
    "get_c_sync",
    "get_nothing",
    "module_comment",
    "optional",
    "store_value",
    "struct_gen",
    "struct_variable_codeblocks",
    "type_text",
]


def accepts(method, count):
    """Return True if `method`, a method or any other callable, accepts `count` positional arguments."""
    function = getattr(method, "__func__", method)
    code = getattr(function, "__code__", None)
    if code is None:  # a callable object, such as a partial; inspect.signature is slow, but rarely needed
        import inspect

        try:
            inspect.signature(method).bind(*(None,) * count)
        except TypeError:
            return False
        except ValueError:  # the signature is unknown
            pass
        return True
    return bool(code.co_flags & 0x04) or code.co_argcount - (function is not method) >= count


class CodeBlock:
    """A block of C code in the run function. The run function consists of nested blocks.

    Parameters
    ----------
    declare : str
        Declarations. The inner blocks see them, too.
    behavior : str
        The code of the block.
    cleanup : str
        Code that undoes `behavior`. It runs after all inner blocks, or right after `behavior` has failed.
    sub : dict
        ``sub["id"]`` is the number of the block.
    """

    def __init__(self, declare, behavior, cleanup, sub):
        self.declare = declare
        self.behavior = behavior
        self.cleanup = cleanup
        self.label = "__label_%(id)i:" % sub


# The number of nested levels up to which the indentation grows. Deeper blocks are not indented further.
_MAX_DEPTH = 8


def code_gen(blocks):
    """Nest blocks into each other, in order.

    Parameters
    ----------
    blocks : list of CodeBlock

    Returns
    -------
    str
        ``{ declare; behavior; { ... inner blocks ... } label: cleanup; }``
    """
    opening, closing = [], []
    for depth, block in enumerate(blocks):
        margin = 4 * min(depth, _MAX_DEPTH)
        opening.append(" " * margin + "{")
        opening += [indented(text, margin + 4) for text in (block.declare, block.behavior) if text.strip()]
        # The semicolon after the label is an empty statement: C requires a statement there.
        cleanup = indented(block.cleanup, margin + 4) + "\n" if block.cleanup.strip() else ""
        closing.append("%s%s ;\n%s%s}" % (" " * margin, block.label, cleanup, " " * margin))
    return "\n".join(opening + closing[::-1])


def failure_code(sub, use_goto=True):
    """Return the statement that leaves a block of the run function after an error.

    The statement is on one line, so that the line numbers of the surrounding C code do not change.

    Parameters
    ----------
    sub : dict
        ``failure_var``: the variable to which the number of the block is assigned; ``id``: this number.
    use_goto : bool
        If False, only record the failure, without leaving the block.
    """
    leave = " goto __label_%(id)i;" % sub if use_goto else ""
    return "{ %s = %i;%s }" % (sub["failure_var"], sub["id"], leave)


def failure_code_init(sub):
    """Return the statement that leaves the struct's init function after an error."""
    return "{ return %i; }" % sub["id"]


def apply_policy(policy, r, name, sub):
    """Return the code of a policy, or of several policies in order.

    Parameters
    ----------
    policy : callable, or list of callable
        ``policy(r, name, sub)`` returns C code.
    r : Variable
    name : str
        The C name of the variable.
    sub : dict
    """
    if isinstance(policy, (list, tuple)):
        return "".join(part(r, name, sub) for part in policy)
    return policy(r, name, sub)


def get_nothing(r, name, sub):
    """Return an empty string: the policy for a variable that needs no code."""
    return ""


def _checks(op):
    """Return True if the C code of types has to check the inputs of an Op.

    The attribute `check_input` of an Op is False if its `c_code` needs no checks. For native code, only the flag
    `config.check_input` counts, because native code relies on rank, dtype, alignment and byte order.
    """
    return config.check_input if hasattr(op, "native_code") else getattr(op, "check_input", config.check_input)


def _checks_input(r):
    """Return True if an Op that reads the variable requires a check.

    If no node reads the variable, return `config.check_input` for an input, and False for a computed variable.
    """
    clients = [client for client, _ in getattr(r, "clients", ()) if not isinstance(client, str)]
    if clients:
        return any(_checks(client.op) for client in clients)
    return config.check_input and getattr(r, "owner", None) is None


def _text(r, method_name, name, sub, check=None):
    """Return the code that a method of a variable's type returns, between comments."""
    method = getattr(r.type, method_name)
    # In the first examples of the documentation, methods of Types have no parameter `check_input`; users copy these.
    text = method(name, sub) if check is None or not accepts(method, 3) else method(name, sub, check)
    return delimited(r.type, method_name, text, name)


def get_c_declare(r, name, sub):
    """Return the declaration ``PyObject* py_<name>`` and the type's declarations."""
    owner = getattr(r, "owner", None)
    check = _checks_input(r) or (owner is not None and _checks(owner.op))
    return "PyObject* py_%s;\n" % name + _text(r, "c_declare", name, sub, check)


def get_c_init(r, name, sub):
    """Return code that initializes a variable without a value."""
    return "py_%s = Py_None;\nPy_INCREF(py_%s);\n" % (name, name) + _text(r, "c_init", name, sub)


def _load_cell(name):
    return "py_%s = PyList_GET_ITEM(storage_%s, 0);\nPy_XINCREF(py_%s);\n" % (name, name, name)


def get_c_extract(r, name, sub):
    """Return code that takes the value out of the cell."""
    return _load_cell(name) + _text(r, "c_extract", name, sub, _checks_input(r))


def get_c_extract_out(r, name, sub):
    """Return code that takes the previous value of an output out of the cell, if the cell contains a value."""
    owner = getattr(r, "owner", None)
    check = _checks(owner.op) if owner is not None else config.check_input
    if getattr(r.type.c_extract_out, "__func__", None) is not CLinkerType.c_extract_out:
        return _load_cell(name) + _text(r, "c_extract_out", name, sub, check)
    return _load_cell(name) + "if (py_%s == Py_None) {\n%s\n} else {\n%s\n}\n" % (
        name,
        indented(_text(r, "c_init", name, sub), 4),
        indented(_text(r, "c_extract", name, sub, check), 4),
    )


def get_c_cleanup(r, name, sub):
    """Return code that releases the value of the variable."""
    return "%sPy_XDECREF(py_%s);\n" % (_text(r, "c_cleanup", name, sub), name)


def store_value(name, storage):
    """Return code that puts ``py_<name>`` into a cell."""
    return """{
    PyObject* old = PyList_GET_ITEM(%(storage)s, 0);
    Py_XINCREF(py_%(name)s);
    PyList_SET_ITEM(%(storage)s, 0, py_%(name)s);
    Py_XDECREF(old);
}
""" % dict(name=name, storage=storage)


def get_c_sync(r, name, sub):
    """Return code that packs the result into its cell, unless an error has occurred."""
    return "if (!%s) {\n%s\n}\n" % (
        sub["failure_var"],
        indented(_text(r, "c_sync", name, sub) + store_value(name, "storage_" + name), 4),
    )


def further_cell(name, i):
    """Return the name of an additional cell for output `i`, whose variable `name` already has another cell."""
    return "storage_%s_out%d" % (name, i)


class Roles:
    """The roles that the variables of a linker's graph have in the generated module.

    Attributes
    ----------
    inputs, orphans, outputs, params : set of Variable
    places : dict
        For inputs and outputs, a text with their positions.
    more_cells : dict
        Variable -> indices of outputs, for each output that is also an input, a constant or an earlier output. Each of
        these outputs has an additional cell, which a run also fills.
    """

    def __init__(self, linker):
        self.inputs, self.orphans, self.outputs = set(linker.inputs), set(linker.orphans), set(linker.outputs)
        self.params = set(linker.node_params.values())
        self._no_recycling = linker.no_recycling
        self.more_cells, seen = {}, self.inputs | self.orphans
        for i, r in enumerate(linker.outputs):
            if r in seen:
                self.more_cells.setdefault(r, []).append(i)
            seen.add(r)
        self.places = {}
        for kind, variables in (("output", linker.outputs), ("input", linker.inputs)):
            numbers = {}
            for i, r in enumerate(variables):
                numbers.setdefault(r, []).append(str(i))
            self.places.update((r, "%s %s" % (kind, " and ".join(which))) for r, which in numbers.items())

    def literal(self, r):
        """Return the C literal of a constant. Return None for an output or params, or if the Type has no literal."""
        if r in self.orphans and r not in self.outputs and r not in self.params:
            try:
                return "(" + r.type.c_literal(r.data) + ")"
            except (MethodNotDefined, NotImplementedError):
                pass
        return None

    def policies(self, r):
        """Return the policies that declare, read and clean up a variable, for the struct and for the run function."""

        def fill(r, name, sub):
            cells = [further_cell(name, i) for i in self.more_cells.get(r, ())]
            return (
                "if (!%s) {\n%s}\n" % (sub["failure_var"], "".join(store_value(name, cell) for cell in cells))
                if cells
                else ""
            )

        nothing = (get_nothing,) * 3
        kept = not (self._no_recycling is True or r in self._no_recycling)
        if r in self.inputs:
            return nothing, (get_c_declare, get_c_extract, (fill, get_c_cleanup))
        if r in self.orphans:
            return (get_c_declare, get_c_extract, get_c_cleanup), (get_nothing, get_nothing, fill)
        if r in self.outputs:
            first = get_c_extract_out if kept else get_c_init
            return nothing, (get_c_declare, first, (get_c_sync, fill, get_c_cleanup))
        fresh = (get_c_declare, get_c_init, get_c_cleanup)
        # Declare a temporary variable that owns memory as a member of the struct, so that the next run reuses memory.
        return (fresh, nothing) if kept and not optional(r.type.c_is_simple, default=False) else (nothing, fresh)

    def title(self, r):
        """Return the description for the comment next to the variable's declaration."""
        return self.places.get(r) or (
            "params" if r in self.params else "constant" if r in self.orphans else "temporary"
        )


def struct_variable_codeblocks(variable, policies, id, symbol_table, sub):
    """Return the struct block and the run block of a variable.

    Parameters
    ----------
    variable : Variable
    policies : pair of (declare, behavior, cleanup) policies
        The policies for the struct, and the policies for the run function.
    id : int
        The number of the struct block. The run block has the next number.
    symbol_table : dict
        Variable -> C name. If `variable` has no name yet, a new name is added.
    sub : dict

    Returns
    -------
    (StructBlock, CodeBlock)
    """
    name = symbol_table.setdefault(variable, "V%i" % id)
    texts = []
    for policy, number, fail in zip(policies, (id, id + 1), (failure_code_init, failure_code)):
        block_sub = dict(sub, id=number, py_ptr="py_" + name, stor_ptr="storage_" + name)
        block_sub["fail"] = fail(block_sub)
        texts.append([apply_policy(part, variable, name, block_sub) for part in policy] + [block_sub])
    (declare, init, cleanup, struct_sub), run = texts
    return StructBlock(struct_sub["id"], declare, init, cleanup), CodeBlock(*run)


class StructBlock:
    """The code of a variable or a node in the struct: members, initialization and cleanup.

    `id` is the number of the block. If the initialization of a block fails, the cleanup code of this block and of all
    earlier blocks runs.
    """

    def __init__(self, id, declare, init, cleanup):
        self.id, self.declare, self.init, self.cleanup = id, declare, init, cleanup


_STRUCT = """namespace {

struct %(name)s {
    PyObject* __ERROR;
    int __init_level;
    int __last_failure;
%(members)s

    %(name)s() = default;
    ~%(name)s() { cleanup(); }

    // Runs once per thunk. The thunk keeps references to the cells of its variables.
    int init(%(arguments)s) {
%(adopt)s
%(init)s
        return 0;
    }

    // Runs when the thunk is freed.
    void cleanup(void) {
%(cleanup)s
    }

    // Runs in each call. The result is the failure code: 0, or the number of the block that failed.
    int run(void) {
        int %(failure_var)s = 0;
%(behavior)s
        if (%(failure_var)s == 0 && PyErr_Occurred())
            %(failure_var)s = %(leftover)d;    // an exception was set, and the code went on
        __last_failure = %(failure_var)s;
        if (%(failure_var)s) {
            // The exception goes to the error storage, from which the caller raises it.
            theano_ng_ensure_exception();
            PyObject* error[3] = {NULL, NULL, NULL};
            PyErr_Fetch(&error[0], &error[1], &error[2]);
            for (int i = 0; i < 3; ++i) {
                PyObject* old = PyList_GET_ITEM(__ERROR, i);
                if (error[i] == NULL) {
                    error[i] = Py_None;
                    Py_INCREF(Py_None);
                }
                PyList_SET_ITEM(__ERROR, i, error[i]);
                Py_XDECREF(old);
            }
        }
        return %(failure_var)s;
    }
};

static int %(name)s_executor(%(name)s* self) {
    return self->run();
}

static void %(name)s_destructor(PyObject* capsule) {
    delete (%(name)s*)PyCapsule_GetPointer(capsule, NULL);
}

}  // namespace
"""


def struct_gen(args, struct_builders, blocks, sub):
    """Return the struct of a thunk: its cells and members, and the functions init, cleanup and run.

    Parameters
    ----------
    args : list of str
        The names of the cells that init gets, after the error storage.
    struct_builders : list of StructBlock
    blocks : list of CodeBlock
        The blocks of the run function.
    sub : dict
        ``name``: the name of the struct; ``failure_var``: the name of the failure variable; ``leftover``: the failure
        code for an exception that was set although no block failed, -1 by default.

    Returns
    -------
    str
    """
    members = ["    PyObject* %s;" % arg for arg in args]
    members += [indented(block.declare, 4) for block in struct_builders if block.declare.strip()]
    names = ["__ERROR"] + args
    init, cleanup = [], []
    for block in struct_builders:
        # Set the level before the init code: the cleanup code of a block also runs if its init code fails.
        if block.init.strip() or block.cleanup.strip():
            init.append("        __init_level = %d;" % block.id)
        if block.init.strip():
            init.append("        {\n%s\n        }" % indented(block.init, 12))
        if block.cleanup.strip():
            cleanup.append("        if (__init_level >= %d) {\n%s\n        }" % (block.id, indented(block.cleanup, 12)))
    cleanup = cleanup[::-1] + ["        Py_XDECREF(this->%s);" % name for name in names]
    return _STRUCT % dict(
        dict({"leftover": -1}, **sub),
        members="\n".join(members),
        arguments=", ".join("PyObject* %s" % name for name in names),
        adopt="\n".join("        Py_XINCREF(%s);\n        this->%s = %s;" % (name, name, name) for name in names),
        init="\n".join(init),
        cleanup="\n".join(cleanup),
        behavior=indented(code_gen(blocks), 8),
    )


def optional(method, *args, default=""):
    """Return the result of a method of the C interface, or `default` if the class does not define the method."""
    try:
        result = method(*args)
    except MethodNotDefined:
        return default
    return default if result is None else result


def type_text(type_):
    """Return a short description of a type. It is the same in all processes."""
    text = comment_text(type(type_).__name__)
    if hasattr(type_, "dtype"):
        text += " " + str(type_.dtype)
    if hasattr(type_, "ndim"):
        text += ", %dd" % type_.ndim
    return text


def module_comment(nodes):
    """Return the comment lines at the top of a module.

    The comment names only classes, because Ops with different props but equal source share a module.

    Parameters
    ----------
    nodes : list of Apply

    Returns
    -------
    list of str
    """
    ops = [comment_text(type(node.op).__name__) for node in nodes]
    return [
        "C++ code of %s."
        % (ops[0] if len(ops) == 1 else "a graph of %d nodes: %s" % (len(ops), ", ".join(dict.fromkeys(ops)))),
        "",
        'Comments name the method that returned a piece of this text. For example, "// Fibby.c_code: node_0(V1) -> '
        'V3" and',
        '"// end of Fibby.c_code" enclose the result of c_code of an Op class Fibby for a node whose input is V1',
        "and whose output is V3. For a method of a Type, the comment names the variable. The linker wrote all other "
        "parts.",
    ]
