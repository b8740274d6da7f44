"""Compilation of kernels in the background, while functions already run on an interpreter.

`Background.request` starts a separate process (`compile_job`), which finishes its work even if this process ends first.
A thread of this process waits until `compile_job` has published kernels in the cache. Until then, an interpreter runs
a program in place of each kernel. The thread then installs each kernel (`StandIn.install`): it writes the address of
the kernel into the first word of the program. At each call, the interpreter reads this word. If the word is not 0, the
interpreter calls the kernel. Nothing else changes.
"""

import _thread
import os
import sys
import time

from theano_ng.configdefaults import config
from theano_ng.digests import blake2b
from theano_ng.gof._lock import Lock
from theano_ng.gof.compiler import trust
from theano_ng.gof.compiler.kernelcache import LoadedKernel, get_kernel_cache, unit_command, unit_source, units
from theano_ng.gof.compiler.standin import WrongKernel, stand_in
from theano_ng.gof.compiler.toolchain import CompileError, require_toolchain, spawn_environment, warn_once
from theano_ng.gof.deferred import run_later

# True if a process can be started for the compiler. This is impossible on some systems, and in some programs that embed
# Python.
AVAILABLE = hasattr(os, "posix_spawn") and bool(sys.executable)

_ATTEMPTS = 2  # the maximum number of starts of a job: a compiler that was killed is started again once
_TIMEOUT = 120.0  # seconds after which a compiler that is not a child of this process counts as ended
_SOURCE, _OUTPUT = "SOURCE", "OUTPUT"  # placeholders in commands, until the files have names


class Job:
    """Kernels that one process compiles.

    A job uses the compiler flags that were set when the job was created, because the kernels' keys depend on the flags.

    Parameters
    ----------
    cache : KernelCache
    kernels : dict
        Key -> Kernel, of one unit.

    Attributes
    ----------
    path : str
        The path of the file with the instructions for the process.
    pid : int or None
        The id of the process. It is None after a fork, because the process is then not a child of this process.
    attempt : int
        1, or 2 if the process is started again because the first process was killed.
    """

    def __init__(self, cache, kernels):
        self.cache, self.kernels, self.attempt = cache, kernels, 1
        self.toolchain = require_toolchain()
        self._template = unit_command(next(iter(kernels.values())), self.toolchain, _SOURCE, _OUTPUT)
        self.path = self.pid = self.command = self.started = None

    def part(self, key):
        """Return a job that compiles only one of the kernels."""
        job = Job.__new__(Job)
        job.__dict__.update(self.__dict__, kernels={key: self.kernels[key]}, attempt=1)
        return job

    def start(self):
        """Start the compiler.

        Raises
        ------
        OSError
            If the directory cannot be written, or if no process can be started.
        """
        import json

        directory = self.cache.directory
        trust.make_directory(directory)
        self.toolchain.load_flags(directory)
        stem = os.path.join(directory, "tmp-%d-%s" % (os.getpid(), os.urandom(6).hex()))
        language = next(iter(self.kernels.values())).language
        names = {_SOURCE: stem + (".cpp" if language == "c++" else ".c"), _OUTPUT: stem + ".so"}
        self.command = [names.get(word, word) for word in self._template if word not in self.toolchain.dropped]
        self.path = stem + ".json"
        job = dict(
            directory=directory,
            stem=stem,
            source=names[_SOURCE],
            output=names[_OUTPUT],
            lock=os.path.join(directory, "lock-" + blake2b("".join(self.kernels).encode(), 12).hexdigest()),
            keys=list(self.kernels),
            command=self.command,
            digest_size=blake2b().digest_size,
        )
        try:
            with open(names[_SOURCE], "w", encoding="utf-8") as file:
                file.write(unit_source(self.kernels, self.toolchain))
            with open(self.path, "w") as file:
                json.dump(job, file)
            self.pid = self._spawn()
        except BaseException:
            self._remove_files()
            raise
        self.started = time.monotonic()

    def _spawn(self):
        """Start the process that compiles, without input and output. Return its id."""
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "compile_job.py")
        devnull = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (0, 1, 2)]
        return os.posix_spawn(
            sys.executable,
            [sys.executable, "-I", "-S", script, self.path],
            spawn_environment(),
            file_actions=devnull,
            setsid=True,
        )

    def ended(self):
        """Return True if the process has ended.

        A forked child cannot wait for a process that its parent started. In this case, return True if `_TIMEOUT`
        seconds have passed since the fork.
        """
        if self.pid is None:
            return time.monotonic() - self.started > _TIMEOUT
        try:
            return os.waitpid(self.pid, os.WNOHANG)[0] != 0
        except ChildProcessError:  # other code has reaped the child, which deletes the file `path` before it ends
            return not os.path.exists(self.path)

    def clean(self):
        """Remove the files of this job that a killed process left behind. A forked child leaves them to the parent."""
        if self.pid is not None:
            self._remove_files()

    def _remove_files(self):
        stem = self.path[: -len(".json")]
        for suffix in (".json", ".c", ".cpp", ".so", ".txt"):
            try:
                os.unlink(stem + suffix)
            except OSError:
                pass

    def has_unknown_flags(self):
        """Return True if the compiler failed because it refuses flags of the command.

        The next start leaves out these flags.
        """
        found = self.toolchain.probe(self.cache.directory)
        return found or not set(self.command).isdisjoint(self.toolchain.dropped)

    def failure(self):
        """Return the CompileError that the process left behind. Return None if the process was killed."""
        import json

        try:
            with open(self.path + ".failed") as file:
                said = json.load(file)
            os.unlink(self.path + ".failed")
        except (OSError, ValueError):
            return None
        return CompileError(self.command, said["status"], said["output"], unit_source(self.kernels, self.toolchain))


