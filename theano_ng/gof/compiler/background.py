"""Kernels that are compiled while functions run already, on an interpreter.

`Background.want` starts a process of its own for them (`compile_later`), which ends its work even if this one ends first. A thread waits for what
it publishes in the cache, and puts the address of each kernel into the first word of the programs that stand in for it; the interpreter
looks there when it is called. That word is all that changes.
"""

import _thread
import os
import sys
import threading
import time

from theano_ng.configdefaults import config
from theano_ng.digests import blake2b
from theano_ng.gof import _native
from theano_ng.gof.compiler import trust
from theano_ng.gof.compiler.kernelcache import get_kernel_cache, unit_command, unit_source
from theano_ng.gof.compiler.toolchain import CompileError, require_toolchain, spawn_environment, warn_once

_ATTEMPTS = 2  # a compiler that was killed is started once more
_PATIENCE = 120.0  # seconds after which what another process compiles is given up


class Job:
    """Kernels that one process compiles.

    Attributes
    ----------
    cache : KernelCache
    kernels : dict
        Key -> Kernel.
    path : str
        Of the file that tells the process what to do.
    pid : int or None
        None after a fork: it is somebody else's child.
    attempt : int
    """

    def __init__(self, cache, kernels, attempt=1):
        self.cache, self.kernels, self.attempt = cache, kernels, attempt
        self.path = self.pid = None
        self.started = time.monotonic()

    def start(self):
        """Start the compiler.

        Raises
        ------
        OSError
            When the directory cannot be written, or no process be started.
        """
        import json

        toolchain, directory = require_toolchain(), self.cache.directory
        trust.make_directory(directory)
        toolchain.recall(directory)
        stem = os.path.join(directory, "tmp-%d-%s" % (os.getpid(), os.urandom(6).hex()))
        first = next(iter(self.kernels.values()))
        source, output = stem + (".cpp" if first.language == "c++" else ".c"), stem + ".so"
        with open(source, "w", encoding="utf-8") as file:
            file.write(unit_source(self.kernels, toolchain))
        job = dict(
            directory=directory,
            stem=stem,
            source=source,
            output=output,
            lock=os.path.join(directory, "lock-" + blake2b("".join(self.kernels).encode(), 12).hexdigest()),
            keys=list(self.kernels),
            command=unit_command(first, toolchain, source, output),
            digest_size=blake2b().digest_size,
        )
        self.path = stem + ".json"
        with open(self.path, "w") as file:
            json.dump(job, file)
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "compile_later.py")
        devnull = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (0, 1, 2)]
        self.pid = os.posix_spawn(
            sys.executable,
            [sys.executable, "-I", "-S", script, self.path],
            spawn_environment(),
            file_actions=devnull,
            setsid=True,
        )

    def ended(self):
        """Whether the process has ended, or another one's should have."""
        if self.pid is None:
            return time.monotonic() - self.started > _PATIENCE
        try:
            return os.waitpid(self.pid, os.WNOHANG)[0] != 0
        except ChildProcessError:  # the host program reaps children itself
            return not os.path.exists(self.path)

    def clean(self):
        """Remove what a process that was killed has left."""
        if self.pid is None:
            return
        stem = self.path[: -len(".json")]
        for suffix in (".json", ".c", ".cpp", ".so", ".txt"):
            try:
                os.unlink(stem + suffix)
            except OSError:
                pass

    def failure(self):
        """The CompileError that the process left behind; None when it was killed."""
        import json

        try:
            with open(self.path + ".failed") as file:
                said = json.load(file)
            os.unlink(self.path + ".failed")
        except (OSError, ValueError):
            return None
        toolchain = require_toolchain()
        command = unit_command(next(iter(self.kernels.values())), toolchain, "", "")
        return CompileError(command, said["status"], said["output"], unit_source(self.kernels, toolchain))


