"""Profiles of compiled functions: the time of calls and of compilation, and the memory that the values took."""

import atexit
import contextlib
import logging
import sys
import time
import weakref
from collections import defaultdict

from theano_ng.compile import profiling_page
from theano_ng.compile.profiling_memory import memory_report
from theano_ng.configdefaults import config
from theano_ng.gof import differentiate
from theano_ng.gof.utils import writable
from theano_ng.printing import debugprint

_logger = logging.getLogger("theano_ng.compile.profiling")

theano_imported_time = time.time()
total_fct_exec_time = 0.0
total_graph_opt_time = 0.0
total_time_linker = 0.0

MAX_CALL_TIMES = 2000  # the maximum length of `call_times`. A full list is halved by adding neighboring entries

_atexit_print_list = []
_profiler_printers = []


def register_profiler_printer(fct):
    """Register a function that `ProfileStats.summary` calls. It can be used as a decorator.

    Parameters
    ----------
    fct : callable
        The function is called as ``fct(message, compile_time, fct_call_time, apply_time, apply_cimpl, outputs_size,
        file)``. `outputs_size` is the attribute `variable_shape` of the ProfileStats, and `file` is the file to which
        the summary is written. The other arguments are the attributes with these names.
    """
    _profiler_printers.append(fct)
    return fct


def begin_call(profile, function):
    """Begin a call of a profiled function. Return the argument `before` of `count_call`.

    If the call counts, return None. Otherwise, return the times and counts before the call; `count_call` restores them.
    If `config.profiling.ignore_first_call` is set, the first call of each function does not count, even if several
    functions share a profile.
    """
    if not config.profiling.ignore_first_call or function in profile._called:
        return None
    profile._called.add(function)
    return profile.vm_call_time, dict(profile.apply_time), dict(profile.apply_callcount)


def count_call(profile, seconds, before=None):
    """Add one call to a function's profile.

    Parameters
    ----------
    profile : ProfileStats
    seconds : float
        The duration of the whole call.
    before : tuple, optional
        The result of `begin_call`. If it is not None, the call does not count.
    """
    global total_fct_exec_time
    total_fct_exec_time += seconds
    if before is not None:
        profile.vm_call_time, profile.apply_time, profile.apply_callcount = before
        return
    profile.fct_callcount += 1
    profile.fct_call_time += seconds
    profile.note_call(seconds)


@contextlib.contextmanager
def _destination():
    """Open the file or stream that config.profiling.destination names. This is a context manager."""
    name = config.profiling.destination
    if name in ("stderr", "stdout"):
        yield getattr(sys, name)
    else:
        with open(name, "a") as f:
            yield f


def _atexit_print_fn():
    """Print the profile of each function, their sum, and the global times. This runs when the program exits.

    If no profile was used, print the global times only if config.print_global_stats is set.
    """
    to_sum = []
    if config.profile:
        to_sum = [p for p in _atexit_print_list if p.show_sum and p.is_used()]
    profiles = [p for p in _atexit_print_list if p.is_used()]
    if not profiles:
        if config.print_global_stats:
            print_global_stats()
        return
    with _destination() as file:
        for profile in profiles:
            profile.summary(file=file, n_ops_to_print=config.profiling.n_ops, n_apply_to_print=config.profiling.n_apply)
        if len(to_sum) > 1:
            total = ProfileStats.combined(
                to_sum, "Sum of all(%d) printed profiles at exit excluding Scan op profile." % len(to_sum)
            )
            total.summary(file=file, n_ops_to_print=config.profiling.n_ops, n_apply_to_print=config.profiling.n_apply)
        print_global_stats(file)


