"""Tests of the flag system: sources of values, refused values, changing and printing flags, flags of other packages."""

import copy
import os
import pickle
import subprocess
import sys
import tempfile
import textwrap
import unittest
from contextlib import contextmanager

from theano_ng import configdefaults, configparser
from theano_ng.configdefaults import config
from theano_ng.configparser import (
    AddConfigVar,
    BoolParam,
    ConfigParam,
    EnumStr,
    FloatParam,
    IntParam,
    StrParam,
    TheanoConfigError,
    TheanoConfigParser,
    change_flags,
    parse_config_string,
)

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


home = tempfile.TemporaryDirectory()  # until the tests end


def run(code, ok=True, cwd=None, **env):
    """Run code in a new process; return its stdout, or with ``ok=False`` the last line of its stderr.

    The process has an empty home directory, without a .theanorc.
    """
    environment = {k: v for k, v in os.environ.items() if k not in ("THEANO_FLAGS", "THEANORC")}
    environment["HOME"] = home.name
    environment.update(env, PYTHONPATH=os.pathsep.join([ROOT, env.get("PYTHONPATH", "")]))
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], env=environment, cwd=cwd, capture_output=True, text=True
    )
    if (done.returncode == 0) != ok:
        raise AssertionError("exit status %d\n%s%s" % (done.returncode, done.stdout, done.stderr))
    return done.stdout if ok else done.stderr.strip().splitlines()[-1]


@contextmanager
def defined(*flags):
    """Define flags, given as (name, parameter), for the duration of the block."""
    names = []
    try:
        for name, param in flags:
            AddConfigVar(name, "A flag of the tests.", param, in_c_key=False)
            names.append(name)
        yield
    finally:
        for name in names:
            param = configparser._config_vars.pop(name)
            configparser._config_var_list.remove(param)
            last = name.rpartition(".")[2]
            del param.section._params[last]
            param.section.__dict__.pop(last, None)
        for name in {name.partition(".")[0] for name in names if "." in name}:
            del config._sections[name], config.__dict__[name]


class ParseFlags(unittest.TestCase):
    def test_values(self):
        for text, wanted in [
            ("", {}),
            ("floatX=float32", {"floatX": "float32"}),
            (" floatX = float32 , device=cpu,, ", {"floatX": "float32", "device": "cpu"}),
            ("device=cpu,device=cuda0", {"device": "cuda0"}),
            ("gpuarray.preallocate=1", {"gpuarray.preallocate": "1"}),
            ("gcc.cxxflags=-DA=1 -O1,cxx=", {"gcc.cxxflags": "-DA=1 -O1", "cxx": ""}),
            ("gcc.cxxflags='-Wl,-z,now -DB',nocleanup=1", {"gcc.cxxflags": "-Wl,-z,now -DB", "nocleanup": "1"}),
            ("gcc.cxxflags=\"-DT='x'\",linker=c|py", {"gcc.cxxflags": "-DT='x'", "linker": "c|py"}),
            ("a=x\\,y # z,b=1", {"a": "x,y # z", "b": "1"}),
        ]:
            self.assertEqual(parse_config_string(text), wanted, text)

    def test_errors(self):
        for text in ("float32", "floatX=float32,device", "=3", "floatX='float32"):
            with self.assertRaisesRegex(TheanoConfigError, "THEANO_FLAGS"):
                parse_config_string(text)
        self.assertEqual(parse_config_string("float32,device=cpu,=3", issue_warnings=False), {"device": "cpu"})


