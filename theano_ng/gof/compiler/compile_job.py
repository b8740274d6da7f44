"""A program that compiles a unit of kernels and publishes it in the cache, even if the process that started it ends.

The command line is ``python compile_job.py JOB``, where JOB is a JSON file that `background` wrote. The program
imports no module of the package, because this would take more time: the start of Python alone already takes half of the
program's time. It publishes the same files as `kernelcache`. If it fails, it writes the file JOB.failed.
"""

import json
import os
import sys
from _blake2 import blake2b

try:
    import fcntl
except ImportError:
    fcntl = None


def run(command, output):
    """Run a command whose output goes to the file `output`. Return its exit status."""
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600),
        (os.POSIX_SPAWN_DUP2, 1, 2),
    ]
    try:
        pid = os.posix_spawn(command[0], command, os.environ, file_actions=actions)
    except OSError as error:
        with open(output, "w") as file:
            file.write(str(error))
        return 127
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def unlink(*paths):
    for path in paths:
        try:
            os.unlink(path)
        except OSError:
            pass


def publish(job):
    """Give the compiled unit and the links to it their final names."""
    directory, built = job["directory"], job["output"]
    with open(built, "rb") as file:
        unit = "u%s.so" % blake2b(file.read(), digest_size=job["digest_size"]).hexdigest()
    os.chmod(built, 0o700)
    os.replace(built, os.path.join(directory, unit))
    for key in job["keys"]:
        temporary = "%s-%s" % (job["stem"], key)
        try:
            os.symlink(unit, temporary)
        except (OSError, NotImplementedError):
            with open(temporary, "w") as file:
                file.write(unit)
            os.chmod(temporary, 0o600)
        os.replace(temporary, os.path.join(directory, "k" + key))


def compiled_meanwhile(job, since):
    """Return True if the links of all kernels were made after `since` (in ns).

    An older link does not count: the requesting process has already found that it cannot use the unit of this link.
    """
    try:
        return all(os.lstat(os.path.join(job["directory"], "k" + key)).st_mtime_ns >= since for key in job["keys"])
    except OSError:
        return False


def main(path):
    with open(path) as file:
        job, since = json.load(file), os.fstat(file.fileno()).st_mtime_ns
    said, lock = job["stem"] + ".txt", None
    try:
        if fcntl is not None:
            # If another process is compiling this unit, wait until it releases the lock. The unit is then published,
            # unless its compilation failed.
            lock = os.open(job["lock"], os.O_RDWR | os.O_CREAT, 0o600)
            fcntl.flock(lock, fcntl.LOCK_EX)
        if compiled_meanwhile(job, since):
            return
        status = run(job["command"], said)
        if status == 0 and os.path.exists(job["output"]):
            publish(job)
            return
        with open(said, errors="replace") as file:
            failure = {"status": status, "output": file.read()}
        with open(said, "w") as file:
            json.dump(failure, file)
        os.replace(said, path + ".failed")
    finally:
        unlink(job["source"], job["output"], said, path)
        if lock is not None:
            unlink(job["lock"])
            os.close(lock)


if __name__ == "__main__":
    main(sys.argv[1])