class Background:
    """What is compiled in the background for this process.

    Attributes
    ----------
    programs : dict
        Key of a kernel -> addresses of the programs that stand in for it.
    """

    def __init__(self):
        self.programs = {}
        self._queue = {}  # key -> (cache, kernel), not started yet
        self._jobs = []
        self._watched = False
        self._changed = threading.Condition()

    def want(self, kernels):
        """Have kernels compiled, and used in place of programs as soon as they are.

        Parameters
        ----------
        kernels : dict
            Key -> (Kernel, address of a program).
        """
        with self._changed:
            cache, todo = get_kernel_cache(), {}
            for key, (kernel, program) in kernels.items():
                known = key in self.programs
                self.programs.setdefault(key, set()).add(program)
                if not known:
                    todo[key] = (cache, kernel)
            self._queue.update(todo)
            self._start()
            self._have_watched()

    def wait(self, timeout=None):
        """Wait until nothing is being compiled.

        Parameters
        ----------
        timeout : float, optional
            Seconds.

        Returns
        -------
        bool
            Whether that is so.
        """
        with self._changed:
            return self._changed.wait_for(lambda: not (self._jobs or self._queue), timeout)

    def _start(self):
        """Start what is queued, if there are processors for it: kernels of one kind together."""
        while self._queue and len(self._jobs) < (os.cpu_count() or 1):
            groups = {}
            for key, (cache, kernel) in self._queue.items():
                groups.setdefault((id(cache), kernel[2:3] + kernel[3:4] + kernel[5:7]), {})[key] = (cache, kernel)
            group = next(iter(groups.values()))
            for key in group:
                del self._queue[key]
            cache = next(iter(group.values()))[0]
            self._launch(Job(cache, {key: kernel for key, (_, kernel) in group.items()}))

    def _launch(self, job):
        if all(job.cache.address(key) for key in job.kernels):
            self._swap(job)
            return
        try:
            try:
                job.start()
            except OSError as error:
                if job.cache.directory != job.cache.shared:
                    raise
                job.cache.give_up(error)
                job.start()
        except OSError as error:
            self._give_up(job, error)
            return
        self._jobs.append(job)

    def _have_watched(self):
        if self._jobs and not self._watched:
            self._watched = True
            # threading.Thread would wait until it has begun, which takes longer than starting the compiler where processors are few.
            _thread.start_new_thread(self._watch, ())

    def _watch(self):
        pause = 0.002
        while True:
            time.sleep(pause)
            with self._changed:
                done = [job for job in self._jobs if self._finished(job)]
                if done:
                    self._jobs = [job for job in self._jobs if job not in done]
                    self._start()
                    pause = 0.002
                if not self._jobs and not self._queue:
                    self._watched = False
                    self._changed.notify_all()
                    return
            pause = min(1.2 * pause, 0.05)

    def _finished(self, job):
        """Whether nothing is left to wait for; what is there is put to use."""
        swapped = self._swap(job)
        if not (job.ended() or swapped and job.pid is None):
            return False
        swapped = swapped or self._swap(job)
        if swapped:
            job.clean()
            return True
        failure = job.failure()
        job.clean()
        if failure is None and job.attempt < _ATTEMPTS:
            self._launch(Job(job.cache, job.kernels, job.attempt + 1))
        elif failure is not None and len(job.kernels) > 1:
            # Alone, each tells whether it is at fault.
            for key, kernel in job.kernels.items():
                self._launch(Job(job.cache, {key: kernel}))
        else:
            self._give_up(job, failure or "the compiler was killed")
        return True

    def _swap(self, job):
        """Put the kernels that are in the cache in the place of programs. Returns whether all are."""
        for key in job.kernels:
            programs = self.programs.get(key)
            address = job.cache.address(key) if programs else 0
            if address:
                for program in self.programs.pop(key):
                    _native.store_word(program, address)
        return not any(key in self.programs for key in job.kernels)

    def _give_up(self, job, reason):
        for key in job.kernels:
            self.programs.pop(key, None)
        warn_once(
            ("background", str(reason)),
            "%d kernels could not be compiled, and functions go on without them, interpreted: %s"
            % (len(job.kernels), reason),
        )

    def after_fork(self):
        """In a child: the processes are somebody else's children, and the thread did not come along."""
        self._changed = threading.Condition()
        self._watched = False
        for job in self._jobs:
            job.pid, job.started = None, time.monotonic()
        self._have_watched()


_background = Background()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_background.after_fork)


def obtain(kernels):
    """What runs in place of kernels, at once: what is compiled, and programs for what is not.

    Parameters
    ----------
    kernels : sequence of Kernel

    Returns
    -------
    list of LoadedKernel or None
        None for a kernel that is not there and cannot be interpreted.
    """
    cache, wanted, found = get_kernel_cache(), {}, []
    for kernel in kernels:
        key = cache.key(kernel)
        address = 0 if config.tiered == "on" and kernel.interpreted else cache.address(key)
        loaded = address or (kernel.interpreted and kernel.interpreted())
        if loaded and not address:
            wanted[key] = (kernel, loaded.program)
        found.append(loaded or None)
    if wanted:
        _background.want(wanted)
    return found


def wait_for_kernels(timeout=None):
    """Wait until all that is compiled in the background is in use.

    Parameters
    ----------
    timeout : float, optional
        Seconds.

    Returns
    -------
    bool
        False where something is still being compiled after that time.
    """
    return _background.wait(timeout)
