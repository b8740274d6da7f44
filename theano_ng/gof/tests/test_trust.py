"""Tests of trust: files and directories that other users own or can write are not loaded."""

import contextlib
import errno
import glob
import io
import os
import pickle
import shutil
import stat
import struct
import subprocess
import sys
import tempfile
import traceback
import unittest
import warnings
from unittest import mock

from theano_ng.gof import callcache
from theano_ng.gof import compiler as cmodule
from theano_ng.gof.compiler import cache_cli, kernelcache, trust
from theano_ng.gof.compiler import toolchain as compilers
from theano_ng.gof.tests import test_cmodule

STRANGER = 54321  # no user of any system has this id
OTHER = 54322

# Compile exp(x) + 1; print the compile directory, the number of compilations and the number of graph cache hits.
PROGRAM = """
import os, sys, warnings
warnings.simplefilter("always")
import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.gof.compiler import gxx
from theano_ng.gof.compiler import trust
from theano_ng.gof.compiler import toolchain as compilers
from theano_ng.gof.compiler import modulecache
from theano_ng.gof.compiler import kernelcache
from theano_ng.configdefaults import config
compiled = []
for module in (kernelcache, gxx):
    def run(command, source_path, *args, original=module.compile_file):
        compiled.append(os.path.basename(source_path))
        return original(command, source_path, *args)
    module.compile_file = run
from theano_ng.compile import graph_cache
hits = []
load = graph_cache.CachedGraph.load
graph_cache.CachedGraph.load = lambda self: hits.append(load(self)) or hits[-1]
x = T.dvector("x")
assert theano.function([x], T.exp(x) + 1)([0.0]) == [2.0]
print(trust.directory(config.compiledir), len(compiled), sum(hit is not None for hit in hits))
"""


class InDirectory(unittest.TestCase):
    """A test case with a directory that the current user owns. Warnings that earlier tests caused can occur again."""

    def setUp(self):
        self.base = os.path.realpath(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.base, ignore_errors=True)
        for name, value in (("_known", {}), ("_private", None)):
            patch = mock.patch.object(trust, name, value)
            patch.start()
            self.addCleanup(patch.stop)
        patch = mock.patch.object(compilers, "_warned", set())
        patch.start()
        self.addCleanup(patch.stop)
        self.cache = os.path.join(self.base, "user-cache")
        patch = mock.patch.object(trust, "user_cache_directory", lambda: self.cache)
        patch.start()
        self.addCleanup(patch.stop)

    def folder(self, *names, mode=0o700):
        path = os.path.join(self.base, *names)
        os.makedirs(path, exist_ok=True)
        os.chmod(path, mode)
        return path

    def file(self, *names, mode=0o600, content=b"content"):
        path = os.path.join(self.base, *names)
        with open(path, "wb") as stream:
            stream.write(content)
        os.chmod(path, mode)
        return path

    @contextlib.contextmanager
    def one_warning(self, *parts):
        with warnings.catch_warnings(record=True) as given:
            warnings.simplefilter("always")
            yield
        self.assertEqual(1, len(given), [str(w.message) for w in given])
        for part in parts:
            self.assertIn(part, str(given[0].message))

    def as_user(self, uid, function):
        """Run a function in a child process as another user."""
        sys.stdout.flush()
        child = os.fork()
        if not child:
            status = 1
            try:
                os.setgroups([])
                os.setgid(uid)
                os.setuid(uid)
                function()
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
        self.assertEqual(0, os.waitpid(child, 0)[1])


needs_permissions = unittest.skipUnless(trust.CHECKED, "this system keeps permissions elsewhere: nothing is checked")
needs_root = unittest.skipUnless(trust.CHECKED and os.geteuid() == 0, "only root can give files to other users")