class Types(unittest.TestCase):
    def test_conversions(self):
        with defined(
            ("zz.b", BoolParam(False)),
            ("zz.i", IntParam(3, lambda i: i > 0)),
            ("zz.f", FloatParam(1.5)),
            ("zz.s", StrParam("a")),
            ("zz.e", EnumStr("one", "two")),
            ("zz.c", ConfigParam(None, lambda v: v and v * 2)),
            ("zz.d", IntParam(lambda: config.zz.i + 1)),
        ):
            for true in (True, 1, "1", "True", "true", "yes", "on"):
                config.zz.b = true
                self.assertIs(config.zz.b, True)
            for false in (False, 0, "0", "False", "false", "no", "off"):
                config.zz.b = false
                self.assertIs(config.zz.b, False)
            config.zz.i = 7
            self.assertEqual(config.zz.d, 8)  # the default of zz.d is computed when zz.d is first read
            config.zz.i, config.zz.f, config.zz.s, config.zz.e, config.zz.c = "12", "1e3", 5, "two", "ab"
            self.assertEqual(
                (config.zz.i, config.zz.f, config.zz.s, config.zz.e, config.zz.c, config.zz.d),
                (12, 1e3, "5", "two", "abab", 8),
            )
            for name, bad, message in [
                ("b", "maybe", "zz.b: 'maybe' cannot be converted to bool"),
                ("i", "1.5", "zz.i: '1.5' cannot be converted to int"),
                ("i", 2.5, "zz.i: 2.5 cannot be converted to int"),
                ("i", -1, "zz.i: this flag does not accept the value -1"),
                ("f", "x", "zz.f: 'x' cannot be converted to float"),
                ("f", None, "zz.f: None cannot be converted to float"),
                ("e", "One", "zz.e: 'One' is not one of 'one', 'two'"),
                ("e", None, "zz.e: None"),
            ]:
                before = getattr(config.zz, name)
                with self.assertRaisesRegex(TheanoConfigError, message):
                    setattr(config.zz, name, bad)
                self.assertEqual(getattr(config.zz, name), before)
            del config.zz.i  # restore the value from the environment, or else the default
            self.assertEqual(config.zz.i, 3)
            self.assertIsInstance(TheanoConfigError(), ValueError)
        with self.assertRaises(TypeError):
            EnumStr("a", 1)

    def test_names(self):
        with self.assertRaisesRegex(AttributeError, "there is no flag 'floatx'. Did you mean floatX"):
            config.floatx
        with self.assertRaisesRegex(AttributeError, "profiling.nops'. Did you mean profiling.n_ops"):
            config.profiling.nops = 3
        with self.assertRaisesRegex(AttributeError, "'compile' is a section"):
            config.compile = 3
        for flags in ({"no_such_flag": 1}, {"compile.nothing": 1}):
            with self.assertRaisesRegex(AttributeError, "there is no flag"):
                change_flags(flags)
        self.assertIn("floatX", dir(config))
        self.assertIn("n_apply", dir(config.profiling))
        for taken in ("floatX", "compile", "floatX.more", "change_flags"):
            with self.assertRaises(AttributeError):
                AddConfigVar(taken, "", BoolParam(True))
        for odd in ("", "a..b", "a b", "_prefix", "x.__dict__"):
            with self.assertRaises(ValueError):
                AddConfigVar(odd, "", BoolParam(True))
        with self.assertRaises(TypeError):
            AddConfigVar("zz.x", "", True)

    def test_flags_of_old_programs(self):
        """Flags that only Theano 1.0.5 used exist with their defaults.

        `warn.ignore_bug_before` sets the flags of old bugs.
        """
        for name, default in (
            ("cache_optimizations", False),
            ("print_global_stats", False),
            ("gpuelemwise.sync", True),
            ("warn.identify_1pexp_bug", False),
            ("warn.vm_gc_bug", False),
        ):
            section, _, flag = name.rpartition(".")
            self.assertIs(getattr(getattr(config, section) if section else config, flag), default)
            with change_flags({name: not default}):
                self.assertIs(getattr(getattr(config, section) if section else config, flag), not default)
        fixed = "sum_sum_bug identify_1pexp_bug subtensor_merge_bug gpu_set_subtensor1 reduce_join round inc_subtensor1_opt vm_gc_bug"
        code = "from theano_ng import config; print(*(+getattr(config.warn, name) for name in %r.split()))" % fixed
        for limit, warned in (
            ("None", "1 1 1 1 1 1 1 0"),
            ("0.3", "0 1 1 1 1 1 1 0"),
            ("0.4.1", "0 0 1 1 1 1 1 0"),
            ("0.6", "0 0 0 0 1 1 1 0"),
            ("0.9", "0 0 0 0 0 0 1 0"),
            ("0.10", "0 0 0 0 0 0 0 0"),
            ("all", "0 0 0 0 0 0 0 0"),
        ):
            self.assertEqual(run(code, THEANO_FLAGS="warn.ignore_bug_before=" + limit), warned + "\n")
        text = run("import theano_ng", THEANO_FLAGS="print_global_stats=True,profiling.destination=stdout")
        self.assertRegex(text, "Global stats:  Time elasped since Theano import = .*linker = ")
        self.assertEqual(run("import theano_ng"), "")

    def test_flags_as_descriptors(self):
        """Programs that iterate over all flags can read and write the flags through their descriptors."""
        param = next(p for p in configparser._config_var_list if p.fullname == "compute_test_value")
        with configparser.change_flags(compute_test_value="off"):
            self.assertEqual(param.__get__(True, None), "off")
            param.__set__(None, "warn")
            self.assertEqual(config.compute_test_value, "warn")
            self.assertRaises(ValueError, param.__set__, None, "loud")
        self.assertIs(param.__get__(None), param)

    def test_immutable_flags(self):
        table = (
            "device force_device init_gpu_device warn.ignore_bug_before base_compiledir compiledir_format compiledir "
            "optimizer_excluding optimizer_including optimizer_requiring numpy.seterr_all numpy.seterr_divide numpy.seterr_over "
            "numpy.seterr_under numpy.seterr_invalid"
        ).split()
        for name in table:
            param = configparser._config_vars[name]
            last, value = name.rpartition(".")[2], configparser._value_of(param)
            for act in (
                lambda: setattr(param.section, last, value),
                lambda: delattr(param.section, last),
                lambda: change_flags({name: value}),
            ):
                with self.assertRaisesRegex(
                    Exception, r"Can't change the value of this config parameter after initialization! " + name
                ):
                    act()

    def test_copies(self):
        """A copy of the configuration is the configuration itself.

        A pickle loads as the configuration of the loading process.
        """
        for how in (copy.copy, copy.deepcopy, lambda section: pickle.loads(pickle.dumps(section))):
            for section in (config, config.gcc, config.dnn.conv):
                self.assertIs(how(section), section)
        self.assertIs(copy.deepcopy({"settings": [config]})["settings"][0], config)
        with self.assertRaisesRegex(TypeError, "only theano.config"):
            pickle.dumps(TheanoConfigParser())
        with self.assertRaises(AttributeError):
            TheanoConfigParser.__new__(TheanoConfigParser)._params

    def test_sections_of_another_root(self):
        root = TheanoConfigParser()
        AddConfigVar("floatX", "Of another root.", IntParam(1), root=root)
        AddConfigVar("a.b.c", "Deep.", IntParam(2), root=root)
        root.floatX = 5
        self.assertEqual((root.floatX, root.a.b.c, config.floatX in ("float32", "float64")), (5, 2, True))
        self.assertEqual(
            str(root),
            "floatX (int) \n    Doc:  Of another root.\n    Value:  5\n\n"
            "a.b.c (int) \n    Doc:  Deep.\n    Value:  2\n\n",
        )


