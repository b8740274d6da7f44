"""The worker process, which runs an Op's C code under sanitizers, and the messages between it and its parent.

The worker does not receive the Op. It receives programs: the source code of the module that the linker generates for a
node, or the node's `NativeCode`. Therefore any Op can be checked, also an Op that another process cannot import. The
worker compiles and loads programs. It runs examples in a fork of its process, so that a crash ends only the fork. After
a crash, the next example runs in a new fork.

Messages are pickles. To load a program, the parent sends ``("load", key, program)``, and the worker answers
``("loaded", whether anything was compiled)`` or ``("refused", text)``. To run an example, the parent sends
``("run", key, example)``, and the worker answers ``("done", record, text on stderr)`` or, if the fork has ended,
``("died", status, text)``.
"""

import os
import pickle
import sys
from dataclasses import dataclass

#: FILLS: the bytes that fill fresh memory in the first and in the second run. INITIALIZED: the compiler flags that
#: initialize local variables in the first and in the second build.
FILLS = (0xA7, 0x5C)
INITIALIZED = ("-ftrivial-auto-var-init=pattern", "-ftrivial-auto-var-init=zero")

#: Prefix of the line on stderr that describes the call that follows.
CALL_PREFIX = b"@theano_ng-audit: "

#: Time limit in seconds for an example, and maximum number of examples of one fork. After this number, a new fork
#: replaces the fork, because a fork keeps the values of all its examples in memory.
EXAMPLE_TIMEOUT, MAX_EXAMPLES = 20, 300


# ---------------------------------------------------------------- values


def pack(values):
    """Pack values with their memory layout: strides, alignment, write protection and shared memory.

    Parameters
    ----------
    values : sequence
        Arrays. Other objects are pickled.

    Returns
    -------
    (list of (int, bytes), list of tuple)
        The first list contains a pair for each block of memory: the address modulo 16, and the content. The second
        list contains a tuple for each value: its kind, its position in a block, and its layout.
    """
    import numpy as np

    ranges, places = [], []
    for value in values:
        if not isinstance(value, np.ndarray) or value.dtype.hasobject:
            places.append(("object", pickle.dumps(value)))
            continue
        shape = (value.shape, value.strides, value.dtype, bool(value.flags.writeable))
        if value.size == 0:
            places.append(("empty", *shape))
            continue
        start = value.__array_interface__["data"][0]
        low = start + sum((n - 1) * s for n, s in zip(value.shape, value.strides) if s < 0)
        high = start + sum((n - 1) * s for n, s in zip(value.shape, value.strides) if s > 0) + value.itemsize
        ranges.append((low, high))
        places.append(("array", start, *shape))
    merged = []
    for low, high in sorted(ranges):
        if merged and low < merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], high)
        else:
            merged.append([low, high])
    blocks = [(low % 16, _memory(low, high)) for low, high in merged]
    packed = []
    for place in places:
        if place[0] == "array":
            index = next(i for i, (low, high) in enumerate(merged) if low <= place[1] < high)
            place = ("array", index, place[1] - merged[index][0], *place[2:])
        packed.append(place)
    return blocks, packed


def _memory(low, high):
    import ctypes

    return ctypes.string_at(low, high - low)


def unpack(packed):
    """Return the packed values in fresh memory.

    Each block of memory ends where its last value ends, so that a sanitizer detects an access beyond this value.

    Parameters
    ----------
    packed : (list, list)
        The result of `pack`.

    Returns
    -------
    list
    """
    import numpy as np

    blocks, places = packed
    memories = []
    for pad, content in blocks:
        memory = np.empty(pad + len(content), "uint8")
        memory[pad:] = np.frombuffer(content, "uint8")
        memories.append((pad, memory))
    values = []
    for kind, *place in places:
        if kind == "object":
            values.append(pickle.loads(place[0]))
            continue
        if kind == "empty":  # the data begin at the end of a block, so that any access is out of bounds
            shape, strides, dtype, writeable = place
            value = np.ndarray(shape, dtype, np.empty(32, "uint8"), 32, strides)
        else:
            index, offset, shape, strides, dtype, writeable = place
            pad, memory = memories[index]
            value = np.ndarray(shape, dtype, memory, pad + offset, strides)
        value.flags.writeable = writeable
        values.append(value)
    return values


