"""The check that builds an Op's C code with -fsanitize=address,undefined and runs it in a separate process."""

import os
import pickle
import signal
import subprocess
import sys
import threading

from theano_ng.audit import faults, generate, worker
from theano_ng.audit.problems import Problem, Reject, one_line
from theano_ng.audit.running import good_together, run_or_error
from theano_ng.configdefaults import config
from theano_ng.gof.compiler import trust
from theano_ng.gof.native import Kernel

#: -O1 gives exact stack traces and fast builds. With gcc 12 and later, `Worker` adds a flag that fills uninitialized
#: local variables with a pattern.
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

#: Time limit in seconds for one answer, which may include two compilations.
LIMIT = 120

#: Number of failed examples after which no further examples are tried. Each failure ends a process that has to be
#: replaced, and most failures of one Op have the same cause.
MAX_FAULTS = 40


def unavailable():
    """Return the reason why the sanitizers cannot be used, or "" if they can."""
    from theano_ng.gof.compiler.toolchain import find_toolchain

    if not sys.platform.startswith("linux"):
        return "sanitizers are used on Linux only"
    toolchain = find_toolchain()
    if toolchain is None:
        return "no C++ compiler (config.cxx is %r)" % config.cxx
    if toolchain.is_llvm():
        return "sanitizers are used with gcc only, config.cxx is %r" % config.cxx
    missing = [name for name, path in zip(RUNTIMES, _runtimes(toolchain)) if path is None]
    return "gcc is installed without %s (on Debian: libgcc-dev)" % " and ".join(missing) if missing else ""


def _runtimes(toolchain):
    """Return the paths of the libraries to preload, with None for a library that the compiler lacks.

    libstdc++ is preloaded, because C++ exceptions need it.
    """
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
    """The exception for a worker process that ended, or that did not answer in time.

    Parameters
    ----------
    text : str
        The output of the process on stderr.
    """