class ChangeFlags(unittest.TestCase):
    def setUp(self):
        self.state = config.floatX, config.profiling.n_ops
        self.addCleanup(lambda: self.assertEqual((config.floatX, config.profiling.n_ops), self.state))
        block = change_flags([("floatX", "float64"), ("profiling.n_ops", 20)])
        block.__enter__()
        self.addCleanup(block.__exit__)

    def test_blocks(self):
        block = change_flags({"profiling.n_ops": 3}, floatX="32")
        with block:
            self.assertEqual((config.floatX, config.profiling.n_ops), ("float32", 3))
            with config.change_flags(floatX="float16"), block:
                self.assertEqual(config.floatX, "float32")
                config.floatX = "float64"
            self.assertEqual(config.floatX, "float32")
        self.assertEqual((config.floatX, config.profiling.n_ops), ("float64", 20))
        with self.assertRaises(KeyError), change_flags(floatX="float32"):
            raise KeyError
        refused = self.assertRaisesRegex(TheanoConfigError, "n_ops")
        with refused, change_flags([("floatX", "float32"), ("profiling.n_ops", 0)]):
            self.fail()
        self.assertEqual((config.floatX, config.profiling.n_ops), ("float64", 20))

    def test_signals_at_every_moment(self):
        seen, raise_at, block = 0, None, change_flags([("floatX", "float32"), ("profiling.n_ops", 3)])

        def trace(frame, event, argument):
            nonlocal seen
            if frame.f_code.co_filename != configparser.__file__:
                return None
            seen += 1
            if seen == raise_at:
                raise KeyboardInterrupt
            return trace

        def interrupted():
            try:
                with block:
                    pass
            except KeyboardInterrupt:
                pass

        while raise_at is None or seen >= raise_at:
            seen, raise_at = 0, (raise_at or 0) + 1
            previous = sys.gettrace()
            sys.settrace(trace)
            try:
                interrupted()
            finally:
                sys.settrace(previous)
            self.assertEqual((config.floatX, config.profiling.n_ops), ("float64", 20))
        self.assertGreater(raise_at, 5)

    def test_decorated_functions(self):
        @change_flags(floatX="float32")
        def f(depth, *, fail=False):
            """Documented."""
            if fail:
                raise KeyError
            return (config.floatX, *(f(depth - 1) if depth else ()))

        self.assertEqual(f(2), ("float32",) * 3)
        self.assertRaises(KeyError, f, 1, fail=True)
        self.assertEqual((f.__name__, f.__doc__, config.floatX), ("f", "Documented.", "float64"))

    def test_generators_and_coroutines(self):
        seen = []

        @change_flags(floatX="float32")
        def numbers():
            try:
                got = yield config.floatX
                try:
                    yield config.floatX, got
                except KeyError:
                    yield config.floatX, "caught"
                return "end"
            finally:
                seen.append(config.floatX)

        g = numbers()
        self.assertEqual((next(g), config.floatX), ("float32", "float64"))
        self.assertEqual((g.send(5), config.floatX), (("float32", 5), "float64"))
        self.assertEqual((g.throw(KeyError()), config.floatX), (("float32", "caught"), "float64"))
        with self.assertRaises(StopIteration) as end:
            next(g)
        self.assertEqual((end.exception.value, seen), ("end", ["float32"]))
        g = numbers()
        next(g)
        g.close()
        self.assertEqual((seen, config.floatX), (["float32"] * 2, "float64"))

        class Pause:
            def __await__(self):
                return (yield config.floatX)

        @change_flags(floatX="float32")
        async def work():
            return await Pause(), config.floatX

        c = work()
        self.assertEqual((c.send(None), config.floatX), ("float32", "float64"))
        with self.assertRaises(StopIteration) as end:
            c.send("answer")
        self.assertEqual((end.exception.value, config.floatX), (("answer", "float32"), "float64"))


