"""Run libraries and programs for Theano, and compare the results and times with the results and times of Theano 1.0.5.

    python benchmarks/clients/check.py [--only NAME ...] [--small] [--device NAME] [--record] [--table FILE]

A client is a library or program for Theano. Each client has a separate virtual environment in `build/clients`, with
packages from PyPI in the versions that `CLIENTS` defines. This package is taken from the interpreter that runs this
file. ``theano_ng-run --numpy-names`` runs programs and libraries unchanged. Lasagne is also tested after
``theano_ng-port`` has changed its source code. If an interpreter of Python 3.8 is found (by ``OLD_PYTHON``, on the
path, by pyenv or by uv), Theano 1.0.5 runs the same programs in it. Otherwise the results are compared with the results
in `recorded.json`, which ``--record`` writes. With ``--device opencl0:0``, this package runs the programs on a device. `compare.py` defines the tolerances. The exit status is 1 if a result
differs or a program fails.
"""

import argparse
import collections
import json
import os
import shutil
import site
import subprocess
import sys
import tempfile

from compare import differences

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
CLASSIC = os.path.join(ROOT, "examples", "classic")
RECORDED = os.path.join(HERE, "recorded.json")
BUILD = os.path.join(ROOT, "build", "clients")
LIMIT = 1800  # time limit in seconds for a program

Client = collections.namedtuple("Client", "name programs packages old_packages ported")
"""A library or program for Theano.

`packages` are the packages that are installed for this Python, `old_packages` the packages for Python 3.8, both without
their dependencies. `ported` are the packages that also run without ``theano_ng-run`` after ``theano_ng-port`` has
changed them. Keras and PyMC3 are not among them, because they use removed names without a successor
(`inspect.getargspec`, `numpy.asscalar`). ``theano_ng-port`` only lists such names; they must be changed by hand."""

OF_OLD_THEANO = ["numpy==1.19.5", "scipy==1.5.4", "six==1.17.0", "Theano==1.0.5"]
OF_PYMC3 = ["patsy==1.0.3", "tqdm==4.67.1", "python-dateutil==2.9.0.post0", "pytz==2025.2", "six==1.17.0"]
CLIENTS = [
    Client(
        "classic",
        [
            "logistic_regression",
            "mlp_dropout",
            "denoising_autoencoder",
            "rbm",
            "lstm_text",
            "hmc",
            "matrix_factorization",
            "word2vec",
            "gaussian_process",
            "vae",
        ],
        [],
        [],
        [],
    ),
    Client("lasagne", ["lasagne_mlp", "lasagne_conv"], ["Lasagne==0.1"], ["Lasagne==0.1"], ["lasagne"]),
    Client(
        "keras",
        ["keras_sequential", "keras_functional"],
        ["Keras==1.2.2", "PyYAML==6.0.3", "six==1.17.0", "h5py==3.16.0"],
        ["Keras==1.2.2", "PyYAML==5.4.1", "h5py==2.10.0"],
        [],
    ),
    Client(
        "pymc3",
        ["pymc3_nuts", "pymc3_advi"],
        ["pymc3==3.6", "pandas==2.3.3", "h5py==3.16.0", "joblib==1.5.2", *OF_PYMC3],
        ["pymc3==3.6", "pandas==1.1.5", "h5py==2.10.0", "joblib==1.0.1", *OF_PYMC3],
        [],
    ),
]


def say(text):
    print(text, flush=True)