class Background:
    """The kernels that are compiled in the background for this process.

    Attributes
    ----------
    stand_ins : dict
        Key of a kernel -> the set of `StandIn` s that the kernel will replace.
    """

    def __init__(self):
        self.stand_ins = {}
        self._queue = []  # jobs that have not been started yet
        self._jobs = []
        self._watched = False
        self._lock = Lock()  # implemented in C: it is released even if a signal handler raises an exception

    def request(self, kernels):
        """Start to compile kernels. Each kernel replaces its programs as soon as it is compiled.

        Parameters
        ----------
        kernels : dict
            Key -> (Kernel, StandIn).
        """
        with self._lock:
            todo = {key: kernel for key, (kernel, _) in kernels.items() if key not in self.stand_ins}
            jobs = [Job(get_kernel_cache(), group) for group in units(todo)]
            # A signal handler may raise an exception between any two lines. Because jobs are queued first,
            # each key of `stand_ins` has a job, and each job is started.
            if jobs:
                self._queue += jobs
                run_later(self._begin)
            for key, (_, standing_in) in kernels.items():
                self.stand_ins.setdefault(key, set()).add(standing_in)
            for job in jobs:
                if self._install_if_cached(job):
                    self._queue.remove(job)

    def wait(self, timeout=None):
        """Wait until no kernel is being compiled, and all compiled kernels are in use.

        Parameters
        ----------
        timeout : float, optional
            The maximum time in seconds.

        Returns
        -------
        bool
            False if kernels are still being compiled after that time.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        pause = 0.001
        self._begin()  # the call that `request` scheduled may not have run yet, or may have run out of memory
        while self._is_busy():
            if deadline is not None and time.monotonic() > deadline:
                return False
            time.sleep(pause)
            pause = min(1.5 * pause, 0.02)
        return True

    def _is_busy(self):
        with self._lock:
            return bool(self._jobs or self._queue)

    def _begin(self):
        """Start the processes of queued jobs, and the thread that waits for them.

        `run_later` calls this method after a function has returned its first result. `wait` calls it at once.
        """
        with self._lock:
            self._start()
            self._start_watcher()

    def _start(self):
        """Start queued jobs, if there are processors for them."""
        while self._queue and len(self._jobs) < (os.cpu_count() or 1):
            job = self._queue.pop(0)
            try:
                self._launch(job)
            except Exception as error:
                self._give_up(job, error)

    def _install_if_cached(self, job):
        return all([job.cache.address(key) for key in job.kernels]) and self._install_all(job)

    def _launch(self, job):
        if self._install_if_cached(job):
            return
        try:
            try:
                job.start()
            except OSError as error:
                if job.cache.directory != job.cache.shared:
                    raise
                job.cache.give_up(error)
                if run_later.ending:
                    return
                job.start()
        except OSError as error:
            self._give_up(job, error)
            return
        self._jobs.append(job)

    def _start_watcher(self):
        if self._jobs and not self._watched:
            self._watched = True
            try:
                _thread.start_new_thread(self._watch, ())
            except BaseException as failure:
                self._watched = False
                if not isinstance(failure, RuntimeError):  # RuntimeError: Python is shutting down
                    raise

    def _watch(self):
        pause = 0.002
        while pause is not None:
            time.sleep(pause)
            try:
                pause = self._poll(pause)
            except MemoryError:  # poll again after a pause: there may be more memory then
                pass

    def _poll(self, pause):
        """Install kernels that have been compiled.

        Return the seconds until the next poll, or None if no job is left.
        """
        with self._lock:
            done = [job for job in list(self._jobs) if self._is_over(job)]
            for job in done:
                self._jobs.remove(job)  # removes only the first entry: `_is_over` may have appended the job again
            if done or not self._jobs:  # if memory ran out in `_start`, jobs may be queued although none runs
                self._start()
            if not self._jobs and not self._queue:
                self._watched = False
                return None
        return 0.002 if done else min(1.2 * pause, 0.05)

    def _is_over(self, job):
        """Return True if a job has finished or failed.

        After an unexpected exception, give up this job only, so that the other jobs are still handled.
        """
        try:
            return self._finished(job)
        except Exception as error:
            self._give_up(job, error)
            return True

    def _finished(self, job):
        """Install the compiled kernels of a job. Return True if the caller need not wait for this job any longer."""
        swapped = self._install_all(job)
        if not (job.ended() or swapped and job.pid is None):
            return False
        swapped = swapped or self._install_all(job)
        if swapped:
            job.clean()
            return True
        failure = job.failure()
        job.clean()
        if failure is None and job.attempt < _ATTEMPTS:
            job.attempt += 1
            self._launch(job)
        elif failure is not None and job.has_unknown_flags():
            self._launch(job)
        elif failure is not None and len(job.kernels) > 1:
            # Compile each kernel alone, to find the faulty ones.
            for key in job.kernels:
                self._launch(job.part(key))
        else:
            self._give_up(job, failure or "a signal ended the compiler")
        return True

    def _install_all(self, job):
        """Replace programs by those kernels of a job that are in the cache.

        Return True if all kernels of the job are installed.
        """
        for key in job.kernels:
            address = job.cache.address(key) if key in self.stand_ins else 0
            if address:
                for standing_in in self.stand_ins.pop(key):
                    self._install(standing_in, address)
        return not any(key in self.stand_ins for key in job.kernels)

    @staticmethod
    def _install(standing_in, address):
        try:
            standing_in.install(address)
        except WrongKernel as error:
            warn_once(("wrong kernel", standing_in.digest), str(error))

    def _give_up(self, job, reason):
        for key in job.kernels:
            self.stand_ins.pop(key, None)
        warn_once(
            ("background", str(reason)),
            "%d kernels could not be compiled, and their functions remain interpreted: %s" % (len(job.kernels), reason),
        )

    def after_fork(self):
        """Reset the state in a child: the compiler processes belong to the parent, and the child has no thread."""
        self._lock = Lock()
        self._watched = False
        for job in self._jobs:
            job.pid, job.started = None, time.monotonic()
        with self._lock:
            self._start_watcher()
        if self._queue:
            run_later(self._begin)


_background = Background()
wait_for_kernels = _background.wait
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_background.after_fork)


def obtain(kernels):
    """Return the code that can run now: compiled kernels, and programs for kernels that are not compiled yet.

    Parameters
    ----------
    kernels : sequence of Kernel

    Returns
    -------
    list of LoadedKernel or None
        None for a kernel that is not compiled and has no program.
    """
    cache, wanted, found = get_kernel_cache(), {}, []
    for kernel in kernels:
        key = cache.key(kernel)
        address = 0 if config.tiered == "on" and kernel.interpreter else cache.address(key)
        interpretation = None if address else kernel.interpretation()
        if interpretation:
            standing_in = stand_in(interpretation, key)
            try:
                found.append(standing_in.loaded_for(key))
                wanted[key] = (kernel, standing_in)
                continue
            except WrongKernel as error:
                warn_once(("wrong kernel", key), str(error))
        found.append(LoadedKernel(address) if address else None)
    if wanted:
        _background.request(wanted)
    return found