# ---------------------------------------------------------------- programs


@dataclass(frozen=True)
class Program:
    """A node's C code.

    Attributes
    ----------
    outputs : tuple
        For each output (dtype, broadcastable), or None if it is not an array.
    native : NativeCode or None
    layouts : tuple of int
        With `native`: the layouts that its thunk checks.
    source : str
        Without `native`: the source code of the generated module.
    arguments, without : tuple of str
        Compiler arguments that are added, and default compiler arguments that are left out.
    header_dirs, lib_dirs, libraries : tuple of str
    constants : bytes
        Pickled values of the graph's constants, including params.
    """

    outputs: tuple
    native: object = None
    layouts: tuple = ()
    source: str = ""
    arguments: tuple = ()
    without: tuple = ()
    header_dirs: tuple = ()
    lib_dirs: tuple = ()
    libraries: tuple = ()
    constants: bytes = b""


def program_of(node):
    """Return the program of a node.

    Parameters
    ----------
    node : Apply

    Returns
    -------
    Program

    Raises
    ------
    MethodNotDefined, NotImplementedError
        If the node has no C code.
    pickle.PicklingError, TypeError, AttributeError
        If the params of the node's Op cannot be pickled.
    """
    from theano_ng.gof.codegen.clinker import CLinker
    from theano_ng.gof.compiler import GCC_compiler
    from theano_ng.gof.fg import FunctionGraph
    from theano_ng.gof.native import array_layout, native_code_of, reads_raw_float16
    from theano_ng.gof.utils import MethodNotDefined

    outputs = tuple(
        (str(out.type.dtype), tuple(out.type.broadcastable))
        if array_layout(out.type) >= 0 and hasattr(out.type, "broadcastable")
        else None
        for out in node.outputs
    )
    code = native_code_of(node)
    if code is not None:
        return Program(outputs, native=code, layouts=tuple(array_layout(v.type) for v in (*node.inputs, *node.outputs)))
    if reads_raw_float16(node):
        raise MethodNotDefined("c_code is not used for float16, because _f16_ok is not set")
    node.op.prepare_node(node, storage_map={v: [None] for v in node.inputs + node.outputs}, compute_map={}, impl="c")
    linker = CLinker().accept(FunctionGraph(node.inputs, node.outputs))
    source = linker.get_src_code()
    usual = GCC_compiler.compile_args()
    arguments = linker.compile_args()
    constants = pickle.dumps([r.data for r in linker.arg_orphans])
    return Program(
        outputs,
        source=source,
        arguments=tuple(arg for arg in arguments if arg not in usual),
        without=tuple(arg for arg in usual if arg not in arguments),
        header_dirs=tuple(linker.header_dirs()),
        lib_dirs=tuple(linker.lib_dirs()),
        libraries=tuple(linker.libraries()),
        constants=constants,
    )


def input_values(program, example, values):
    """Return the values of the inputs of a program.

    Parameters
    ----------
    program : Program
        A program of the example's node.
    example : Example
    values : list
        The values of the node's variables.

    Raises
    ------
    Exception
        If a value does not have the type of its variable.
    """
    from theano_ng.gof.graph import Constant

    node = example.built.node
    cells = {v: v.data for v in node.inputs if isinstance(v, Constant)}
    for variable, value in zip(example.built.variables, values):
        cells[variable] = variable.type.filter(value)
    return [cells[v] for v in (node.inputs if program.native is not None else dict.fromkeys(node.inputs))]