def print_global_stats(file=None):
    """Print the time spent in all functions, in all rewriting and in all linking since the package was imported.

    Parameters
    ----------
    file : file, optional
        By default, the destination that config.profiling.destination names.
    """
    if file is None:
        with _destination() as file:
            print_global_stats(file)
        return
    print("=" * 50, file=file)
    print(
        "Global stats: ",
        "Time elasped since Theano import = %6.3fs, " % (time.time() - theano_imported_time),
        "Time spent in Theano functions = %6.3fs, " % total_fct_exec_time,
        "Time spent compiling Theano functions:  optimzation = %6.3fs, linker = %6.3fs "
        % (total_graph_opt_time, total_time_linker),
        file=file,
    )
    print("=" * 50, file=file)


atexit.register(_atexit_print_fn)


class _EmptyProfile:
    """An object that is unpickled as an empty profile with the settings of `profile`."""

    def __init__(self, profile):
        self.settings = {
            "atexit_print": profile.atexit_print,
            "flag_time_thunks": profile.flag_time_thunks,
            "message": profile.message,
        }

    def __reduce__(self):
        return _make_blank, (self.settings,)


def _make_blank(settings):
    return ProfileStats(gpu_checks=False, **settings)


class ProfileStats:
    """The profile of one or more functions.

    To add the times of several functions, pass the same instance as ``profile=``.

    Parameters
    ----------
    atexit_print : bool
        Whether to print the profile when the program ends.
    flag_time_thunks : bool, optional
        Whether to measure each node. None: config.profiling.time_thunks.
    gpu_checks : bool
        Whether to warn if functions do not wait until GPU kernels have finished. The measured times of nodes would then
        include only the launch of the kernels.
    **kwargs
        Initial values of attributes, e.g. ``message``.

    Attributes
    ----------
    message : str
        The function's name.
    fct_callcount : int
    fct_call_time, vm_call_time : float
        The seconds spent in whole calls, and the seconds spent in the graphs that the calls run.
    call_times : list of float
        The seconds of each call. After many calls, each entry is the sum of `calls_per_time` successive calls.
    apply_time, apply_callcount, apply_cimpl : dict
        Apply node -> seconds, number of runs, and True if C code ran.
    apply_interpreted : dict
        Apply node -> number of runs by the interpreter, before the node's kernel was compiled (`config.tiered`).
    compile_time, optimizer_time, validate_time, linker_time, import_time, linker_node_make_thunks : float
        The seconds spent in the whole compilation; in rewriting; in validating replacements; in linking; in loading
        compiled modules; and in making the thunks of nodes.
    linker_make_thunk_time : dict
        Apply node -> seconds spent in making its thunk.
    nb_nodes : int
        The number of nodes in the rewritten graph.
    compiled : list of (str, float)
        The modules that the C compiler compiled, and the seconds that each compilation took.
    graphs_from_disk : int
        The number of rewritten graphs that were read from disk.
    optimizer_profile : tuple or None
        The optimizer and the result of its call, if config.profile_optimizer is set.
    variable_shape, variable_strides, variable_offset : dict
        Variable -> shape, strides or offset, if config.profile_memory is set.
    node_executed_order, node_cleared_order : list
        The nodes in the order in which they ran, and for each node the list of variables that were freed after it, if
        config.profile_memory is set.
    """

    message = None
    compile_time = optimizer_time = validate_time = linker_time = import_time = linker_node_make_thunks = 0.0
    fct_call_time = vm_call_time = 0.0
    fct_callcount = 0
    nb_nodes = -1
    graphs_from_disk = 0
    calls_per_time = 1
    calls_left = 0  # the number of calls that are still added to the last entry of `call_times`
    optimizer_profile = None
    line_width = None
    show_sum = True
    _blank = None

    def __init__(self, atexit_print=True, flag_time_thunks=None, gpu_checks=True, **kwargs):
        if gpu_checks and str(config.device).startswith(("cuda", "opencl")) and not config.gpuarray.sync:
            _logger.warning(
                "You are running the profiler on a GPU without synchronisation, so the times of nodes include only "
                "the launch of their kernels. Set the environment variable CUDA_LAUNCH_BLOCKING=1, or the flag "
                "gpuarray.sync."
            )
        self.apply_time, self.apply_callcount, self.apply_cimpl = {}, {}, {}
        self.apply_interpreted = {}
        self.linker_make_thunk_time = {}
        self.compiled, self.call_times = [], []
        self.variable_shape, self.variable_strides, self.variable_offset = {}, {}, {}
        self.node_executed_order, self.node_cleared_order = [], []
        self.dependencies = {}
        self._called = weakref.WeakSet()
        self.flag_time_thunks = config.profiling.time_thunks if flag_time_thunks is None else flag_time_thunks
        self.line_width = config.profiling.output_line_width
        self.atexit_print = atexit_print
        self.__dict__.update(kwargs)
        if atexit_print:
            _atexit_print_list.append(self)

    def note_call(self, seconds):
        """Add a call to `call_times`."""
        if self.calls_left:
            self.call_times[-1] += seconds
            self.calls_left -= 1
            return
        times = self.call_times
        if len(times) == MAX_CALL_TIMES:
            times[:] = [one + two for one, two in zip(times[::2], times[1::2])]
            self.calls_per_time *= 2
        times.append(seconds)
        self.calls_left = self.calls_per_time - 1

    def empty_copy(self):
        """Return the object that replaces this profile in the pickle of a function: an empty profile with the same
        settings.

        Functions that share a profile also share the empty profile after unpickling.
        """
        if self._blank is None:
            self._blank = _EmptyProfile(self)
        return self._blank

    def __getstate__(self):
        return {name: value for name, value in self.__dict__.items() if name not in ("_blank", "_called")}

    def __setstate__(self, state):
        self.__dict__.update(state)
        for name in ("compiled", "call_times"):  # pickles of Theano lack these attributes
            self.__dict__.setdefault(name, [])
        self._called = weakref.WeakSet()

    @classmethod
    def combined(cls, profiles, message):
        """Return the sum of several profiles.

        Parameters
        ----------
        profiles : list of ProfileStats
        message : str
        """
        total = cls(atexit_print=False, gpu_checks=False, message=message)
        for profile in profiles:
            for name in (
                "compile_time",
                "fct_call_time",
                "fct_callcount",
                "vm_call_time",
                "optimizer_time",
                "linker_time",
                "validate_time",
                "import_time",
                "linker_node_make_thunks",
            ):
                setattr(total, name, getattr(total, name) + getattr(profile, name))
            total.graphs_from_disk += profile.graphs_from_disk
            total.compiled += profile.compiled
            total.nb_nodes = max(total.nb_nodes, 0) + max(profile.nb_nodes, 0)
            counted = ("apply_time", "apply_callcount", "apply_interpreted")
            for name in (
                "apply_time",
                "apply_callcount",
                "apply_cimpl",
                "apply_interpreted",
                "linker_make_thunk_time",
                "variable_shape",
                "variable_strides",
                "variable_offset",
            ):
                for key, value in getattr(profile, name).items():
                    known = getattr(total, name)
                    known[key] = known[key] + value if name in counted and key in known else value
        if len(profiles) == 1:
            total.optimizer_profile = profiles[0].optimizer_profile
        return total

    def reset(self):
        """Reset the times and counts of calls. The times of compilation are kept."""
        self.fct_call_time = self.vm_call_time = 0.0
        self.fct_callcount = 0
        self.call_times, self.calls_per_time, self.calls_left = [], 1, 0
        self.apply_callcount = {}
        self.apply_time = {}

    # Tables by class, Op and node

    def _by(self, key, values, initial=0):
        table = {}
        for node, value in values.items():
            k = key(node)
            table[k] = table.get(k, initial) + value
        return table

    def _impl_by(self, key):
        table = {}
        for node in self.apply_callcount:
            impl = "C " if self.apply_cimpl.get(node) else "Py"
            k = key(node)
            if table.setdefault(k, impl) != impl:
                table[k] = "C/Py"
        return table

    def class_time(self):
        """Return a dict: Op class -> seconds."""
        return self._by(lambda node: type(node.op), self.apply_time, 0.0)

    def class_callcount(self):
        """Return a dict: Op class -> number of runs."""
        return self._by(lambda node: type(node.op), self.apply_callcount)

    def class_nodes(self):
        """Return a dict: Op class -> number of nodes."""
        return self._by(lambda node: type(node.op), dict.fromkeys(self.apply_callcount, 1))

    def class_impl(self):
        """Return a dict: Op class -> the implementation that ran, "C ", "Py" or "C/Py"."""
        return self._impl_by(lambda node: type(node.op))

    def op_time(self):
        """Return a dict: Op -> seconds. Equal Ops have one entry."""
        return self._by(lambda node: node.op, self.apply_time, 0.0)

    def op_callcount(self):
        """Return a dict: Op -> number of runs."""
        return self._by(lambda node: node.op, self.apply_callcount)

    def op_nodes(self):
        """Return a dict: Op -> number of nodes."""
        return self._by(lambda node: node.op, dict.fromkeys(self.apply_callcount, 1))

    def op_impl(self):
        """Return a dict: Op -> the implementation that ran, "C ", "Py" or "C/Py"."""
        return self._impl_by(lambda node: node.op)

    def fill_node_total_time(self, node, total_times):
        """Set ``total_times[node]`` to the seconds of a node plus the total seconds of the nodes that compute its
        inputs.

        A node that is reached on several paths is counted once for each path. The nodes that compute the inputs must
        already have entries in `total_times`.
        """
        total_times[node] = self.apply_time.get(node, 0.0) + sum(
            total_times[r.owner] for r in node.inputs if r.owner is not None and r.owner in total_times
        )

    def compute_total_times(self):
        """Return a dict from each node to the value that `fill_node_total_time` computes for it.

        Returns
        -------
        dict
        """
        total_times = {}
        for fgraph in dict.fromkeys(
            node.fgraph for node in self.apply_time if getattr(node, "fgraph", None) is not None
        ):
            for node in fgraph.toposort():
                self.fill_node_total_time(node, total_times)
        return total_times

    # Printing

    def summary(self, file=None, n_ops_to_print=20, n_apply_to_print=20):
        """Print all sections.

        Parameters
        ----------
        file : file, optional
            By default, the standard error stream.
        n_ops_to_print, n_apply_to_print : int
            The maximum numbers of lines in the table of Ops and in the table of nodes.
        """
        file = sys.stderr if file is None else file
        self.summary_function(file)
        self.summary_globals(file)
        if sum(self.apply_time.values()) > 0:
            self.summary_class(file, n_ops_to_print)
            self.summary_ops(file, n_ops_to_print)
            self.summary_nodes(file, n_apply_to_print)
        elif self.fct_callcount > 0:
            print("  No execution time accumulated (hint: try config profiling.time_thunks=1)", file=file)
        if self.variable_shape:
            self.summary_memory(file, n_apply_to_print)
        if self.optimizer_profile:
            print("Optimizer Profile", file=file)
            print("-----------------", file=file)
            optimizer, result = self.optimizer_profile
            optimizer.print_profile(file, result)
        self.print_extra(file)
        self.print_tips(file)
        if config.profiling.debugprint:
            self._debugprint(file)

    def _debugprint(self, file):
        for fgraph in dict.fromkeys(
            node.fgraph for node in self.apply_callcount if getattr(node, "fgraph", None) is not None
        ):
            debugprint(fgraph.outputs, file=file, print_type=True)

    def summary_function(self, file):
        """Print the times of calls and of compilation."""
        print("Function profiling", file=file)
        print("==================", file=file)
        print("  Message: %s" % self.message, file=file)
        print("  Time in %i calls to Function.__call__: %es" % (self.fct_callcount, self.fct_call_time), file=file)
        if self.fct_call_time > 0 and self.fct_callcount > 0:
            whole, local = self.fct_call_time, sum(self.apply_time.values())
            print(
                "  Time in Function.fn.__call__: %es (%.3f%%)" % (self.vm_call_time, 100 * self.vm_call_time / whole),
                file=file,
            )
            if local > 0:
                print("  Time in thunks: %es (%.3f%%)" % (local, 100 * local / whole), file=file)
        self._summary_compile(file)
        if self.apply_interpreted:
            runs = sum(self.apply_interpreted.values())
            nodes = len(self.apply_interpreted)
            print("  Runs of nodes by the interpreter: %d, of %d nodes" % (runs, nodes), file=file)
        print(file=file)

    def _summary_compile(self, file):
        print("  Total compile time: %es" % self.compile_time, file=file)
        if self.nb_nodes >= 0:
            print("    Number of Apply nodes: %d" % self.nb_nodes, file=file)
        print("    Theano Optimizer time: %es" % self.optimizer_time, file=file)
        print("       Theano validate time: %es" % self.validate_time, file=file)
        print("    Theano Linker time (includes C, CUDA code generation/compiling): %es" % self.linker_time, file=file)
        print("       Import time %es" % self.import_time, file=file)
        print("       Node make_thunk time %es" % self.linker_node_make_thunks, file=file)

    def is_used(self):
        """Return True if the profile has recorded a call or a compilation."""
        return self.fct_callcount > 0 or self.compile_time > 0

    def summary_globals(self, file):
        """Print times that belong to no function."""
        print("Time in all call to theano.grad() %es" % differentiate.grad_time, file=file)
        print("Time since theano import %.3fs" % (time.time() - theano_imported_time), file=file)

    def _table(self, file, title, header, rows, limit, remaining):
        """Print a table sorted by time. The last line sums up the rows beyond `limit`."""
        total = sum(self.apply_time.values())
        print(title, file=file)
        print("------" if title == "Apply" else "---", file=file)
        print(header, file=file)
        rows = sorted(rows, key=lambda row: -row[0])
        cumulated = 0.0
        for seconds, line in rows[:limit]:
            cumulated += seconds
            text = "  %4.1f%%   %5.1f%%  %10.3fs  %s" % (100 * seconds / total, 100 * cumulated / total, seconds, line)
            print(text[: self.line_width], file=file)
        rest = rows[limit:] if limit is not None else []
        seconds = sum(row[0] for row in rest)
        print(remaining % (len(rest), 100 * seconds / total, seconds), file=file)
        print(file=file)

    def _rows(self, times, calls, nodes, impls, name):
        return [
            (
                seconds,
                "%9.2es  %7s  %6d  %6d   %s"
                % (
                    seconds / max(calls.get(key, 0), 1),
                    impls.get(key, "Py"),
                    calls.get(key, 0),
                    nodes.get(key, 0),
                    name(key),
                ),
            )
            for key, seconds in times.items()
            if calls.get(key, 0) > 0
        ]

    def summary_class(self, file=None, N=None):
        """Print the table of Op classes.

        Parameters
        ----------
        file : file, optional
        N : int, optional
            The maximum number of lines.
        """
        file = sys.stderr if file is None else file
        if not sum(self.apply_time.values()):
            _logger.warning("Profiling summary called without data")
            return
        self._table(
            file,
            "Class",
            "<% time> <sum %> <apply time> <time per call> <type> <#call> <#apply> <Class name>",
            self._rows(
                self.class_time(),
                self.class_callcount(),
                self.class_nodes(),
                self.class_impl(),
                lambda cls: "%s.%s" % (cls.__module__, cls.__name__),
            ),
            N,
            "   ... (remaining %i Classes account for %6.2f%%(%.2fs) of the runtime)",
        )

    def summary_ops(self, file=None, N=None):
        """Print the table of Ops. Equal Ops have one line. For the parameters, see `summary_class`."""
        file = sys.stderr if file is None else file
        if not sum(self.apply_time.values()):
            _logger.warning("Profiling summary called without data")
            return
        self._table(
            file,
            "Ops",
            "<% time> <sum %> <apply time> <time per call> <type> <#call> <#apply> <Op name>",
            self._rows(self.op_time(), self.op_callcount(), self.op_nodes(), self.op_impl(), str),
            N,
            "   ... (remaining %i Ops account for %6.2f%%(%.2fs) of the runtime)",
        )

    def summary_nodes(self, file=None, N=None):
        """Print the table of Apply nodes. For the parameters, see `summary_class`."""
        file = sys.stderr if file is None else file
        if not sum(self.apply_time.values()):
            _logger.warning("Profiling summary called without data")
            return
        numbers = defaultdict(dict)
        for node in self.apply_time:
            fgraph = getattr(node, "fgraph", None)
            if fgraph is not None and fgraph not in numbers:
                numbers[fgraph] = {other: i for i, other in enumerate(fgraph.toposort())}
        rows = []
        for node, seconds in self.apply_time.items():
            count = self.apply_callcount.get(node, 0)
            if not count:
                continue
            line = "%9.2es  %6d  %4s   %s" % (
                seconds / count,
                count,
                numbers[getattr(node, "fgraph", None)].get(node, "?"),
                node,
            )
            rows.append((seconds, line + self._node_details(node, seconds / count)))
        self._table(
            file,
            "Apply",
            "<% time> <sum %> <apply time> <time per call> <#call> <id> <Apply name>",
            rows,
            N,
            "   ... (remaining %i Apply instances account for %.2f%%(%.2fs) of the runtime)",
        )

    def _node_details(self, node, seconds):
        """Return a text with the shapes of a node's inputs and outputs.

        The text also states the floating point speed of the node if the Op has a method `flops`.

        The text is empty if `variable_shape` is empty. The dict is filled only if `config.profile_memory` is set.
        """
        if not self.variable_shape:
            return ""
        shapes = [self.variable_shape.get(r) for r in (*node.inputs, *node.outputs)]
        text = "".join(
            "\n    %s %d: dtype=%s, shape=%s, strides=%s"
            % (
                kind,
                i,
                getattr(r, "dtype", "no dtype"),
                self.variable_shape.get(r, "no shape"),
                self.variable_strides.get(r, "no strides"),
            )
            for kind, group in (("input", node.inputs), ("output", node.outputs))
            for i, r in enumerate(group)
        )
        if hasattr(node.op, "flops") and seconds > 0 and all(isinstance(shape, tuple) for shape in shapes):
            flops = node.op.flops(shapes[: len(node.inputs)], shapes[len(node.inputs) :])
            text = "\n    %.3f MFlops, %.3f GFlops/s" % (flops / 1e6, flops / seconds / 1e9) + text
        return text

    def summary_memory(self, file, N=None):
        """Print the memory that the values of the graph used in the latest call. This requires config.profile_memory.

        Parameters
        ----------
        file : file
        N : int, optional
            The maximum number of Apply nodes to print.
        """
        memory_report(self, file, N)

    def print_extra(self, file):
        """Call the functions that `register_profiler_printer` has registered."""
        for printer in _profiler_printers:
            printer(
                self.message,
                self.compile_time,
                self.fct_call_time,
                self.apply_time,
                self.apply_cimpl,
                self.variable_shape,
                file,
            )

    def tips(self):
        """Return suggestions that may make the function faster.

        Returns
        -------
        list of str
        """
        tips = []
        dtypes = {getattr(r, "dtype", None) for node in self.apply_time for r in (*node.inputs, *node.outputs)}
        if "float64" in dtypes and "float32" in dtypes:
            tips.append(
                "float32 and float64 are mixed: a float64 value (often an int32 or int64 that meets a float32) makes the "
                "results of an Op float64. Try the Theano flag floatX=float32 and cast inputs."
            )
        slow = sorted({str(type(node.op).__name__) for node, impl in self.apply_cimpl.items() if not impl})
        if slow:
            tips.append("These Ops ran Python code: %s." % ", ".join(slow[:10]))
        if config.mode in ("DebugMode", "DEBUG_MODE"):
            tips.append("DebugMode computes each node several times; its times are not those of other modes.")
        return tips

    def print_tips(self, file):
        """Print suggestions that may make the function faster."""
        print("Here are tips to potentially make your code run faster", file=file)
        for tip in self.tips():
            print("  - %s" % tip, file=file)
        if not self.tips():
            print("  Sorry, no tip for today.", file=file)

    # Pages

    def to_html(self, path):
        """Write the profile as a self-contained HTML page, for any browser.

        The page shows the time of each Op, each node, and each line of the program, the times of calls, and the
        compilation of the function. With `config.profile_memory`, it shows the allocated memory node by node. With
        `config.profile_optimizer`, it shows the time of each rewrite.

        Parameters
        ----------
        path : str, path or file
            The path of the HTML file, or a file that is open for writing text.
        """
        text = profiling_page.page(self)
        if hasattr(path, "write"):
            path.write(text)
            return
        with open(path, "w", encoding="utf-8") as file:
            file.write(writable(text))

    def name_on_page(self):
        """Return the name of the function for the title of the HTML page."""
        return self.message

    def calls_on_page(self):
        """Return the data about calls for the HTML page.

        Returns
        -------
        dict
            ``kind`` ("function" or "loop"), ``count``, ``seconds``, ``running`` (seconds in the graph), ``thunks``
            (seconds in nodes), ``times`` and ``each`` (`call_times` and `calls_per_time`), ``last`` (the number of
            calls in the last entry of ``times``).
        """
        return {
            "kind": "function",
            "count": self.fct_callcount,
            "seconds": self.fct_call_time,
            "running": self.vm_call_time,
            "thunks": sum(self.apply_time.values()),
            "times": self.call_times,
            "each": self.calls_per_time,
            "last": self.calls_per_time - self.calls_left,
        }


