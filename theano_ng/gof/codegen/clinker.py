"""The C linker, which generates C++ modules from graphs of Ops and types that have C code.

The linker generates one C++ struct for a whole graph (linker ``c``), or for one node (if the virtual machine calls
``op.make_thunk``). The struct's members are the cells of the graph's inputs, outputs and constants. ``init`` runs once
for each thunk. ``run`` contains one nested block for each variable and each node. ``cleanup`` runs when the thunk is
freed. `blocks` generates the blocks; `gof.compiler` compiles, caches and loads the module.
"""

import itertools
import sys

from theano_ng.configdefaults import config
from theano_ng.configparser import get_config_hash
from theano_ng.gof import compiler as cmodule
from theano_ng.gof import ports
from theano_ng.gof._native import CapsuleThunk
from theano_ng.gof.codegen.blocks import (
    CodeBlock,
    Roles,
    StructBlock,
    accepts,
    apply_policy,
    code_gen,
    failure_code,
    failure_code_init,
    further_cell,
    get_c_cleanup,
    get_c_declare,
    get_c_extract,
    get_c_extract_out,
    get_c_init,
    get_c_sync,
    get_nothing,
    module_comment,
    optional,
    struct_gen,
    struct_variable_codeblocks,
    type_text,
)
from theano_ng.gof.codegen.linkers import DualLinker, HideC, OpWiseCLinker
from theano_ng.gof.codegen.modulecode import delimited
from theano_ng.gof.fg import FunctionGraph
from theano_ng.gof.graph import Constant, NoParams, io_toposort
from theano_ng.gof.link import Container, Linker, raise_with_op
from theano_ng.gof.native import native_code_of, reads_raw_float16
from theano_ng.gof.type.enums import check_enum_constants
from theano_ng.gof.utils import MethodNotDefined

__all__ = [
    "CLinker",
    "CodeBlock",
    "DualLinker",
    "HideC",
    "OpWiseCLinker",
    "PY3",
    "StructBlock",
    "apply_policy",
    "code_gen",
    "failure_code",
    "failure_code_init",
    "get_c_cleanup",
    "get_c_declare",
    "get_c_extract",
    "get_c_extract_out",
    "get_c_init",
    "get_c_sync",
    "get_module_cache",
    "get_nothing",
    "get_persistent_module_cache",
    "string_types",
    "struct_gen",
    "struct_variable_codeblocks",
]

PY3 = True
string_types = (str,)

# A placeholder for the module's hash, which is known only when the text that is hashed is complete.
HASH_PLACEHOLDER = "<<<<HASH_PLACEHOLDER>>>>"


def get_module_cache(init_args=None):
    """Return the ModuleCache of `config.compiledir`.

    Parameters
    ----------
    init_args : dict, optional
        Arguments for the constructor if the cache does not exist yet.
    """
    return cmodule.get_module_cache(config.compiledir, init_args=init_args)


def get_persistent_module_cache():
    """Return the ModuleCache of `config.compiledir`."""
    return get_module_cache()


def _ask(thing, method_name, c_compiler):
    """Return the result of a method such as `thing.c_headers`, as a list.

    Pass `c_compiler` to the method if the method takes an argument.
    """
    method = getattr(thing, method_name, None)
    if method is None:
        return []
    try:
        answer = method(c_compiler) if accepts(method, 1) else method()
    except MethodNotDefined:
        return []
    if answer is None:
        return []
    return [answer] if isinstance(answer, str) else list(answer)


def _no_c_code(what, missing):
    """Return the exception for an Op or Type without C code.

    Parameters
    ----------
    what : str
        A description of the Op or Type.
    missing : MethodNotDefined
        The exception that a method of the Op or Type raised.
    """
    name = ", ".join(str(arg) for arg in missing.args[:1])
    return MethodNotDefined(
        "%s has no C code%s. Linker 'c' makes one C++ module of a graph, so it needs C code for every Op, and for the "
        "Type of every variable. Use linker 'c|py' (C where C code exists, otherwise Python) or 'cvm' (the same in "
        "the virtual machine; the default): mode=Mode(linker='cvm', optimizer='fast_run'). Or write the C code "
        "(c_code of Ops; c_declare and other methods of Types)."
        % (what[:1].upper() + what[1:], " (%s is not defined)" % name if name else "")
    )


