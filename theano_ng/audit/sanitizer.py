"""The check that builds an Op's C code with -fsanitize=address,undefined and runs it in a process of its own."""

import os
import pickle
import signal
import subprocess
import sys
import threading

from theano_ng.audit import faults, generate, worker
from theano_ng.audit.driver import Problem, Reject, one_line
from theano_ng.audit.value_checks import good_together, run_or_error
from theano_ng.configdefaults import config
from theano_ng.gof.compiler import trust
from theano_ng.gof.graph import Constant
from theano_ng.gof.native import Kernel

#: -O1 for true stacks and quick builds. From gcc 12 on, local variables that the code leaves uninitialized get a pattern besides.
FLAGS = "-fsanitize=address -fsanitize=undefined -fno-omit-frame-pointer -g1 -O1"
RUNTIMES = ("libasan.so", "libubsan.so", "libstdc++.so")
ADDRESS_OPTIONS = dict(
    detect_leaks=0,
    exitcode=86,
    handle_abort=1,
    allocator_may_return_null=1,
    redzone=512,
    max_redzone=2048,
    max_allocation_size_mb=2048,
    detect_odr_violation=0,
    max_malloc_fill_size=1 << 20,
    malloc_fill_byte=0xA7,
    max_free_fill_size=1 << 20,
    free_fill_byte=0x5C,
)
UNDEFINED_OPTIONS = dict(halt_on_error=0, print_stacktrace=1)

#: Seconds that one answer may take, which may mean two compilations.
LIMIT = 120

#: Examples that fail, after which no more are tried: each costs a process, and they mostly fail in the same way.
MOST_FAULTS = 40


def unavailable():
    """Why there are no sanitizers here; "" when there are."""
    from theano_ng.gof.compiler.toolchain import find_toolchain

    if not sys.platform.startswith("linux"):
        return "the sanitizers are used on Linux only"
    toolchain = find_toolchain()
    if toolchain is None:
        return "no C++ compiler (config.cxx is %r)" % config.cxx
    if toolchain.is_llvm():
        return "the sanitizers are used with gcc only, config.cxx is %r" % config.cxx
    missing = [name for name, path in zip(RUNTIMES, _runtimes(toolchain)) if path is None]
    return "gcc comes without %s (on Debian: libgcc-dev)" % " and ".join(missing) if missing else ""


def _runtimes(toolchain):
    """Paths of the libraries to preload: None for those that the compiler does not have. libstdc++ is needed for exceptions to pass."""
    from theano_ng.gof.compiler.toolchain import run_program

    if toolchain.cxx not in _known:
        paths = _known[toolchain.cxx] = []
        for name in RUNTIMES:
            status, output = run_program([toolchain.cxx, "-print-file-name=" + name])
            path = output.strip()
            paths.append(path if status == 0 and os.path.isabs(path) and os.path.exists(path) else None)
    return _known[toolchain.cxx]


_known = {}


class WorkerDied(Exception):
    """The worker's process ended, or took too long.

    Parameters
    ----------
    text : str
        What it printed on stderr.
    """