def module_thunk(module, program, inputs, outputs):
    """Return a thunk of a program's compiled module, bound to storage cells."""
    from theano_ng.gof import _native

    constants = [[value] for value in pickle.loads(program.constants)]
    error = [None, None, None]
    return _native.CapsuleThunk(module.instantiate(error, *inputs, *outputs, *constants), error, inputs, outputs)


class _SourceLinker:
    """A stand-in for a linker, with given source code. It has the methods that the compile cache calls."""

    node_order = ()

    def __init__(self, source, arguments=(), without=(), header_dirs=(), lib_dirs=(), libraries=()):
        self.source, self.arguments, self.without = source, arguments, without
        self._header_dirs, self._lib_dirs, self._libraries = header_dirs, lib_dirs, libraries

    def get_src_code(self):
        return self.source

    def compile_args(self):
        usual = [arg for arg in self.c_compiler().compile_args() if arg not in self.without]
        return usual + list(self.arguments)

    def header_dirs(self):
        return list(self._header_dirs)

    def lib_dirs(self):
        return list(self._lib_dirs)

    def libraries(self):
        return list(self._libraries)

    def c_compiler(self):
        from theano_ng.gof.compiler import GCC_compiler

        return GCC_compiler


def _load_module(text):
    """Compile the source code of a module, or find the module in the cache. The source code is the only cache key."""
    from theano_ng.configdefaults import config
    from theano_ng.gof.compiler import get_module_cache

    return get_module_cache(config.compiledir).module_from_key((("audit",), (text.source,)), text)


class _Loaded:
    """A program that is ready to run.

    Parameters
    ----------
    program : Program
    """

    def __init__(self, program):
        from theano_ng.configdefaults import config

        self.program = program
        self.instrumented = True
        if program.native is not None:
            from theano_ng.gof.compiler import load_kernels

            self.addresses = load_kernels(program.native.kernels) if program.native.kernels else ()
            self.instrumented = bool(program.native.kernels)
        else:
            text = _SourceLinker(
                program.source,
                program.arguments,
                program.without,
                program.header_dirs,
                program.lib_dirs,
                program.libraries,
            )
            self.modules = [_load_module(text)]
            flags = config.gcc.cxxflags
            if INITIALIZED[0] in flags:
                config.gcc.cxxflags = flags.replace(*INITIALIZED)
                try:
                    self.modules.append(_load_module(text))
                finally:
                    config.gcc.cxxflags = flags

        self.kept = None  # a thunk and its input cells, which all examples share

    def thunk(self, inputs, outputs, second=False):
        """Return a thunk bound to storage cells. If `second` is True and a second build exists, use that build."""
        if self.program.native is not None:
            return self.program.native.bind(self.addresses, inputs, outputs, list(self.program.layouts))
        return module_thunk(self.modules[-second], self.program, inputs, outputs)


# ---------------------------------------------------------------- running


def run_example(loaded, packed, set_fill):
    """Run a program on one example in several ways.

    Fresh memory is filled with the first byte of `FILLS` in the first run, and with the second byte in the second run.
    In further runs, the outputs have preallocated memory of several kinds. In the last run, a thunk that has already
    computed earlier examples is called.

    Parameters
    ----------
    loaded : _Loaded
    packed : (list, list)
        See `pack`.
    set_fill : callable
        A function that sets the byte that fills fresh memory.

    Returns
    -------
    dict
        ``error``: text of the exception that the code raised, or None. ``uninitialized``: a tuple for each output that
        depends on the previous contents of memory: the index of the output, the number of elements that depend on it,
        the index of the first of these elements, and its values in both runs.
    """
    first, error = _run("in fresh memory", loaded, packed, set_fill)
    record = {"error": error, "uninitialized": []}
    if error is not None:
        return record
    second, _ = _run("in fresh memory", loaded, packed, set_fill, second=True)
    record["uninitialized"] = _differences(first, second)
    if record["uninitialized"]:
        again, _ = _run("in fresh memory", loaded, packed, set_fill)
        if _differences(first, again):  # the outputs differ for equal fill bytes, too; another check reports this
            record["uninitialized"] = []
    for kind, words in (
        ("same", "with an output of an earlier call as memory"),
        ("smaller", "with an output of an earlier call on smaller inputs as memory"),
        ("reversed", "with memory with negative strides for its output"),
    ):
        given = [_given(kind, value, description) for value, description in zip(first, loaded.program.outputs)]
        if any(value is not None for value in given):
            _run(words, loaded, packed, set_fill, given=given)
    _run_kept(loaded, packed, set_fill)
    return record