def _unique(items):
    return list(dict.fromkeys(items))


class _GraphOf:
    """The inputs, outputs and order of a graph that is not a FunctionGraph."""

    def __init__(self, inputs, outputs):
        self.inputs, self.outputs = list(inputs), list(outputs)

    def toposort(self):
        return io_toposort(self.inputs, self.outputs)


class CLinker(Linker):
    """A linker that compiles a graph, or a part of a graph, into one C++ module.

    Parameters
    ----------
    schedule : callable, optional
        ``schedule(fgraph)`` returns the nodes in order. By default, the order is topological.

    Notes
    -----
    Every Op needs `c_code` for its node. Every type needs `c_declare`, `c_init`, `c_extract`, `c_sync` and `c_cleanup`.
    If a method is missing, MethodNotDefined propagates to the caller, which may use `perform` instead.
    """

    def __init__(self, schedule=None):
        self.fgraph = None
        self.no_recycling = []
        self._reset()
        if schedule is not None:
            self.schedule = schedule

    def _reset(self):
        self._generated = self._source = None

    def accept(self, fgraph, no_recycling=None, profile=None):
        """Bind the linker to a graph, see `Linker.accept`.

        `no_recycling` may be True: then no variable's memory is reused.
        """
        bound = self._bound_to(fgraph, no_recycling)
        bound._reset()
        bound.fetch_variables()
        return bound

    def fetch_variables(self):
        """Divide the graph's variables into inputs, outputs, orphans (constants) and temporaries.

        Also get the params of the nodes.
        """
        fgraph = self.fgraph
        self.inputs, self.outputs = list(fgraph.inputs), list(fgraph.outputs)
        self.node_order = list(self.schedule(fgraph))
        known = dict.fromkeys(self.inputs)
        computed = {}
        self.orphans, self.node_params = [], {}
        for node in self.node_order:
            for r in node.inputs:
                if r not in known:
                    known[r] = None
                    self.orphans.append(r)
            for r in node.outputs:
                known[r] = computed[r] = None
        for r in self.outputs:
            if r not in known:
                known[r] = None
                self.orphans.append(r)
        for r in self.orphans:
            if not isinstance(r, Constant):
                raise TypeError("%s is neither an input of the graph, nor computed in it, nor a constant" % (r,))
        # Equal params of several nodes become one constant.
        by_params = {}
        for node in self.node_order:
            if hasattr(node.op, "native_code") and not getattr(node.op, "own_c_code", False):
                continue  # native code reads packed parameters instead of the params
            params = node.run_params()
            if params is NoParams or params is None:
                continue
            key = (node.op.params_type, type(params), params)  # 1 == 1.0 == True, but their C code may differ
            try:
                hash(key)
            except TypeError as failure:
                raise TypeError(
                    "%s: the params of a node have to be hashable: %r (%s)" % (node, params, failure)
                ) from failure
            if key not in by_params:
                by_params[key] = Constant(node.op.params_type, params)
                self.orphans.append(by_params[key])
            self.node_params[node] = by_params[key]
        produced = set(self.outputs)
        self.temps = [r for r in computed if r not in produced]
        self.variables = _unique(self.inputs + self.orphans + self.temps + self.outputs)

    # The text

    def code_gen(self):
        """Generate the struct.

        Returns
        -------
        str
            The struct's C++ source. It contains `HASH_PLACEHOLDER` in place of the module's hash.

        Raises
        ------
        MethodNotDefined
            If a type or Op has no C code.
        """
        if self._generated is None:
            self._generated = self._code_gen()
        return self._generated

    def _code_gen(self):
        roles = Roles(self)
        symbol, sub = {}, dict(failure_var="__failure")
        self.consts, self.arg_orphans, self.node_names = [], [], {}
        self.init_tasks, self.tasks = [], []
        blocks = []
        numbers = itertools.count(
            1, 2
        )  # Block numbers are failure codes, so 0 is not used. The run block of struct block n has the number n + 1.
        # A block sees the declarations of the blocks around it: inputs are outermost, nodes innermost.
        for r in self.variables:
            literal = roles.literal(r)
            if literal is not None:
                symbol[r] = literal
                self.consts.append(r)
                continue
            number = next(numbers)
            blocks.append(self._variable_blocks(r, roles, number, symbol, sub))
            self.init_tasks.append((r, "init", number))
            self.tasks.append((r, "get", number + 1))
            if r in roles.orphans:  # The struct block extracts the constant from its Python object once for each thunk.
                self.arg_orphans.append(r)
        for i, node in enumerate(self.node_order):
            number = next(numbers)
            self.node_names[node] = "node_%i" % i
            blocks.append(self._node_blocks(node, number, symbol, sub))
            self.init_tasks.append((node, "init", number))
            self.tasks.append((node, "code", number + 1))
        self.args, self.r2symbol = self._cell_names(roles, symbol), symbol
        # A node may set an exception without leaving its block. If the graph has several nodes, it is unknown which
        # node did this, so the failure code is -1.
        leftover = self.tasks[-1][2] if len(self.node_order) == 1 else -1
        return struct_gen(
            self.args,
            [struct_block for struct_block, _ in blocks],
            [run_block for _, run_block in blocks],
            dict(sub, name="__struct_compiled_op_" + HASH_PLACEHOLDER, leftover=leftover),
        )

    def _variable_blocks(self, r, roles, number, symbol, sub):
        """Return the struct block and the run block of a variable. Store the C name of the variable in `symbol`."""
        try:
            struct_block, run_block = struct_variable_codeblocks(r, roles.policies(r), number, symbol, sub)
        except MethodNotDefined as missing:
            raise _no_c_code(
                "the Type %s of %s" % (r.type, roles.places.get(r) or "a variable within the graph"), missing
            ) from missing
        holder = run_block if run_block.declare else struct_block
        holder.declare = "// %s: %s, %s\n%s" % (symbol[r], roles.title(r), type_text(r.type), holder.declare)
        return struct_block, run_block

    def _node_blocks(self, node, number, symbol, sub):
        """Return the struct block and the run block of a node."""
        op, name = node.op, self.node_names[node]
        isyms, osyms = [symbol[r] for r in node.inputs], [symbol[r] for r in node.outputs]
        struct_sub, run_sub = dict(sub, id=number), dict(sub, id=number + 1)
        struct_sub["fail"], run_sub["fail"] = failure_code_init(struct_sub), failure_code(run_sub)
        if node in self.node_params:
            struct_sub["params"] = run_sub["params"] = symbol[self.node_params[node]]
        if reads_raw_float16(node) and native_code_of(node) is None:
            raise NotImplementedError(
                "the C code of %s must not be used for float16, because the Op does not set _f16_ok. Use a linker "
                "that can run its perform, such as 'cvm'" % (node,)
            )
        if native_code_of(node) is None:
            for r in node.inputs:
                if getattr(r.type, "only_in_native_code", False):
                    missing = MethodNotDefined("C code that reads a %s" % r.type)
                    raise _no_c_code("the Op %s (class %s)" % (op, type(op).__name__), missing)
        try:
            behavior = op.c_code(node, name, isyms, osyms, run_sub)
        except MethodNotDefined as missing:
            raise _no_c_code("the Op %s (class %s)" % (op, type(op).__name__), missing) from missing
        if not isinstance(behavior, str):
            raise TypeError("%s.c_code must return a string, not %r" % (type(op).__name__, behavior))
        about = "%s(%s) -> %s" % (name, ", ".join(isyms), ", ".join(osyms))

        def ask(method_name, *args):
            return delimited(op, method_name, optional(getattr(op, method_name), node, name, *args), about)

        behavior, cleanup = delimited(op, "c_code", behavior, about), ask("c_code_cleanup", isyms, osyms, run_sub)
        struct_block = StructBlock(
            number, ask("c_support_code_struct"), ask("c_init_code_struct", struct_sub), ask("c_cleanup_code_struct")
        )
        return struct_block, CodeBlock("", behavior, cleanup, run_sub)

    def _cell_names(self, roles, symbol):
        """Return the names of the thunk's cells: inputs, outputs, and constants that are Python objects."""
        names = {r: "storage_" + name for r, name in symbol.items()}
        outputs = [
            further_cell(symbol[r], i) if i in roles.more_cells.get(r, ()) else names[r]
            for i, r in enumerate(self.outputs)
        ]
        return [names[r] for r in _unique(self.inputs)] + outputs + [names[r] for r in self.arg_orphans]

    def get_init_tasks(self):
        """Return the variable or node of each failure code.

        Returns
        -------
        init_tasks, tasks : list of (Variable or Apply, str, int)
            The tasks of the initialization ("init") and of a run ("get", "code"), with their failure codes.
        """
        self.code_gen()
        return self.init_tasks, self.tasks

    def _file_scope(self, method_name):
        """Return the C code from the method `method_name` of all types and Ops, and from ``<method_name>_apply`` of all
        nodes.

        Returns
        -------
        dict
            C code -> the data for the comment lines around this code: (type or Op, method, name of the node or "").
        """
        self.code_gen()
        parts = {}
        for thing in self._types_and_ops():
            for text in _ask_list(thing, method_name):
                parts.setdefault(text, (thing, method_name, ""))
        for node in self.node_order:
            name = self.node_names[node]
            texts = optional(getattr(node.op, method_name + "_apply"), node, name)
            for text in [texts] if isinstance(texts, str) else texts:
                parts.setdefault(text, (node.op, method_name + "_apply", name))
        parts.pop("", None)
        return parts

    def support_code(self):
        """Return a list of the support code of all types, Ops and nodes, without repetition."""
        return list(self._file_scope("c_support_code"))

    def init_code(self):
        """Return a list of the init code of all types, Ops and nodes, without repetition."""
        return list(self._file_scope("c_init_code"))

    def _types_and_ops(self):
        """Return the types of all variables (including params), then the Ops. Each type and Op is contained once."""
        things, seen = [], set()
        for thing in [r.type for r in self.variables] + [node.op for node in self.node_order]:
            if id(thing) not in seen:
                seen.add(id(thing))
                things.append(thing)
        return things

    def _gather(self, method_name):
        compiler = self.c_compiler()
        answers = []
        for thing in self._types_and_ops():
            answers += _ask(thing, method_name, compiler)
        return _unique(answers)

    def compile_args(self):
        """Return the arguments for the compiler: its own arguments and the arguments of types and Ops.

        Leave out the arguments that `c_no_compile_args` of a type or Op forbids.
        """
        compiler = self.c_compiler()
        forbidden = set(self._gather("c_no_compile_args"))
        own = compiler.compile_args() if hasattr(compiler, "compile_args") else []
        return [arg for arg in _unique(list(own) + self._gather("c_compile_args")) if arg not in forbidden]

    def headers(self):
        """Return a list of the headers that types and Ops require."""
        return self._gather("c_headers")

    def header_dirs(self):
        """Return a list of the directories for headers."""
        return self._gather("c_header_dirs")

    def libraries(self):
        """Return a list of the libraries to link."""
        return self._gather("c_libraries")

    def lib_dirs(self):
        """Return a list of the directories for libraries."""
        return self._gather("c_lib_dirs")

    def c_compiler(self):
        """Return the compiler class that a type or Op requests. Return GCC_compiler if none requests a class."""
        found = None
        for thing in self._types_and_ops():
            method = getattr(thing, "c_compiler", None)
            compiler = method() if method is not None else None
            if compiler is None:
                continue
            if found is not None and found is not compiler:
                raise ValueError("Nodes have requested specific different compilers", (found, compiler))
            found = compiler
        return cmodule.GCC_compiler if found is None else found

    def instantiate_code(self, n_args):
        """Return the body of the module's function ``instantiate``, which creates a thunk's struct.

        Parameters
        ----------
        n_args : int
            The number of arguments of ``instantiate``: the error storage and the cells.
        """
        name = "__struct_compiled_op_" + HASH_PLACEHOLDER
        arguments = ", ".join("PyTuple_GET_ITEM(argtuple, %d)" % i for i in range(n_args))
        return """    if (PyTuple_Size(argtuple) != %(n_args)d) {
        PyErr_Format(PyExc_TypeError, "Wrong number of arguments, expected %(n_args)d, got %%zd", PyTuple_Size(argtuple));
        return NULL;
    }
    %(name)s* struct_ptr = new %(name)s();
    if (struct_ptr->init(%(arguments)s) != 0) {
        theano_ng_ensure_exception();
        // The cleanup must run without a pending exception, and the exception must be kept.
        PyObject *kind, *value, *trace;
        PyErr_Fetch(&kind, &value, &trace);
        delete struct_ptr;
        PyErr_Restore(kind, value, trace);
        return NULL;
    }
    PyObject* thunk = PyCapsule_New((void*)struct_ptr, NULL, %(name)s_destructor);
    if (thunk == NULL) {
        delete struct_ptr;
        return NULL;
    }
    if (PyCapsule_SetContext(thunk, (void*)%(name)s_executor) != 0) {
        Py_DECREF(thunk);
        return NULL;
    }
    return thunk;
""" % dict(n_args=n_args, name=name, arguments=arguments)

    def get_dynamic_module(self):
        """Return the module with this graph's code, as a `cmodule.DynamicModule`.

        It still contains the hash placeholder.
        """
        struct = self.code_gen()
        check_enum_constants(self._types_and_ops())
        module = cmodule.DynamicModule()
        for header in self.headers():
            module.add_include(header)
        module.about = module_comment(self.node_order)
        for text, (owner, method_name, about) in self._file_scope("c_support_code").items():
            module.add_support_code(delimited(owner, method_name, text, about, verbatim=True))
        module.add_support_code(struct)
        module.add_function(
            cmodule.ExtFunction(
                "instantiate",
                "static PyObject* instantiate(PyObject* self, PyObject* argtuple)\n{\n%s}\n"
                % self.instantiate_code(1 + len(self.args)),
                cmodule.METH_VARARGS,
                "A thunk from its cells.",
            )
        )
        name = "__struct_compiled_op_" + HASH_PLACEHOLDER
        module.add_function(
            cmodule.ExtFunction(
                "failure",
                """static PyObject* failure(PyObject* self, PyObject* argtuple)
{
    %(name)s* thunk = (%(name)s*)PyCapsule_GetPointer(PyTuple_GetItem(argtuple, 0), NULL);
    return thunk == NULL ? NULL : PyLong_FromLong(thunk->__last_failure);
}
"""
                % dict(name=name),
                cmodule.METH_VARARGS,
                "The failure code of a thunk's last run.",
            )
        )
        for text, (owner, method_name, about) in self._file_scope("c_init_code").items():
            module.add_init_code(delimited(owner, method_name, text, about))
        return module

    def get_src_code(self):
        """Return the source of the module, with a placeholder for its hash."""
        if self._source is None:
            self._source = self.get_dynamic_module().code()
        return self._source

    # Keys

    def cmodule_key(self):
        """Return the data that the module depends on, except its source.

        Returns
        -------
        (tuple, tuple)
            The versions of all Ops' and types' C code, and a signature: compiler arguments, libraries, and the Op and
            types of each node. If an Op or type has no version, the first tuple is empty, and the module is not kept
            for other processes. See `cmodule_key_`.
        """
        return self.cmodule_key_(
            self.fgraph,
            self.no_recycling,
            compile_args=self.compile_args(),
            libraries=self.libraries(),
            header_dirs=self.header_dirs(),
            c_compiler=self.c_compiler(),
        )

    def cmodule_key_variables(
        self,
        inputs,
        outputs,
        no_recycling,
        compile_args=None,
        libraries=None,
        header_dirs=None,
        insert_config_hash=True,
        c_compiler=None,
    ):
        """Return the key that `cmodule_key_` returns, for the graph from `inputs` to `outputs`."""
        return self.cmodule_key_(
            _GraphOf(inputs, outputs),
            no_recycling,
            compile_args,
            libraries,
            header_dirs,
            insert_config_hash,
            c_compiler,
        )

    def cmodule_key_(
        self,
        fgraph,
        no_recycling,
        compile_args=None,
        libraries=None,
        header_dirs=None,
        insert_config_hash=True,
        c_compiler=None,
    ):
        """Return the key of a graph's module.

        Parameters
        ----------
        fgraph : FunctionGraph
        no_recycling : list of Variable, or True
        compile_args, libraries, header_dirs : list of str, optional
        insert_config_hash : bool
            Whether the key contains a digest of the config flags on which C code may depend.
        c_compiler : Compiler, optional

        Returns
        -------
        (tuple, tuple)
        """
        import numpy

        order = list(self.schedule(fgraph))
        versions, versioned = [], True
        positions = {r: ("input", i) for i, r in enumerate(fgraph.inputs)}
        nodes = []
        for position, node in enumerate(order):
            ins = []
            for r in node.inputs:
                if r not in positions:  # r is a constant, and its value may be part of the source code
                    ins.append((r.type, "constant", r.signature() if hasattr(r, "signature") else r.data))
                else:
                    ins.append((r.type, positions[r]))
            outs = []
            for i, r in enumerate(node.outputs):
                positions[r] = (position, i)
                outs.append((r.type, no_recycling is True or r in no_recycling))
            nodes.append((node.op, tuple(ins), tuple(outs)))
            version = node.op.c_code_cache_version_apply(node)
            versioned = versioned and bool(version)
            versions.append(version)
            params_type = getattr(node.op, "params_type", None)
            for type_ in [r.type for r in node.inputs + node.outputs] + (
                [params_type] if params_type is not None else []
            ):
                version = type_.c_code_cache_version()
                versioned = versioned and bool(version)
                if version not in versions:
                    versions.append(version)
        signature = [
            "CLinker.cmodule_key",
            tuple(compile_args or ()),
            tuple(libraries or ()),
            tuple(header_dirs or ()),
            "NPY_ABI_VERSION=0x%X" % numpy._core._multiarray_umath._get_ndarray_c_version()
            if hasattr(numpy, "_core")
            else numpy.__version__,
            "c_compiler=" + (c_compiler or self.c_compiler()).__name__,
        ]
        if insert_config_hash:
            signature.append("config=" + get_config_hash())
        signature += nodes
        signature.append(tuple(positions.get(r, (r.type, "constant")) for r in fgraph.outputs))
        if not versioned:
            if config.cmodule.warn_no_version:
                without = [str(node) for node in order if not node.op.c_code_cache_version_apply(node)]
                cmodule.warn_once(
                    ("version", tuple(without)),
                    "the C code of these nodes is compiled again in every process, because they (or their types) have no "
                    "c_code_cache_version: %s" % ", ".join(without or ["(types)"]),
                )
            return (), tuple(signature)
        return tuple(versions), tuple(signature)

    # Thunks

    def compile_cmodule(self, location=None):
        """Compile the module outside the cache.

        Parameters
        ----------
        location : str, optional
            A directory. By default, a private directory is used, which is removed when the process ends.

        Returns
        -------
        module
        """
        cache = get_module_cache()
        return cache.compile_to(location or cache.private_location(), self)

    def cthunk_factory(self, error_storage, in_storage, out_storage, storage_map=None, keep_lock=False):
        """Make a thunk's struct. Compile the module if it is not in the cache.

        Parameters
        ----------
        error_storage : list
            A list of three elements, for an exception's type, value and traceback.
        in_storage, out_storage : list of cells
        storage_map : dict, optional
            Constant -> cell. A new cell is created for a constant that is not a key.
        keep_lock : bool
            Accepted for the classic signature. Entries are locked individually, and only while they are compiled.

        Returns
        -------
        (PyCapsule, module)
        """
        try:
            key = self.cmodule_key()
        except KeyError:
            key = None
        module = get_module_cache().module_from_key(key, self, keep_lock=keep_lock)
        cells = [storage_map[r] if storage_map is not None and r in storage_map else [r.data] for r in self.arg_orphans]
        # If a variable occurs twice among the inputs, use the cell of its first occurrence.
        in_cells = {r: cell for r, cell in zip(reversed(self.inputs), reversed(in_storage))}
        capsule = module.instantiate(error_storage, *(in_cells[r] for r in _unique(self.inputs)), *out_storage, *cells)
        return capsule, module

    def make_thunk(self, input_storage=None, output_storage=None, storage_map=None, keep_lock=False):
        """Compile the graph and return a thunk.

        Parameters
        ----------
        input_storage, output_storage : list of cells, optional
        storage_map : dict, optional
            Variable -> cell, for variables for which no storage is given.
        keep_lock : bool
            See `cthunk_factory`.

        Returns
        -------
        thunk : callable
            A `_CThunk`.
        inputs, outputs : list of Container
        """
        cells = {} if storage_map is None else storage_map
        if input_storage is None:
            fresh = {r: [None] for r in self.inputs}
            input_storage = [cells.get(r) or fresh[r] for r in self.inputs]
        if output_storage is None:
            by_variable, output_storage = {}, []
            taken = set(self.inputs) | set(self.orphans)
            for r in self.outputs:
                if r in taken or r in by_variable:
                    output_storage.append([None])
                else:
                    by_variable[r] = cells.get(r) or [None]
                    output_storage.append(by_variable[r])
        error_storage = [None, None, None]
        capsule, module = self.cthunk_factory(error_storage, input_storage, output_storage, storage_map, keep_lock)
        init_tasks, tasks = self.get_init_tasks()
        thunk = _CThunk(capsule, init_tasks, tasks, error_storage, module, input_storage, output_storage)
        thunk.nodes, thunk.graph_inputs = self.node_order, self.inputs
        return (
            thunk,
            [Container(r, cell) for r, cell in zip(self.inputs, input_storage)],
            [Container(r, cell, True) for r, cell in zip(self.outputs, output_storage)],
        )


