"""``python -m theano_ng.tests.mutants``: changes rules and kernels mechanically, and counts the detected changes."""

import argparse
import fnmatch
import os
import sys

from theano_ng.tests.mutants import campaign, reach, sample, table, targets


def parse(argv):
    parser = argparse.ArgumentParser(prog="python -m theano_ng.tests.mutants", description=__doc__.partition(": ")[2])
    parser.add_argument("--count", type=int, default=2000, help="mutants of the sample (%(default)s)")
    parser.add_argument("--first", type=int, metavar="N", help="only the first N of the sample, of every file its part")
    parser.add_argument("--seed", type=int, default=1, help="of the sample (%(default)s)")
    parser.add_argument(
        "--files", nargs="*", default=["*"], metavar="PATTERN", help="only files like these, as tensor/opt/*.py"
    )
    parser.add_argument("--tests", nargs="*", default=["*"], metavar="PATTERN", help="only test modules like these")
    parser.add_argument("--recorded", action="store_true", help="only test modules of which is known what they run")
    parser.add_argument(
        "--folder", default=os.path.join("build", "mutants"), help="of results, which are gone on with (%(default)s)"
    )
    parser.add_argument(
        "--budget", type=float, default=campaign.BUDGET, help="seconds of tests for each mutant (%(default)s)"
    )
    parser.add_argument("--again", nargs="*", default=[], metavar="OUTCOME", help="try again: survived, caught")
    parser.add_argument(
        "--devices", action="store_true", help="the rules of devices, with their tests, instead of the host's"
    )
    parser.add_argument("--table", metavar="FILE", help="where the table is written")
    parser.add_argument("--wanted", type=float, default=0.9, help="the part that has to be caught (%(default)s)")
    parser.add_argument(
        "--report", action="store_true", help="try nothing; show what is known of the texts as they are"
    )
    parser.add_argument("--quiet", action="store_true", help="do not print each mutant")
    return parser.parse_args(argv)


def _like(names, patterns):
    return [name for name in names if any(fnmatch.fnmatch(name, pattern) for pattern in patterns)]


def main(argv=None):
    """Run a campaign. Return 0 if the wanted share of mutants is caught, and 1 otherwise."""
    options = parse(argv)
    paths, tests = targets.host() if not options.devices else targets.devices()
    folder = os.path.abspath(options.folder)
    results = campaign.Results(os.path.join(folder, "results.jsonl"))
    if options.report:
        keys = [m.key for path in _like(paths, options.files) for m in sample.Drawn(path, options.seed).mutants]
        keys = [key for key in keys if results.found.get(key, {"outcome": "refused"})["outcome"] != "refused"]
    else:
        keys = _tried(options, paths, _like(tests, options.tests), folder, results)
    return report(results.found, keys, options)


def _tried(options, paths, modules, folder, results):
    """Try a sample of mutants, and return their keys."""

    def say(mutant, result):
        if not options.quiet:
            place = "%s:%d %s, %s" % (mutant.path, mutant.line, mutant.function, mutant.kind)
            print("%-9s%s  %s" % (result["outcome"], place, result.get("case") or ""), flush=True)

    kept = os.path.join(folder, "devices") if options.devices else folder
    if options.recorded:
        modules = [module for module in modules if module in reach.recorded_modules(kept)]
    known = reach.record(paths, modules, kept, say=lambda text: print(text, flush=True))
    trials = campaign.Campaign(known, modules, os.path.join(folder, "trials"), results, options.budget)
    try:
        chosen = _like(paths, options.files)
        return campaign.run(
            trials, results, paths, options.count, options.seed, say, options.again, chosen, options.first
        )
    finally:
        trials.close()


def report(found, keys, options):
    """Print survivors and tables. Return 0 if the wanted share of mutants is caught, and 1 otherwise."""
    text = "\n".join(table.table(found, keys, by) for by in ("area", "path", "kind"))
    if options.table:
        with open(options.table, "w") as file:
            file.write(text)
    print(table.survivors(found, keys))
    print(text)
    counts = table.total(table.counted(found, keys))
    caught_by = ", ".join("%s %d" % pair for pair in sorted(table.ways(found, keys).items()))
    print(
        "%d mutants, %.1f %% of those that are other programs caught, %.1f %% at their first trial (%s), in %.1f seconds of processor time each"
        % (
            len(keys),
            100 * table.share(counts),
            100 * table.share_at_first(counts),
            caught_by,
            table.seconds(found, keys),
        )
    )
    return 0 if table.share(counts) >= options.wanted else 1


if __name__ == "__main__":
    sys.exit(main())
