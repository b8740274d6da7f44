"""The pieces of which the C code of a graph is made: blocks, what is done with each variable, and the struct around them."""
from theano_ng.configdefaults import config
from theano_ng.gof.utils import MethodNotDefined

__all__ = ["CodeBlock", "StructBlock", "accepts", "apply_policy", "code_gen", "failure_code", "failure_code_init", "get_c_cleanup", "get_c_declare",
           "get_c_extract", "get_c_extract_out", "get_c_init", "get_c_sync", "get_nothing", "store_value", "struct_gen",
           "optional", "struct_variable_codeblocks"]


def accepts(method, count):
    """Whether a method (or a function in its place) can be called with `count` positional arguments."""
    function = getattr(method, "__func__", method)
    code = getattr(function, "__code__", None)
    if code is None:
        return True
    return bool(code.co_flags & 0x04) or code.co_argcount - (function is not method) >= count


class CodeBlock:
    """One level of nesting in the run function.

    Parameters
    ----------
    declare : str
        Declarations, which go in front of all blocks: the behaviour's `goto` must not jump over them.
    behavior : str
        What the block does.
    cleanup : str
        What undoes it: run after all inner blocks, or right after the behaviour has failed.
    sub : dict
        ``sub["id"]`` numbers the block.
    """

    def __init__(self, declare, behavior, cleanup, sub):
        self.declare = declare
        self.behavior = "{\n%s\n" % behavior
        # A label must be followed by a statement.
        self.cleanup = "__label_%(id)i:\n" % sub + "\n%s\n;\n}\n" % cleanup


def code_gen(blocks):
    """Nest blocks into each other, in order.

    Parameters
    ----------
    blocks : list of CodeBlock

    Returns
    -------
    str
    """
    return "\n".join(
        [block.declare for block in blocks] + [block.behavior for block in blocks] + [block.cleanup for block in reversed(blocks)])


_ENSURE_EXCEPTION = """if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_RuntimeError,
                "Unexpected error in an Op's C code. No Python exception was set.");
        }"""


def failure_code(sub, use_goto=True):
    """The statement that leaves a block of the run function after an error.

    Parameters
    ----------
    sub : dict
        ``failure_var``: the variable that takes the number of the block; ``id``: that number.
    use_goto : bool
        False: only note the failure, without leaving.
    """
    leave = "goto __label_%(id)i;" % sub if use_goto else ""
    return "{\n        %s = %i;\n        %s\n        %s}" % (sub["failure_var"], sub["id"], _ENSURE_EXCEPTION, leave)


def failure_code_init(sub):
    """The statement that leaves the struct's init function after an error."""
    return "{\n        %s\n        return %i;\n}" % (_ENSURE_EXCEPTION, sub["id"])


def apply_policy(policy, r, name, sub):
    """The texts of one or several policies, in order.

    Parameters
    ----------
    policy : callable, or list of callable
        ``policy(r, name, sub)`` returns C code.
    r : Variable
    name : str
        Its C name.
    sub : dict
    """
    if isinstance(policy, (list, tuple)):
        return "".join(part(r, name, sub) for part in policy)
    return policy(r, name, sub)


def get_nothing(r, name, sub):
    """No code."""
    return ""


def _checks_input(r):
    """Whether an Op that reads the variable wants it checked."""
    default = getattr(config, "check_input", True)
    clients = [client for client, _ in getattr(r, "clients", ()) if not isinstance(client, str)]
    return any(getattr(client.op, "check_input", default) for client in clients) if clients else default


def _optional_check(method, name, sub, check):
    # Types written after the documentation's first examples take no check_input.
    return method(name, sub, check) if accepts(method, 3) else method(name, sub)


def get_c_declare(r, name, sub):
    """``PyObject* py_<name>`` and the type's declarations."""
    owner = getattr(r, "owner", None)
    check = _checks_input(r) or (owner is not None and getattr(owner.op, "check_input", True))
    return "PyObject* py_%s;\n" % name + _optional_check(r.type.c_declare, name, sub, check)


def get_c_init(r, name, sub):
    """Initialization of a variable without a value."""
    return "py_%s = Py_None;\n{Py_XINCREF(py_%s);}\n" % (name, name) + r.type.c_init(name, sub)


def get_c_extract(r, name, sub):
    """Take the value out of the cell."""
    take = "py_%s = PyList_GET_ITEM(storage_%s, 0);\n{Py_XINCREF(py_%s);}\n" % (name, name, name)
    return take + _optional_check(r.type.c_extract, name, sub, _checks_input(r))