@needs_permissions
class TestDirectories(InDirectory):
    def test_own(self):
        path = self.folder("cache", mode=0o755)
        self.assertEqual(path, trust.directory(path))
        missing = os.path.join(path, "a", "b")
        self.assertEqual(missing, trust.directory(missing))
        self.assertFalse(os.path.exists(os.path.dirname(missing)))
        previous = os.umask(0)
        try:
            self.assertEqual(missing, trust.make_directory(missing))
        finally:
            os.umask(previous)
        for made in (missing, os.path.dirname(missing)):
            self.assertEqual(0o700, stat.S_IMODE(os.stat(made).st_mode))
        self.assertEqual(0o755, stat.S_IMODE(os.stat(path).st_mode))  # unchanged

    def test_open_to_others(self):
        for mode in (0o777, 0o702, 0o1777):
            with self.subTest("%o" % mode), mock.patch.object(compilers, "_warned", set()):
                path = self.folder("cache", mode=mode)
                with self.one_warning(
                    path, "mode %04o" % mode, "uid %d" % os.geteuid(), "chmod go-w " + path, "base_compiledir"
                ):
                    other = trust.directory(path)
                    # The second call gives the same directory, without a warning.
                    self.assertEqual(other, trust.directory(path))
                self.assertTrue(other.startswith(os.path.join(self.cache, "theano_ng", "cache-")))
                for place in (other, self.cache):
                    self.assertEqual(0o700, stat.S_IMODE(os.stat(place).st_mode))
                with self.assertRaises(trust.Untrusted) as caught:
                    trust.make_directory(path)
                self.assertEqual(path, caught.exception.place)
                self.assertEqual([], os.listdir(path))
        os.chmod(path, 0o700)
        self.assertEqual(path, trust.directory(path))

    def test_found_out_later(self):
        path = self.folder("cache")
        self.assertEqual(path, trust.directory(path))
        os.chmod(path, 0o707)
        with self.one_warning(path):
            self.assertNotEqual(path, trust.directory(path))

    def test_above(self):
        path = self.folder("above", "cache")
        self.folder("above", mode=0o777)
        self.assertEqual(os.path.join(self.base, "above"), trust.first_problem(path)[0])
        self.folder("above", mode=0o1777)  # as /tmp
        self.assertIsNone(trust.first_problem(path))
        self.assertIsNone(trust.first_problem(os.path.join(self.base, "above", "not", "there")))
        self.assertEqual(os.path.join(self.base, "above"), trust.first_problem(os.path.join(self.base, "above"))[0])

    def test_links(self):
        path = self.folder("place", "cache")
        for name, target in (("absolute", path), ("relative", "place/../place/./cache"), ("chain", "relative")):
            link = os.path.join(self.base, name)
            os.symlink(target, link)
            self.folder("place")
            self.assertIsNone(trust.first_problem(link))
            self.assertEqual(os.path.join(link, "k"), trust.make_directory(os.path.join(link, "k")))
            self.folder("place", mode=0o777)  # directories above the target are checked too
            self.assertEqual(os.path.join(self.base, "place"), trust.first_problem(link)[0])
        os.symlink("round", os.path.join(self.base, "round"))
        self.assertIsNone(trust.first_problem(os.path.join(self.base, "round")))
        with self.assertRaises(OSError):
            trust.make_directory(os.path.join(self.base, "round", "cache"))
        # A link in a world-writable directory is not trusted, because other users can point it to any target.
        os.symlink(self.folder("good"), os.path.join(self.base, "place", "link"))
        self.assertEqual(
            os.path.join(self.base, "place"), trust.first_problem(os.path.join(self.base, "place", "link"))[0]
        )

    def test_groups(self):
        path = self.folder("cache", mode=0o770)
        own = os.stat(path)
        user, group = mock.Mock(pw_name="alice"), mock.Mock(gr_name="alice", gr_mem=[])
        fields = list(own)
        for gid, name, members, good in (
            (own.st_uid, "alice", [], True),
            (own.st_uid, "alice", ["alice"], True),
            (own.st_uid, "alice", ["bob"], False),
            (own.st_uid, "users", [], False),
            (own.st_uid + 1, "alice", [], False),
        ):
            fields[stat.ST_GID] = gid
            group.gr_name, group.gr_mem = name, members
            with mock.patch("grp.getgrgid", return_value=group), mock.patch("pwd.getpwuid", return_value=user):
                self.assertEqual(good, trust.problem(os.stat_result(fields), path) is None, (gid, name, members))
        fields[stat.ST_GID] = own.st_uid
        with mock.patch("grp.getgrgid", side_effect=KeyError):
            self.assertIn("group %d" % own.st_uid, trust.problem(os.stat_result(fields), path))

    def permit(self, path, *entries):
        """Set a file's access control list to entries (tag, permissions, id).

        Skip the test on systems without such lists.
        """
        data = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in sorted(entries))
        try:
            os.setxattr(path, "system.posix_acl_access", data)
        except (AttributeError, OSError) as failure:
            self.skipTest("no access control lists in %s: %s" % (self.base, failure))

    def test_access_control_lists(self):
        """The access control list of a file decides which other users may write to it.

        For such a file, the group bits of the mode are only the mask of the list.
        """
        nobody, none = 65534, 0xFFFFFFFF
        owner, group, others = (0x01, 7, none), (0x04, 5, none), (0x20, 0, none)
        own_group = mock.patch.object(trust, "_is_own_group", return_value=True)
        for named, mask, said in (
            ([(0x02, 7, nobody)], 7, "access control list: .*65534"),
            ([(0x08, 6, nobody)], 7, "access control list: group 65534"),
            ([(0x02, 5, nobody)], 7, None),  # the named user may only read
            ([(0x02, 7, nobody)], 5, None),  # the mask removes the permission
            ([(0x02, 7, os.geteuid())], 7, None),
        ):
            path = self.folder("cache")
            self.permit(path, owner, *named[:1], group, (0x10, mask, none), others)
            content = self.file("content")
            self.permit(content, owner, *named[:1], group, (0x10, mask, none), others)
            with self.subTest(named=named, mask=mask), own_group:
                found = trust.first_problem(path)
                if said is None:
                    self.assertIsNone(found)
                    trust.open_file(content).close()
                    continue
                self.assertRegex(found[1], "can be written by others .*" + said)
                with self.one_warning("is not used", "access control list", "setfacl -b"):
                    self.assertNotEqual(trust.directory(path), path)
                with self.one_warning("is not loaded"), self.assertRaises(trust.Untrusted):
                    trust.open_file(content)
                self.assertFalse(trust.is_trusted(content))
                self.assertIn((path, found[1]), trust.untrusted_content(self.base))
                os.removexattr(path, "system.posix_acl_access")
                os.chmod(path, 0o700)

    def test_a_list_that_comes_later(self):
        path = self.folder("cache", mode=0o770)
        entries = ((0x01, 7, 0xFFFFFFFF), (0x04, 7, 0xFFFFFFFF), (0x10, 7, 0xFFFFFFFF), (0x20, 0, 0xFFFFFFFF))
        with mock.patch.object(trust, "_is_own_group", return_value=True):
            self.assertEqual(trust.directory(path), path)
            self.permit(path, entries[0], (0x02, 7, 65534), *entries[1:])
            self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o770)
            with self.one_warning("access control list"):
                self.assertNotEqual(trust.directory(path), path)

    def test_unreadable_lists(self):
        path = self.folder("cache", mode=0o770)
        with mock.patch.object(trust, "_is_own_group", return_value=True):
            for failure in ({"return_value": b"what"}, {"side_effect": PermissionError(errno.EACCES, "no")}):
                with mock.patch("os.getxattr", create=True, **failure):
                    self.assertIn("access control list", trust.first_problem(path)[1])
            with mock.patch("os.getxattr", create=True, side_effect=OSError(errno.ENODATA, "none")):
                self.assertIsNone(trust.first_problem(path))

    def test_no_good_place(self):
        """If no directory for caches is trusted, the process creates a private directory.

        If it cannot create one, the error explains the reason.
        """
        path = self.folder("cache", mode=0o777)
        self.folder("user-cache", mode=0o777)
        temporary = self.folder("temporary", mode=0o1777)
        with mock.patch.object(tempfile, "tempdir", temporary):
            with self.one_warning(path):
                other = trust.directory(path)
            folder = os.path.join(temporary, "theano_ng-%d" % os.geteuid())
            self.assertEqual(folder, os.path.dirname(other))
            # Simulate a folder with this name that another user created first.
            shutil.rmtree(folder)
            self.folder("temporary", os.path.basename(folder), mode=0o777)
            other = trust.directory(path)
            self.assertEqual(trust.private_directory(), os.path.dirname(other))
            trust._private = None
            os.chmod(temporary, 0o777)
            with self.assertRaisesRegex(trust.Untrusted, "temporary can be written by others"):
                trust.directory(path)