class Printing(unittest.TestCase):
    def test_every_flag_with_its_documentation_and_value(self):
        text = str(config)
        with change_flags({"compile.wait": 7}):
            doc = configparser._config_vars["compile.wait"].doc
            self.assertIn("compile.wait (int) \n    Doc:  %s\n    Value:  7\n\n" % doc, str(config))
            self.assertIn("compile.wait (int) ", str(config.compile))
            self.assertNotIn("floatX", str(config.compile))
        self.assertIn("floatX (('float64', 'float32', 'float16')) \n    Doc:  Default dtype of Python floats", text)
        heads = [line.split(" ")[0] for line in text.split("\n") if line and not line.startswith("    ")]
        self.assertEqual(heads, [param.fullname for param in configparser._config_var_list])
        self.assertNotIn("<function", text)
        self.assertNotIn("0x", text)
        for key in configdefaults.compiledir_format_keys:
            self.assertIn(key, text)
        for param in configparser._config_var_list:
            self.assertRegex(param.doc, r"(?s)^\S.{8,}\.$", param.fullname)

    def test_hash_of_what_c_code_depends_on(self):
        before = configparser.get_config_hash()
        with change_flags({"gcc.cxxflags": "-DX"}):
            self.assertNotEqual(configparser.get_config_hash(), before)
        with change_flags({"profiling.n_ops": 3}):
            self.assertEqual(configparser.get_config_hash(), before)