def _run_kept(loaded, packed, set_fill):
    """Call the thunk that all examples of a program share. It keeps its outputs from one call to the next."""
    if loaded.kept is None:
        inputs, outputs = [[None] for _ in packed[1]], [[None] for _ in loaded.program.outputs]
        loaded.kept = loaded.thunk(inputs, outputs), inputs
    thunk, inputs = loaded.kept
    _announce("by a thunk that has already computed other inputs")
    values = unpack(packed)
    _kept.append([[value] * 64 for value in values])
    for cell, value in zip(inputs, values):
        cell[0] = value
    try:
        thunk()
    except Exception:
        pass  # ignore exceptions: this call only serves to let the sanitizers report errors


def _announce(words):
    """Write a description of the next call to stderr, among the reports of the sanitizers."""
    os.write(2, b"%s%s\n" % (CALL_PREFIX, words.encode()))


def _run(words, loaded, packed, set_fill, second=False, given=None):
    """Call a new thunk once. Return its outputs and the text of its exception."""
    _announce(words)
    set_fill(FILLS[second])
    values = unpack(packed)
    _kept.append(
        [[value] * 64 for value in values]
    )  # extra references keep an object alive if the code releases too many references
    inputs = [[value] for value in values]
    outputs = [[None] for _ in loaded.program.outputs] if given is None else [[value] for value in given]
    try:
        loaded.thunk(inputs, outputs, second)()
        error = None
    except Exception as failure:
        error = "%s: %s" % (type(failure).__name__, failure)
    return [cell[0] for cell in outputs], error


_kept = []  # references that are kept until the fork ends


def _given(kind, value, description):
    """Return preallocated memory for an output: of equal shape, smaller, or with negative strides.

    Return None if the output cannot have memory of this kind.
    """
    import numpy as np

    if description is None or not isinstance(value, np.ndarray):
        return None
    dtype, broadcastable = description
    shape = value.shape
    if kind == "smaller":
        shape = tuple(1 if one else max(n - 1, 0) for n, one in zip(value.shape, broadcastable))
        if shape == value.shape:
            return None
    elif kind == "reversed" and not (value.size and value.ndim):
        return None
    size = int(np.prod(shape))
    if size == 0:
        return np.ndarray(shape, dtype, np.empty(32, "uint8"), 32)
    array = np.ndarray(shape, dtype, np.empty(size * np.dtype(dtype).itemsize, "uint8"))
    return array[(slice(None, None, -1),) * array.ndim] if kind == "reversed" else array


def _differences(first, second):
    """Return the differences between two lists of outputs, in the form of ``uninitialized`` of `run_example`."""
    import numpy as np

    found = []
    for i, (a, b) in enumerate(zip(first, second)):
        if (
            not (isinstance(a, np.ndarray) and isinstance(b, np.ndarray))
            or a.shape != b.shape
            or a.dtype != b.dtype
            or a.dtype.hasobject
        ):
            continue
        if a.dtype.kind in "fc":
            with np.errstate(all="ignore"):
                differs = ~((a == b) | ((a != a) & (b != b)))
        elif a.dtype.kind == "b":
            differs = a.view("uint8") != b.view("uint8")
        else:
            differs = a != b
        if np.any(differs):
            where = tuple(int(n) for n in np.argwhere(differs)[0])
            found.append((i, int(np.sum(differs)), where, _text(a, where), _text(b, where)))
    return found