@needs_permissions
class TestFiles(InDirectory):
    def test_modes(self):
        with trust.open_file(self.file("good", mode=0o644)) as stream:
            self.assertEqual(b"content", stream.read())
        bad = self.file("bad", mode=0o646)
        with self.one_warning(bad, "mode 0646", "not loaded", "chmod go-w " + bad), self.assertRaises(trust.Untrusted):
            trust.open_file(bad)
        self.assertFalse(trust.is_trusted(bad))
        os.symlink("good", os.path.join(self.base, "link"))
        with self.one_warning("symbolic link", "Delete it"), self.assertRaises(trust.Untrusted):
            trust.open_file(os.path.join(self.base, "link"))
        self.assertFalse(trust.is_trusted(os.path.join(self.base, "link")))
        os.mkfifo(os.path.join(self.base, "fifo"), 0o600)
        # `open_file` must not wait for a process that writes to the fifo.
        with self.one_warning("not a regular file"), self.assertRaises(trust.Untrusted):
            trust.open_file(os.path.join(self.base, "fifo"))
        with self.assertRaises(FileNotFoundError):
            trust.open_file(os.path.join(self.base, "missing"))

    def test_publish(self):
        place = self.file("place", content=b"old")
        with open(place, "rb") as old:
            trust.publish(self.file("new", mode=0o777, content=b"new"), place)
            self.assertEqual(b"old", old.read())
        with trust.open_file(place) as new:
            self.assertEqual(b"new", new.read())
        self.assertEqual(0o755, stat.S_IMODE(os.stat(place).st_mode))

    def test_locks_and_stamps(self):
        """Locks and stamps are not written through symbolic links that another user has created."""
        precious = self.file("precious")
        for name in ("lock-1", "swept"):
            path = os.path.join(self.base, name)
            os.symlink(precious, path)
            os.utime(precious, (1, 1))
            if name == "swept":
                kernelcache.sweep(self.base)
            else:
                kernelcache.UnitLock(path).release()
            self.assertFalse(os.path.islink(path))
            self.assertEqual(1, os.stat(precious).st_mtime)

    def test_call_cache(self):
        path = os.path.join(self.base, "calls")
        cache = callcache.CallCache(path)
        cache.call(int, ("7",))
        cache.persist()
        self.assertEqual(1, len(callcache.CallCache(path).cache))
        os.chmod(path, 0o666)
        with self.one_warning(path, "mode 0666"):
            self.assertEqual({}, callcache.CallCache(path).cache)
        os.chmod(path, 0o600)
        os.chmod(self.base, 0o777)
        with self.one_warning(path, self.base + " can be written", "chmod go-w %s;" % self.base):
            self.assertEqual({}, callcache.CallCache(path).cache)