class Sources(unittest.TestCase):
    """Tests of the sources of flags, in new processes: the environment is read only when the package is imported."""

    SHOW = "from theano_ng.configdefaults import config as c; print(%s)"

    def test_precedence_and_several_files(self):
        with tempfile.TemporaryDirectory() as folder:

            def write(name, text):
                with open(os.path.join(folder, name), "w") as file:
                    file.write(textwrap.dedent(text))

            write(
                "system",
                """\
                # a comment
                [global]
                floatX = float16
                device = cpu
                linker = py
                mode = FAST_COMPILE
                exception_verbosity: high
                gcc.cxxflags = -DA=100% -DB
                [profiling]
                n_ops = 3
                n_ops = 4
                n_apply = 5
                [dnn.conv]
                algo_fwd = large
                """,
            )
            write("personal", "[global]\nfloatX = float32\nlinker = vm\n[profiling]\nn_ops = 6\n")
            write(".theanorc", "[global]\nmode = FAST_RUN\n")
            show = self.SHOW % (
                "c.floatX, c.linker, c.mode, c.exception_verbosity, c.gcc.cxxflags, c.profiling.n_ops, "
                "c.profiling.n_apply, c.dnn.conv.algo_fwd"
            )
            text = run(
                show,
                cwd=folder,
                HOME=folder,
                THEANORC=os.pathsep.join(["~/system", "~/missing", "$HOME/personal", ".theanorc"]),
                THEANO_FLAGS="linker=c,linker=cvm",
            )
            self.assertEqual(text, "float32 cvm FAST_RUN high -DA=100% -DB 6 5 large\n")
            text = run(
                show + "; c.mode = 'DebugMode'; del c.mode; print(c.mode)", HOME=folder
            )  # by default ~/.theanorc
            self.assertEqual(text, "float64 cvm FAST_RUN low  20 20 small\nFAST_RUN\n")
            # Errors name the file, the flag, and the values that the flag accepts.
            for name, content, message in [
                ("bad1", "[global]\nfloatx = float32\n", "there is no flag 'floatx'. Did you mean floatX"),
                (
                    "bad2",
                    "[global]\nfloatX = float\n",
                    "flag floatX: 'float' is not one of 'float64', 'float32', 'float16'",
                ),
                ("bad3", "floatX = float32\n", "cannot be read: File contains no section headers"),
                ("bad4", "[profilng]\nn_ops = 3\n", "there is no flag 'profilng.n_ops'. Did you mean profiling.n_ops"),
                ("bad5", "[lib]\ncnmem = 0.8\n", "lib.cnmem is no longer supported; use gpuarray.preallocate"),
            ]:
                write(name, content)
                error = run("import theano_ng.configdefaults", ok=False, THEANORC=os.path.join(folder, name))
                self.assertIn(message, error)
                self.assertIn(os.path.join(folder, name), error)

    def test_errors_in_theano_flags(self):
        for flags, message in [
            (
                "floatX=32,profiling.n_ops=0",
                "THEANO_FLAGS: flag profiling.n_ops: this flag does not accept the value '0'",
            ),
            ("gparray.preallocate=1", "there is no flag 'gparray.preallocate'. Did you mean gpuarray.preallocate"),
            ("device=gpu0", "'gpu0' is a device of the old GPU backend, which was removed; use 'cuda' or 'cuda0'"),
            (
                "compiledir_format=%(host)s",
                "contains the unknown key 'host'; the keys are device, gxx_version, hostname",
            ),
        ]:
            self.assertIn(message, run("import theano_ng.configdefaults", ok=False, THEANO_FLAGS=flags))

    def test_flags_of_other_packages(self):
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(os.path.join(folder, "thirdparty"))
            with open(os.path.join(folder, "thirdparty", "__init__.py"), "w") as file:
                file.write(
                    "from theano_ng.configparser import *\n"
                    "AddConfigVar('thirdparty.level', 'How much.', IntParam(1))\n"
                    "AddConfigVar('thirdparty.deep.name', 'A name.', StrParam(lambda: 'computed'))\n"
                )
            with open(os.path.join(folder, "rc"), "w") as file:
                file.write("[thirdparty.deep]\nname = from file\n[thirdparty]\nlevel = 2\n")
            text = run(
                """
                import theano_ng.configdefaults as d, sys
                assert 'thirdparty' not in sys.modules
                import thirdparty
                print(d.config.thirdparty.level, d.config.thirdparty.deep.name)
                print(str(d.config).strip().splitlines()[-1])
                """,
                PYTHONPATH=folder,
                THEANORC=os.path.join(folder, "rc"),
                THEANO_FLAGS="thirdparty.level=3",
            )
            self.assertEqual(text, "3 from file\n    Value:  from file\n")
            error = run(
                """
                import theano_ng.configdefaults as d
                try:
                    import thirdparty
                except ValueError:
                    assert 'level' not in dir(d.config.thirdparty)
                    raise
                """,
                ok=False,
                PYTHONPATH=folder,
                THEANO_FLAGS="thirdparty.level=many",
            )
            self.assertIn("THEANO_FLAGS: flag thirdparty.level: 'many' cannot be converted to int", error)
        # An undefined flag is an error in three cases: no package has the name of its section, the section belongs to
        # this package, or a module of the standard library has the name of the section.
        for name in ("thirdparty.level", "profiling.level", "warnings.level", "json.level", "level"):
            self.assertIn(
                "there is no flag %r" % name, run("import theano_ng.configdefaults", ok=False, THEANO_FLAGS=name + "=3")
            )


if __name__ == "__main__":
    unittest.main()