def environment(name, python, packages, neighbour=None):
    """Return the path of the interpreter of a virtual environment. Create the environment if it does not exist.

    Parameters
    ----------
    name : str
    python : str
        The interpreter that creates the environment.
    packages : list of str
        Requirements, which are installed without their dependencies.
    neighbour : list of str, optional
        Other folders of packages, which follow the environment's folder on its path.
    """
    folder = os.path.join(BUILD, name)
    stamp, wanted = os.path.join(folder, "made.json"), json.dumps([python, packages, neighbour])
    interpreter = os.path.join(folder, "bin", "python")
    if os.path.exists(stamp):
        with open(stamp) as f:
            if f.read() == wanted:
                return interpreter
    say("making the environment %s" % folder)
    shutil.rmtree(folder, ignore_errors=True)
    run([python, "-m", "venv", folder])
    if packages:
        # Old packages need an old setuptools: build them without isolation, with the setuptools of the environment.
        run([interpreter, "-m", "pip", "install", "--quiet", "setuptools<80", "wheel"])
        run([interpreter, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", *packages])
    if neighbour:
        where = run([interpreter, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]).strip()
        with open(os.path.join(where, "neighbour.pth"), "w") as f:
            f.writelines("import site; site.addsitedir(%r)\n" % path for path in neighbour)
    with open(stamp, "w") as f:
        f.write(wanted)
    return interpreter


def run(command, **options):
    """Run a command and return its standard output. If it fails, raise RuntimeError with the end of its output."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, **options)
    if done.returncode:
        tail = "\n".join((done.stdout + done.stderr).splitlines()[-25:])
        raise RuntimeError("%s failed with status %d:\n%s" % (" ".join(command), done.returncode, tail))
    return done.stdout


def find_old_python():
    """Return the path of an interpreter of Python 3.8, or None."""
    candidates = [[os.environ.get("OLD_PYTHON", "")], ["python3.8"]]
    for ask in (["pyenv", "prefix", "3.8"], ["uv", "python", "find", "3.8"]):
        if shutil.which(ask[0]):
            found = subprocess.run(ask, capture_output=True, text=True).stdout.strip()
            candidates.append([os.path.join(found, "bin", "python") if ask[0] == "pyenv" else found])
    for (candidate,) in candidates:
        path = shutil.which(candidate)
        if path is None:
            continue
        asked = subprocess.run(
            [path, "-c", "import sys; print(sys.version_info[:2] == (3, 8) and sys.executable or '')"],
            capture_output=True,
            text=True,
        )
        if asked.returncode == 0 and asked.stdout.strip():
            return asked.stdout.strip()
    return None


def blas_of_old_theano():
    """Return the flag that makes Theano 1.0.5 use OpenBLAS.

    If OpenBLAS cannot be linked, the flag is empty, and Theano calls NumPy.
    """
    command = ["g++", "-shared", "-x", "c++", os.devnull, "-o", os.devnull, "-lopenblas"]
    linked = shutil.which("g++") and subprocess.run(command, capture_output=True).returncode == 0
    return ",blas.ldflags=-lopenblas" if linked else ",blas.ldflags="


def path_of(program):
    for folder in (CLASSIC, HERE):
        path = os.path.join(folder, program + ".py")
        if os.path.exists(path):
            return path
    raise FileNotFoundError(program)


def measure(command, program, flags, small, device="cpu"):
    """Run a program with an empty cache of compiled code, and return the results that it writes with ``--json``."""
    path = program if os.path.isabs(program) else path_of(program)
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "out.json")
        environ = dict(
            os.environ,
            HOME=folder,
            KERAS_BACKEND="theano",
            OPENBLAS_NUM_THREADS="1",
            OMP_NUM_THREADS="1",
            PYTHONPATH=CLASSIC,
            PYTHONWARNINGS="ignore",
            THEANO_FLAGS="device=%s,base_compiledir=%s%s" % (device, os.path.join(folder, "cache"), flags),
        )
        options = ["--small"] if small else []
        run([*command, path, *options, "--json", out], env=environ, cwd=folder)
        with open(out) as f:
            return json.load(f)


def ported(client, interpreter):
    """Copy the packages in `Client.ported` and the client's programs into a folder, and change them by
    ``theano_ng-port``. Return the folder.
    """
    folder = os.path.join(BUILD, client.name + "-ported")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    packages = run([interpreter, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]).strip()
    for name in client.ported:
        shutil.copytree(os.path.join(packages, name), os.path.join(folder, name))
    for program in client.programs:
        shutil.copy(path_of(program), folder)
    # theano_ng-port exits with status 1 if it has changed files. This is no error.
    done = subprocess.run(
        [sys.executable, "-m", "theano_ng.legacy.port", "--write", folder], capture_output=True, text=True
    )
    if done.returncode not in (0, 1):
        raise RuntimeError("theano_ng-port failed on %s: %s" % (client.name, done.stderr))
    return folder


def seconds(value):
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if value >= size:
            return "%.2g %s" % (value / size, unit) if value < 100 * size else "%.0f %s" % (value / size, unit)
    return "%.2g us" % (value * 1e6)


def table(rows):
    """Return a Markdown table of the differences and of the times of both packages."""
    lines = [
        "| | largest difference | first step, Theano 1.0.5 | theano_ng | a step, Theano 1.0.5 | theano_ng | quotient |",
        "|---|---|---|---|---|---|---|",
    ]
    for program, worst, ours, old in rows:
        times = [seconds(r["seconds"][key]) for key in ("ready", "step") for r in (old, ours)]
        quotient = ours["seconds"]["step"] / old["seconds"]["step"]
        lines.append("| %s | %.1e | %s | %.2f |" % (program, worst, " | ".join(times), quotient))
    return "\n".join(lines) + "\n"


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--only", nargs="+", metavar="NAME", help="clients or programs to run")
    parser.add_argument("--small", action="store_true", help="short runs")
    parser.add_argument("--device", default="cpu", help="the device on which this package computes (cpu)")
    parser.add_argument(
        "--recorded", action="store_true", help="compare with what was recorded, though Python 3.8 is there"
    )
    parser.add_argument("--record", action="store_true", help="write what Theano 1.0.5 gives to recorded.json")
    parser.add_argument("--table", metavar="FILE", help="write the table in Markdown")
    options = parser.parse_args(arguments)
    with open(RECORDED) as f:
        recorded = json.load(f)
    old_python = None if options.recorded else find_old_python()
    if old_python is None:
        say(
            "Theano 1.0.5: recorded numbers"
            + ("" if options.recorded else "; no interpreter of Python 3.8 was found (OLD_PYTHON names one)")
        )
    rows, failures = [], []
    for client in CLIENTS:
        programs = [p for p in client.programs if not options.only or {client.name, p} & set(options.only)]
        if not programs:
            continue
        neighbours = [ROOT, *site.getsitepackages()]
        ours = environment(client.name, sys.executable, client.packages, neighbours)
        if old_python is not None:
            old = environment(client.name + "-old", old_python, OF_OLD_THEANO + client.old_packages)
        changed = ported(client, ours) if client.ported else None
        for program in programs:
            key = program + ("-small" if options.small else "")
            try:
                result = measure(
                    [ours, "-m", "theano_ng.legacy.run", "--numpy-names"], program, "", options.small, options.device
                )
                if old_python is not None:
                    recorded[key] = measure([old], program, blas_of_old_theano(), options.small)
                worst, messages = differences(program, result, recorded[key], options.small)
                rows.append((program, worst, result, recorded[key]))
                if changed is not None:
                    again = measure([ours], os.path.join(changed, program + ".py"), "", options.small, options.device)
                    messages += [
                        "ported, " + message for message in differences(program, again, result, options.small)[1]
                    ]
            except (KeyError, RuntimeError, subprocess.TimeoutExpired) as error:
                messages = [str(error)]
            failures += messages
            say("%-24s %s" % (program, "\n".join(messages) or "agrees within %.1e" % worst))
    if options.record:
        with open(RECORDED, "w") as f:
            lines = [
                "%s: %s" % (json.dumps(key), json.dumps(recorded[key], sort_keys=True)) for key in sorted(recorded)
            ]
            f.write("{\n" + ",\n".join(lines) + "\n}\n")
    say("\n" + table(rows))
    if options.table:
        with open(options.table, "w") as f:
            f.write(table(rows))
    say("%d programs, %d differences or failures" % (len(rows), len(failures)))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