@needs_root
class TestOtherUsers(InDirectory):
    def test_directory_of_somebody_else(self):
        path = self.folder("cache")
        os.chown(path, STRANGER, STRANGER)
        with self.one_warning(path, "belongs to uid %d (mode 0700)" % STRANGER, "root (uid 0)", "chown -R 0 " + path):
            self.assertTrue(trust.directory(path).startswith(self.cache))
        inner = os.path.join(path, "cache")
        with self.assertRaises(trust.Untrusted):
            trust.make_directory(inner)
        self.assertFalse(os.path.exists(inner))

    def test_as_another_user(self):
        """A user other than root trusts only root and themselves."""
        os.chmod(self.base, 0o1777)
        roots = self.folder("roots", mode=0o755)
        self.file("roots", "file", mode=0o644)
        strangers = self.folder("strangers")
        os.chown(strangers, STRANGER, STRANGER)
        others = self.folder("others", mode=0o755)
        os.chown(others, OTHER, OTHER)
        for name, uid in (("link", OTHER), ("mine", STRANGER)):
            os.symlink(strangers, os.path.join(self.base, name))
            os.lchown(os.path.join(self.base, name), uid, uid)

        def stranger():
            self.assertEqual(roots, trust.directory(roots))
            with trust.open_file(os.path.join(roots, "file")) as stream:
                stream.read()
            for path in (strangers, os.path.join(self.base, "mine"), os.path.join(self.base, "new")):
                self.assertEqual(path, trust.directory(path))
            for path in (others, os.path.join(self.base, "link"), os.path.join(others, "deeper")):
                with self.one_warning("belongs to uid %d" % OTHER, self.cache):
                    self.assertTrue(trust.directory(path).startswith(self.cache))
                compilers._warned.clear()
            os.mkdir(os.path.join(self.base, "grouped"))
            os.chmod(os.path.join(self.base, "grouped"), 0o770)
            self.assertIn(
                "group %d" % STRANGER, trust.first_problem(os.path.join(self.base, "grouped"))[1]
            )  # a group without a name

        self.as_user(STRANGER, stranger)

    def test_files_of_somebody_else(self):
        path = self.file("file", content=pickle.dumps({}))
        os.chown(path, STRANGER, 0)
        with self.one_warning("belongs to uid %d" % STRANGER), self.assertRaises(trust.Untrusted):
            trust.open_file(path)
        lock = self.file("lock-1")
        os.chown(lock, STRANGER, 0)
        kernelcache.UnitLock(lock).release()
        self.assertFalse(os.path.exists(lock))

    def test_who_was_first(self):
        """The private directory is new, even if another user has created a folder or link with its name."""
        path = self.folder("cache", mode=0o777)
        temporary = self.folder("temporary", mode=0o1777)
        self.folder("user-cache", mode=0o777)
        name = os.path.join(temporary, "theano_ng-0")
        for make in (os.mkdir, lambda path: os.symlink(self.folder("good"), path)):
            make(name)
            os.lchown(name, STRANGER, STRANGER)
            with mock.patch.object(tempfile, "tempdir", temporary), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.assertEqual(trust.private_directory(), os.path.dirname(trust.directory(path)))
            self.assertEqual([], os.listdir(name))
            os.unlink(name) if os.path.islink(name) else os.rmdir(name)