class Worker:
    """The process that runs programs under sanitizers; see `worker`.

    Parameters
    ----------
    limit : float
        Seconds that one answer may take.

    Raises
    ------
    WorkerDied
        When it does not come up.
    """

    def __init__(self, limit=LIMIT):
        import tempfile

        from theano_ng.gof.compiler.compiledir import SANITIZED
        from theano_ng.gof.compiler.toolchain import find_toolchain

        self.limit = limit
        self.directory = os.path.join(trust.directory(config.compiledir), SANITIZED)
        trust.make_directory(self.directory)
        self.log = tempfile.TemporaryFile()
        environment = dict(os.environ)
        root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        flags = "%s %s" % (config.gcc.cxxflags, FLAGS)
        toolchain = find_toolchain()
        if int(toolchain.version().split(".")[0] or 0) >= 12:
            flags += " " + worker.INITIALIZED[0]
        symbolize = (
            0 if faults.addr2line() else 1
        )  # a process reads all debug information of Python before it names a function
        environment.update(
            LD_PRELOAD=" ".join(path for path in _runtimes(toolchain) if path is not None),
            PYTHONMALLOC="malloc",
            PYTHONPATH=os.pathsep.join(
                [root] + [path for path in environment.get("PYTHONPATH", "").split(os.pathsep) if path]
            ),
            ASAN_OPTIONS=_options(ADDRESS_OPTIONS, symbolize),
            UBSAN_OPTIONS=_options(UNDEFINED_OPTIONS, symbolize),
            OPENBLAS_NUM_THREADS="1",
            # nocleanup: kernels' texts stay, to be shown
            THEANO_FLAGS=",".join(
                part
                for part in (
                    environment.get("THEANO_FLAGS", ""),
                    "cxx=" + config.cxx,
                    "compiledir=" + self.directory,
                    "nocleanup=True",
                    "gcc.cxxflags=" + flags.strip(),
                )
                if part
            ),
        )
        self.process = subprocess.Popen(
            [sys.executable, "-m", "theano_ng.audit.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            env=environment,
        )
        try:
            self._receive()
        except WorkerDied:
            self.close()
            raise

    def _receive(self):
        timer = threading.Timer(self.limit, self.process.kill)
        timer.start()
        try:
            return pickle.load(self.process.stdout)
        except (EOFError, pickle.UnpicklingError, OSError):
            self.process.wait()
            self.log.seek(0)
            raise WorkerDied(self.log.read().decode("utf-8", "replace")) from None
        finally:
            timer.cancel()

    def _ask(self, *message):
        try:
            pickle.dump(message, self.process.stdin)
            self.process.stdin.flush()
        except OSError:  # dead: what it said comes instead of the answer
            pass
        return self._receive()

    def load(self, key, program):
        """Compile a program and get ready to run it.

        Parameters
        ----------
        key : object
            What it is called from now on.
        program : worker.Program

        Returns
        -------
        bool
            Whether anything in it was compiled with the sanitizers.

        Raises
        ------
        ValueError
            With the reason, when it does not compile or load.
        WorkerDied
        """
        kind, answer = self._ask("load", key, program)
        if kind == "refused":
            raise ValueError(answer)
        return answer

    def run(self, key, values):
        """Run a program.

        Parameters
        ----------
        key : object
        values : list
            One for each input of the program.

        Returns
        -------
        (dict or None, list of Fault)
            What came of it (see `worker.run_example`; None when the process died of it), and what the sanitizers said.

        Raises
        ------
        WorkerDied
        """
        kind, result, text = self._ask("run", key, worker.pack(values))
        found = faults.read_faults(faults.symbolized(text, self.directory))
        if kind == "done":
            return result, found
        if result != ADDRESS_OPTIONS["exitcode"] or not found:
            found.append(faults.Fault("Crash", _ended(result), (), (), text.strip()[-4000:]))
        return None, found

    def close(self):
        """End the process."""
        for stream in (self.process.stdin, self.process.stdout):
            try:
                stream.close()
            except OSError:
                pass
        try:
            self.process.wait(2)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def _options(options, symbolize):
    return ":".join("%s=%s" % item for item in dict(options, symbolize=symbolize).items())


def _ended(status):
    if status == -signal.SIGALRM:
        return "the C code did not come to an end within %d s" % worker.LIMIT
    if status < 0:
        return "the process died of signal %s" % signal.Signals(-status).name
    return "the process ended with exit code %d" % status


# ---------------------------------------------------------------- the check

_SEVERITY = ("ReferenceUnderflow", "AddressError", "Crash", "UndefinedBehaviour")


def check_sanitizer(context):
    """The C code does nothing that the address and undefined-behaviour sanitizers object to, and writes every element of its outputs.

    Parameters
    ----------
    context : Context

    Returns
    -------
    Verdict
    """
    if not context.target.has_c:
        return context.skipped("no C code")
    reason = unavailable()
    if reason:
        return context.skipped(reason)
    programs, reason = {}, ""
    for built in context.target.built:
        try:
            programs[built.index] = worker.program_of(built.node)
        except Exception as failure:  # no C code for these types; or params that cannot be sent
            reason = reason or one_line(failure)
    if not programs:
        return context.skipped("no C code for these types (%s)" % reason)
    # What is built by something else than the C compiler, for devices, is not for its sanitizers.
    if all(program.native is not None and not _compiled(program.native) for program in programs.values()):
        return context.skipped("ships compiled; make sanitize covers it")
    try:
        process = Worker()
    except WorkerDied as failure:
        return context.skipped(
            "no process with sanitizers could be started: %s"
            % (str(failure).strip().split("\n")[-1] or "it said nothing")
        )
    with process:
        stages = generate.stages(context.target, context.max_examples)
        if context.target.varies("length"):  # first of all with lengths that shrink
            stages.insert(0, generate.Stage(context.target.base, 5, lengths=("tied",)))
        return context.find(_Attempt(context, process, programs), stages)


def _compiled(code):
    """Whether native code has kernels of C."""
    return any(isinstance(kernel, Kernel) for kernel in code.kernels)


class _Attempt:
    """Tries examples in the worker."""

    def __init__(self, context, process, programs):
        self.context, self.process, self.programs = context, process, programs
        self.ready = {}  # index of the signature -> whether its program can be run
        self.faults = 0

    def __call__(self, example):
        built = example.built
        node = built.node
        program = self.programs.get(built.index)
        if program is None or self.faults > MOST_FAULTS or not self._load(built, program):
            raise Reject()
        values = self._values(example)
        cells = {v: v.data for v in node.inputs if isinstance(v, Constant)}
        for variable, value in zip(built.variables, values):
            try:
                cells[variable] = variable.type.filter(value)
            except Exception:
                raise Reject() from None  # no value of this type
        inputs = [cells[v] for v in (node.inputs if program.native is not None else dict.fromkeys(node.inputs))]
        try:
            record, found = self.process.run(built.index, inputs)
        except WorkerDied as failure:
            self.restart()
            raise Problem(
                "Crash", "the process that runs the C code died", str(failure)[-4000:], self.location
            ) from None
        if found:
            self.faults += 1
            self._report(_worst(found), built, program)
        if record["uninitialized"]:
            i, count, where, one, other = record["uninitialized"][0]
            index = "".join("[%d]" % n for n in where)
            raise Problem(
                "UninitializedOutput",
                "output %d depends on what memory held before: %s%s"
                % (i, "element %s" % index if index else "it", " and %d more" % (count - 1) if count > 1 else ""),
                "output %d%s is %s where fresh memory is filled with bytes 0x%X (and local variables with a pattern), and %s where it is "
                "filled with 0x%X (and local variables with zero)"
                % (i, index, one, worker.FILLS[0], other, worker.FILLS[1]),
                self.location,
            )

    @property
    def location(self):
        return self.context.target.location("c_code")

    def _values(self, example):
        """The values of the node's variables, unless they ask for too much memory, or are no good together."""
        try:
            if self.context.target.has_perform:
                run_or_error(self.context, "py", example, plain=True)  # what perform refuses, C code has to survive
            elif not good_together(self.context.case.tied, example.values):
                raise Reject()
            return example.node_values()
        except Reject:
            raise
        except Exception:
            raise Reject() from None

    def _load(self, built, program):
        if built.index not in self.ready:
            try:
                self.process.load(built.index, program)
                self.ready[built.index] = True
            except ValueError:  # it does not compile: the check c_code says so
                self.ready[built.index] = False
            except WorkerDied as failure:
                self.ready[built.index] = False
                self.restart()
                found = faults.read_faults(faults.symbolized(str(failure), self.process.directory)) or [
                    faults.Fault("Crash", "the process died", (), (), str(failure)[-4000:])
                ]
                self._report(_worst(found), built, program)
        return self.ready[built.index]

    def restart(self):
        """Put another process in the place of one that died."""
        self.process.close()
        self.process.__init__()
        for index, fine in self.ready.items():
            if fine:
                self.process.load(index, self.programs[index])

    def _report(self, fault, built, program):
        frames = fault.frames
        if (
            fault.error == "ReferenceUnderflow"
        ):  # the reference that was given back too often, not the one that missed it
            frames = fault.freed
        params_type = getattr(built.op, "params_type", None)
        owners = [built.op] + [v.type for v in built.node.inputs + built.node.outputs] + [params_type]
        words, location = faults.place(frames, program.source, owners)
        what = "an object is freed that is still in use" if fault.error == "ReferenceUnderflow" else fault.what
        evidence = faults.shortened(fault.text)
        if fault.call:
            evidence += "\nin the call %s" % fault.call
        raise Problem(fault.error, "%s: %s" % (words, what) if words else what, evidence, location or self.location)


def _worst(found):
    return min(found, key=lambda fault: _SEVERITY.index(fault.error))