class ScanProfileStats(ProfileStats):
    """The profile of a Scan's inner function.

    Parameters
    ----------
    atexit_print : bool
    name : str, optional
        The name of the Scan.
    **kwargs
        Initial values of attributes.

    Attributes
    ----------
    callcount, nbsteps : int
        The number of calls of the Scan, and the number of its steps.
    call_time : float
        The total time of the calls in seconds. `vm_call_time` is only the time of the steps.
    """

    callcount = 0
    nbsteps = 0
    call_time = 0.0
    show_sum = False

    def __init__(self, atexit_print=True, name=None, **kwargs):
        super().__init__(atexit_print, **kwargs)
        self.name = name

    def count_loop(self, steps, seconds):
        """Add one call of the Scan.

        Parameters
        ----------
        steps : int
        seconds : float
        """
        self.callcount += 1
        self.nbsteps += steps
        self.call_time += seconds
        super().note_call(seconds)

    def note_call(self, seconds):
        """Do nothing: a call of the inner function is one step. `count_loop` records the calls of the loop."""

    def is_used(self):
        return self.callcount > 0

    def name_on_page(self):
        return "the loop %s" % (self.name or "without a name")

    def calls_on_page(self):
        """Return the data about calls for the HTML page: the data of a function, and ``steps``."""
        return {
            **super().calls_on_page(),
            "kind": "loop",
            "count": self.callcount,
            "seconds": self.call_time,
            "steps": self.nbsteps,
        }

    def summary_globals(self, file):
        """Do nothing: the global times belong to the profile of the outer function."""

    def summary_function(self, file):
        if self.callcount == 0:
            return
        print("Scan Op profiling (", self.name, ")", file=file)
        print("==================", file=file)
        print("  Message: %s" % self.message, file=file)
        print(
            "  Time in %i calls of the op (for a total of %i steps) %es"
            % (self.callcount, self.nbsteps, self.call_time),
            file=file,
        )
        print(file=file)
        if self.call_time > 0:
            steps, rest = self.vm_call_time, self.call_time - self.vm_call_time
            print(
                "  Total time spent in calling the VM %es (%.3f%%)" % (steps, 100 * steps / self.call_time), file=file
            )
            print("  Total overhead (computing slices..) %es (%.3f%%)" % (rest, 100 * rest / self.call_time), file=file)
        print(file=file)