@needs_permissions
@unittest.skipUnless(compilers.find_toolchain(), "needs a C compiler")
class TestCaches(InDirectory):
    Linker = test_cmodule.TestModules.Linker
    module = test_cmodule.TestModules.module

    @staticmethod
    def ways_to_spoil():
        """Yield functions that make a file or directory untrusted, as far as this user is permitted to."""
        yield lambda path: os.chmod(path, stat.S_IMODE(os.stat(path).st_mode) | stat.S_IWOTH)
        if os.geteuid() == 0:
            yield lambda path: os.chown(path, STRANGER, STRANGER)

    def test_kernels(self):
        folder = os.path.join(self.base, "kernels")
        kernelcache.KernelCache(folder).load([test_cmodule.scaling(2)])
        (link,) = glob.glob(os.path.join(folder, "k*"))
        for spoil in self.ways_to_spoil():
            unit = os.path.join(folder, kernelcache.linked_unit(link))
            spoil(unit)
            with mock.patch.object(compilers, "_warned", set()), self.one_warning(unit, "not loaded"):
                kernelcache.KernelCache(folder).load([test_cmodule.scaling(2)])
            unit = os.path.join(folder, kernelcache.linked_unit(link))
            self.assertIsNone(trust.problem(os.stat(unit), unit))

    def test_modules(self):
        folder = os.path.join(self.base, "compiledir")
        cache = cmodule.ModuleCache(folder)
        self.module(cache, 1)
        self.assertEqual([0, 0, 1], cache.stats)
        entry = os.path.dirname(next(iter(cache.module_from_name)))
        for path in (os.path.join(entry, "info"), next(iter(cache.module_from_name)), entry):
            for spoil in self.ways_to_spoil():
                spoil(path)
                with mock.patch.object(compilers, "_warned", set()), self.one_warning(path, "not loaded"):
                    cache = cmodule.ModuleCache(folder)
                    self.module(cache, 1)
                self.assertEqual([0, 0, 1], cache.stats)
                self.assertIsNone(trust.problem(os.stat(path), path))
                cache = cmodule.ModuleCache(folder)
                self.module(cache, 1)
                self.assertEqual([0, 1, 0], cache.stats)

    def run_program(self, *settings, umask=0o022):
        environment = dict(os.environ, HOME=self.base, XDG_CACHE_HOME=self.cache)
        environment["THEANO_FLAGS"] = ",".join(
            (os.environ.get("THEANO_FLAGS", ""), "cache_graphs=True", "mode=FAST_RUN", "tiered=off") + settings
        )
        done = subprocess.run(
            [sys.executable, "-c", "import os; os.umask(%d)\n%s" % (umask, PROGRAM)],
            env=environment,
            capture_output=True,
            text=True,
        )
        self.assertEqual(0, done.returncode, done.stderr)
        folder, compiled, hits = done.stdout.split()
        return folder, int(compiled), int(hits), done.stderr

    def test_processes(self):
        """The second process reuses kernels of the first, in a trusted directory or in the replacement directory."""
        for name, mode in (("good", 0o700), ("bad", 0o777)):
            base = self.folder(name, mode=mode)
            first, second = (self.run_program("base_compiledir=" + base, umask=0) for _ in range(2))
            self.assertEqual(first[0], second[0])
            self.assertTrue(first[0].startswith(base if name == "good" else self.cache), first)
            self.assertEqual((1, 0), first[1:3])
            self.assertEqual((0, 1), second[1:3])
            for text in (first[3], second[3]):
                self.assertEqual(name == "bad", "%s can be written by others" % base in text, text)
        self.assertEqual([], os.listdir(base))

    def test_pickle_of_somebody_else(self):
        """A cache entry that other users can write is not unpickled. It is replaced by a new entry."""
        base = self.folder("base")
        folder, _, _, _ = self.run_program("base_compiledir=" + base)
        (entry,) = glob.glob(os.path.join(folder, "graphs", "*"))
        for spoil in self.ways_to_spoil():
            spoil(entry)
            _, compiled, hits, text = self.run_program("base_compiledir=" + base)
            self.assertEqual((0, 0), (compiled, hits))
            self.assertIn(entry, text)
            self.assertIsNone(trust.problem(os.stat(entry), entry))
        self.assertEqual((0, 1), self.run_program("base_compiledir=" + base)[1:3])

    def test_command(self):
        """theano_ng-cache reports the files that are not loaded, and why."""
        folder = self.folder("compiledir")
        self.file("compiledir", "good")
        bad = self.file("compiledir", "bad", mode=0o666)

        def said(*arguments):
            stream = io.StringIO()
            with contextlib.redirect_stdout(stream), flags(compiledir=folder, base_compiledir=self.base):
                self.assertEqual(0, cache_cli.main(arguments))
            return stream.getvalue()

        self.assertIn("%s can be written by others" % bad, said("list"))
        self.assertNotIn("good", said("list"))
        os.chmod(bad, 0o600)
        self.assertNotIn("Not loaded", said("list"))
        os.chmod(self.base, 0o777)
        trust._known.clear()  # as in a new process
        with self.one_warning(folder, self.base):
            self.assertEqual(trust.directory(folder), said().strip())
        self.assertIn("%s can be written by others" % self.base, said("list"))
        self.file("compiledir", "m" + "0" * 40)
        self.assertIn("Kept, because the cache has not made it", said("purge"))
        self.assertEqual(["bad", "good"], sorted(os.listdir(folder)))


@contextlib.contextmanager
def flags(**values):
    """Change flags of the configuration that the commands use, for the duration of the block."""
    from theano_ng.configdefaults import config
    from theano_ng.gof.compiler import compiledir

    fake = mock.Mock(wraps=config, nocleanup=False, **values)
    with mock.patch.object(cache_cli, "config", fake), mock.patch.object(compiledir, "config", fake):
        yield


if __name__ == "__main__":
    unittest.main()