def _ask_list(thing, method_name):
    """Return the result of a method without parameters as a list. The list is empty if the method is not defined."""
    method = getattr(thing, method_name, None)
    answer = optional(method) if method is not None else ""
    return [answer] if isinstance(answer, str) else list(answer)


class _CThunk(CapsuleThunk):
    """A compiled thunk: a `CapsuleThunk` that can find the block of code that failed.

    Parameters
    ----------
    cthunk : PyCapsule
    init_tasks, tasks : list
        See `CLinker.get_init_tasks`.
    error_storage : list
    module : module
    inputs, outputs : list of cells
    """

    nodes = graph_inputs = ()

    def __new__(cls, cthunk, init_tasks, tasks, error_storage, module, inputs=(), outputs=()):
        return CapsuleThunk.__new__(cls, cthunk, error_storage, list(inputs), list(outputs))

    def __init__(self, cthunk, init_tasks, tasks, error_storage, module, inputs=(), outputs=()):
        self.cthunk, self.init_tasks, self.tasks, self.module = cthunk, init_tasks, tasks, module
        self.position_of_error = -1

    def find_task(self, failure_code):
        """Return the (Variable or Apply, task) of a failure code."""
        for thing, task, number in self.init_tasks + self.tasks:
            if number == failure_code:
                return thing, task
        raise ValueError("no block has the failure code %r" % (failure_code,))

    def __call__(self):
        try:
            super().__call__()
        except Exception:
            if self.node is not None:  # The thunk runs one node of a graph. The caller adds the node to the message.
                raise
            exc_info = sys.exc_info()
            failure = self.module.failure(self.cthunk)
            if failure < 0:  # the failing node is unknown
                raise
            thing, task = self.find_task(failure)
            if task != "code":
                raise
            self.position_of_error = self.nodes.index(thing)
            # Only if the inputs of the node are the inputs of the graph, the thunk's cells contain the values of the
            # node's inputs. The error message then describes their shapes and values.
            same = list(thing.inputs) == list(self.graph_inputs)
            raise_with_op(thing, self if same else None, exc_info=exc_info)


def link_node_in_c(node, storage_map, no_recycling):
    """Return a thunk that runs the C code of one node.

    Parameters
    ----------
    node : Apply
    storage_map : dict
        Variable -> cell.
    no_recycling : list of Variable

    Returns
    -------
    CThunk
    """
    graph = FunctionGraph(node.inputs, node.outputs)
    fresh = [copied for copied, output in zip(graph.outputs, node.outputs) if output in no_recycling]
    linker = CLinker().accept(graph, no_recycling=fresh)
    thunk, _, _ = linker.make_thunk(
        input_storage=[storage_map[v] for v in node.inputs], output_storage=[storage_map[v] for v in node.outputs]
    )
    thunk.node = node  # If the thunk raises an error, its caller adds the node to the message.
    return thunk


ports.link_node_in_c.fill(link_node_in_c)

for _thing in (CLinker,):
    # Pickles, reprs and tracebacks show the documented path.
    _thing.__module__ = "theano_ng.gof.cc"
del _thing