def _text(array, where):
    return str(array.view("uint8")[where] if array.dtype.kind == "b" else array[where])


# ---------------------------------------------------------------- the process


class _Fork:
    """A fork of the worker that runs examples.

    Parameters
    ----------
    programs : dict
        Key -> _Loaded.
    helper : module
        The compiled module of ``fill_allocator.c``.
    """

    def __init__(self, programs, helper):
        import tempfile

        self.log, self.count = tempfile.TemporaryFile(), 0  # noqa: SIM115, kept open for all requests
        mine, theirs = os.pipe(), os.pipe()  # requests, answers
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.close(mine[1])
                os.close(theirs[0])
                self._work(programs, helper, os.fdopen(mine[0], "rb"), os.fdopen(theirs[1], "wb"))
            finally:
                os._exit(0)
        os.close(mine[0])
        os.close(theirs[1])
        self.requests, self.answers = os.fdopen(mine[1], "wb"), os.fdopen(theirs[0], "rb")

    def _work(self, programs, helper, requests, answers):
        import signal

        os.dup2(self.log.fileno(), 1)
        os.dup2(self.log.fileno(), 2)
        os.close(0)
        while True:
            try:
                key, packed = pickle.load(requests)
            except EOFError:
                return
            signal.alarm(EXAMPLE_TIMEOUT)
            try:
                record = run_example(programs[key], packed, helper.set_fill)
            except Exception as error:
                record = {"error": "%s: %s" % (type(error).__name__, error), "uninitialized": []}
            signal.alarm(0)
            pickle.dump(record, answers)
            answers.flush()

    def run(self, key, packed):
        """Send a request and return the answer."""
        self.count += 1
        before = self.log.seek(0, os.SEEK_END)
        pickle.dump((key, packed), self.requests)
        self.requests.flush()
        try:
            answer = "done", pickle.load(self.answers)
        except (EOFError, pickle.UnpicklingError):
            answer = "died", self.end()
        self.log.seek(before)
        text = self.log.read(1 << 20)
        if answer[0] == "done" and all(line.startswith(CALL_PREFIX) for line in text.splitlines()):
            text = b""
        return (*answer, text.decode("utf-8", "replace"))

    def end(self):
        """Close the pipes, wait until the process has ended, and return its exit code."""
        self.requests.close()
        self.answers.close()
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def _serve(source, sink):
    import numpy  # noqa: F401  (import it before the forks)

    def send(message):
        pickle.dump(message, sink)
        sink.flush()

    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "fill_allocator.c"), encoding="utf-8") as file:
        helper = _load_module(_SourceLinker(file.read()))
    helper.install()
    send(("ready",))
    programs, fork = {}, None
    while True:
        try:
            kind, key, thing = pickle.load(source)
        except EOFError:
            os._exit(0)  # no cleanup is needed: a fork ends when its pipe is closed
        if kind == "run":
            fork = fork or _Fork(programs, helper)
            answer = fork.run(key, thing)
            if answer[0] == "died":
                fork = None
        else:
            try:
                programs[key] = _Loaded(thing)
                answer = "loaded", programs[key].instrumented
            except Exception as error:
                answer = "refused", "%s: %s" % (type(error).__name__, error)
        # A new fork is needed after a program was loaded, because the old fork does not have it. It is also needed
        # after a report, because a sanitizer reports each position in the code only once in a process.
        if fork is not None and (kind == "load" or answer[2] or fork.count == MAX_EXAMPLES):
            fork.end()
            fork = None
        send(answer)


def main():
    """Serve requests from the standard input."""
    sink = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # the output of C code must not be mixed with the answers
    _serve(sys.stdin.buffer, sink)


if __name__ == "__main__":
    main()