def get_c_extract_out(r, name, sub):
    """Take an output's previous value out of the cell, if there is one."""
    take = "py_%s = PyList_GET_ITEM(storage_%s, 0);\n{Py_XINCREF(py_%s);}\n" % (name, name, name)
    owner = getattr(r, "owner", None)
    check = getattr(owner.op, "check_input", True) if owner is not None else True
    from theano_ng.gof.type import CLinkerType

    inherited = getattr(r.type.c_extract_out, "__func__", None) is CLinkerType.c_extract_out
    if inherited and not accepts(r.type.c_extract, 3):    # the default passes check_input on
        return take + "if (py_%s == Py_None) {\n%s\n} else {\n%s\n}\n" % (
            name, r.type.c_init(name, sub), r.type.c_extract(name, sub))
    return take + _optional_check(r.type.c_extract_out, name, sub, check)


def get_c_cleanup(r, name, sub):
    """Give up what the variable holds."""
    return "%s\n{Py_XDECREF(py_%s);}\n" % (r.type.c_cleanup(name, sub), name)


def store_value(name, storage):
    """Put ``py_<name>`` into a cell."""
    return """
        {
            PyObject* old = PyList_GET_ITEM(%(storage)s, 0);
            Py_XINCREF(py_%(name)s);
            PyList_SET_ITEM(%(storage)s, 0, py_%(name)s);
            Py_XDECREF(old);
        }
""" % dict(name=name, storage=storage)


def get_c_sync(r, name, sub):
    """Pack the result into its cell, unless something has failed."""
    return "if (!%s) {\n%s\n%s}\n" % (sub["failure_var"], r.type.c_sync(name, sub), store_value(name, "storage_" + name))


def struct_variable_codeblocks(variable, policies, id, symbol_table, sub):
    """The struct's block and the run function's block of a variable.

    Parameters
    ----------
    variable : Variable
    policies : pair of (declare, behavior, cleanup) policies
        For the struct, then for the run function.
    id : int
        Number of the struct's block; the run function's block has the next one.
    symbol_table : dict
        Variable -> C name; extended with a new name when the variable has none.
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
    """A struct's share in a variable or a node: members, what init does, and what undoes it.

    `id` numbers it; a failing init runs the cleanups up to the block that failed.
    """

    def __init__(self, id, declare, init, cleanup):
        self.id, self.declare, self.init, self.cleanup = id, declare, init, cleanup


_STRUCT = """
namespace {
struct %(name)s {
    PyObject* __ERROR;
    int __init_level;
    int __last_failure;

%(members)s

    %(name)s() = default;
    ~%(name)s() { cleanup(); }

    int init(%(arguments)s) {
        // Each thunk holds on to the cells of its variables.
%(adopt)s
%(init)s
        return 0;
    }

    void cleanup(void) {
%(cleanup)s
%(disown)s
    }

    int run(void) {
        int %(failure_var)s = 0;
%(behavior)s
        __last_failure = %(failure_var)s;
        if (%(failure_var)s) {
            // The exception goes to the error storage, from which the caller raises it.
            PyObject* err_type = NULL;
            PyObject* err_value = NULL;
            PyObject* err_traceback = NULL;
            PyErr_Fetch(&err_type, &err_value, &err_traceback);
            PyObject* err[3] = {err_type, err_value, err_traceback};
            for (int i = 0; i < 3; ++i) {
                PyObject* old = PyList_GET_ITEM(__ERROR, i);
                if (err[i] == NULL) {
                    err[i] = Py_None;
                    Py_INCREF(Py_None);
                }
                PyList_SET_ITEM(__ERROR, i, err[i]);
                Py_XDECREF(old);
            }
        }
        // The failure code says which block failed.
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
    """The struct of a thunk: its cells, its members, and init, cleanup and run.

    Parameters
    ----------
    args : list of str
        Names of the cells that init gets, after the error storage.
    struct_builders : list of StructBlock
    blocks : list of CodeBlock
        Of the run function.
    sub : dict
        ``name``: of the struct; ``failure_var``.

    Returns
    -------
    str
    """
    members = ["    PyObject* %s;" % arg for arg in args] + [block.declare for block in struct_builders]
    names = ["__ERROR"] + args
    return _STRUCT % dict(
        sub,
        members="\n".join(members),
        arguments=", ".join("PyObject* %s" % name for name in names),
        adopt="\n".join("        Py_XINCREF(%s); this->%s = %s;" % (name, name, name) for name in names),
        init="\n".join("        __init_level = %d;\n        {\n%s\n        }" % (block.id, block.init) for block in struct_builders),
        cleanup="\n".join(
            "        if (__init_level >= %d) {\n%s\n        }" % (block.id, block.cleanup)
            for block in reversed(struct_builders) if block.cleanup),
        disown="\n".join("        Py_XDECREF(this->%s);" % name for name in names),
        behavior=code_gen(blocks),
    )


def optional(method, *args, default=""):
    """What a method of the C interface returns, or `default` when the class leaves it out."""
    try:
        result = method(*args)
    except MethodNotDefined:
        return default
    return default if result is None else result