class Worker:
    """The process that runs programs under sanitizers; see `worker`.

    Parameters
    ----------
    limit : float
        Time limit in seconds for one answer.

    Raises
    ------
    WorkerDied
        If the process cannot be started.
    """

    def __init__(self, limit=LIMIT):
        import tempfile

        from theano_ng.gof.compiler.compiledir import SANITIZED
        from theano_ng.gof.compiler.toolchain import find_toolchain

        self.limit = limit
        self.directory = os.path.join(trust.directory(config.compiledir), SANITIZED)
        trust.make_directory(self.directory)
        self.log = tempfile.TemporaryFile()  # noqa: SIM115, kept open for all runs
        environment = dict(os.environ)
        root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        flags = "%s %s" % (config.gcc.cxxflags, FLAGS)
        toolchain = find_toolchain()
        if int(toolchain.version().split(".")[0] or 0) >= 12:
            flags += " " + worker.INITIALIZED[0]
        symbolize = (
            0 if faults.addr2line() else 1
        )  # 1: the sanitizer names functions itself. This is slow, because it reads all debug information of Python
        environment.update(
            LD_PRELOAD=" ".join(path for path in _runtimes(toolchain) if path is not None),
            PYTHONMALLOC="malloc",
            PYTHONPATH=os.pathsep.join(
                [root] + [path for path in environment.get("PYTHONPATH", "").split(os.pathsep) if path]
            ),
            ASAN_OPTIONS=_options(ADDRESS_OPTIONS, symbolize),
            UBSAN_OPTIONS=_options(UNDEFINED_OPTIONS, symbolize),
            OPENBLAS_NUM_THREADS="1",
            # nocleanup keeps the source code of kernels, for reports.
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
        except OSError:  # the process is dead; `_receive` raises WorkerDied with its output
            pass
        return self._receive()

    def load(self, key, program):
        """Compile and load a program in the worker.

        Parameters
        ----------
        key : object
            Key of the program in later requests.
        program : worker.Program

        Returns
        -------
        bool
            True if any part of the program was compiled with the sanitizers.

        Raises
        ------
        ValueError
            If the program does not compile or load. The message is the reason.
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
            One value per input of the program.

        Returns
        -------
        (dict or None, list of Fault)
            The record of `worker.run_example`, or None if the process died, and the faults that the sanitizers
            reported.

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
        return "the C code did not finish within %d s" % worker.EXAMPLE_TIMEOUT
    if status < 0:
        return "signal %s ended the process" % signal.Signals(-status).name
    return "the process ended with exit code %d" % status


# ---------------------------------------------------------------- the check

_SEVERITY = ("ReferenceUnderflow", "AddressError", "Crash", "UndefinedBehaviour")


def check_sanitizer(context):
    """Check C code with the address and undefined-behavior sanitizers, and check that it writes all elements of its
    outputs.

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
        except Exception as failure:  # no C code for these types, or params that cannot be pickled
            reason = reason or one_line(failure)
    if not programs:
        return context.skipped("no C code for these types (%s)" % reason)
    # The sanitizers instrument only code of the C compiler, not device code of other compilers.
    if all(program.native is not None and not _compiled(program.native) for program in programs.values()):
        return context.skipped("the C code ships compiled with the package; `make sanitize` checks it")
    try:
        process = Worker()
    except WorkerDied as failure:
        return context.skipped(
            "no process with sanitizers could be started: %s"
            % (str(failure).strip().split("\n")[-1] or "it printed nothing")
        )
    with process:
        stages = generate.stages(context.target, context.max_examples)
        if context.target.varies("length"):  # begin with examples whose lengths Hypothesis can shrink
            stages.insert(0, generate.Stage(context.target.base, 5, lengths=("tied",)))
        return context.find(_Attempt(context, process, programs), stages)


def _compiled(code):
    """Return True if native code has kernels in C."""
    return any(isinstance(kernel, Kernel) for kernel in code.kernels)


class _Attempt:
    """The function that tries an example in the worker."""

    def __init__(self, context, process, programs):
        self.context, self.process, self.programs = context, process, programs
        self.ready = {}  # index of a `Built` -> True if its program can be run
        self.faults = 0

    def __call__(self, example):
        built = example.built
        program = self.programs.get(built.index)
        if program is None or self.faults > MAX_FAULTS or not self._load(built, program):
            raise Reject()
        values = self._values(example)
        try:
            inputs = worker.input_values(program, example, values)
        except Exception:
            raise Reject() from None  # not a value of its type
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
                "output %d depends on the previous content of memory: %s%s"
                % (i, "element %s" % index if index else "it", " and %d more" % (count - 1) if count > 1 else ""),
                "output %d%s is %s if fresh memory is filled with bytes 0x%X (and local variables with a pattern), "
                "and %s if it is filled with 0x%X (and local variables with zero)"
                % (i, index, one, worker.FILLS[0], other, worker.FILLS[1]),
                self.location,
            )

    @property
    def location(self):
        return self.context.target.location("c_code")

    def _values(self, example):
        """Return the values of the node's variables. Reject values that need too much memory or that `tied` refuses."""
        try:
            if self.context.target.has_perform:
                # Reject values that need too much memory, but not values that `perform` refuses: C code must not access
                # invalid memory for such values either.
                run_or_error(self.context, "py", example, plain=True)
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
            except ValueError:  # the code does not compile, which the check c_code reports
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
        """Replace a process that died by a new process, and load the programs again."""
        self.process.close()
        self.process.__init__()
        for index, fine in self.ready.items():
            if fine:
                self.process.load(index, self.programs[index])

    def _report(self, fault, built, program):
        frames = fault.frames
        if fault.error == "ReferenceUnderflow":  # report the code that freed the object, not the later access
            frames = fault.freed
        params_type = getattr(built.op, "params_type", None)
        owners = [built.op] + [v.type for v in built.node.inputs + built.node.outputs] + [params_type]
        words, location = faults.user_location(frames, program.source, owners)
        what = "an object is freed that is still in use" if fault.error == "ReferenceUnderflow" else fault.what
        evidence = faults.shortened(fault.text)
        if fault.call:
            evidence += "\nin the call %s" % fault.call
        raise Problem(fault.error, "%s: %s" % (words, what) if words else what, evidence, location or self.location)


def _worst(found):
    return min(found, key=lambda fault: _SEVERITY.index(fault.error))
