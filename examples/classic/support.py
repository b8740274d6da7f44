"""The code that the programs in this folder share: the digits, the printed table, and the report of results and times.

The module does not import Theano. It runs under Python 3.5 or newer with NumPy 1.9 or newer.
"""

import argparse
import json
import os
import sys
import time

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))


def spent():
    """Return the CPU seconds of this process and of its compiler processes.

    Other work on the machine hardly changes these times.
    """
    return sum(os.times()[:4])


def digits(seed, test=397):
    """Return the handwritten digits of `examples/data`, shuffled.

    Returns
    -------
    training, test : pair (images, labels)
        Images of 64 pixels from 0 to 1 (float64), and labels (int32).
    """
    with np.load(os.path.join(HERE, "..", "data", "digits.npz")) as z:
        x, y = z["images"] / 16.0, z["labels"].astype("int32")
    order = np.random.RandomState(seed).permutation(len(x))
    x, y = x[order], y[order]
    return (x[:-test], y[:-test]), (x[-test:], y[-test:])


def checksum(value):
    """Return a checksum of an array: its norm, and its inner product with a fixed vector."""
    flat = np.asarray(value, "float64").ravel()
    return [float(np.sqrt((flat**2).sum())), float(flat.dot(np.cos(1.0 + np.arange(flat.size))))]


def tiles(images, across, shape=(8, 8)):
    """Combine images into one image, with `across` images in each row.

    The pixels of each image are scaled to 0..1. The pixels between the images are NaN, which matplotlib draws white.
    """
    images = np.asarray(images, "float64").reshape((-1,) + shape)
    down = -(-len(images) // across)
    page = np.full((down * (shape[0] + 1) - 1, across * (shape[1] + 1) - 1), np.nan)
    for k, image in enumerate(images):
        top, left = k // across * (shape[0] + 1), k % across * (shape[1] + 1)
        spread = image.max() - image.min()
        page[top : top + shape[0], left : left + shape[1]] = (image - image.min()) / (spread or 1.0)
    return page


class Report:
    """The results of one run: rows of a table, checksums of arrays, and times in CPU seconds.

    The times are the time until the end of the first step, and the median time of the later steps.

    Attributes
    ----------
    small : bool
        Whether the run is short.
    """

    def __init__(self, description, arguments=None):
        parser = argparse.ArgumentParser(description=description.split("\n\n")[0])
        parser.add_argument("--small", action="store_true", help="a short run, for tests")
        parser.add_argument("--json", metavar="FILE", help="write the numbers and times")
        parser.add_argument("--picture", metavar="FILE", help="draw what was learned (needs matplotlib)")
        self.options = parser.parse_args(arguments)
        self.small = self.options.small
        self.rows, self.sums, self.seconds, self.ready = [], {}, [], None

    def step(self, function, *arguments, **options):
        """Run one step of the program, record its time and return its result."""
        before = time.process_time()
        result = function(*arguments, **options)
        if self.ready is None:
            self.ready = spent()
        else:
            self.seconds.append(time.process_time() - before)
        return result

    def row(self, name, **numbers):
        """Print a row of the table: the text of its first column, then numbers in the order of their names."""
        numbers = {key: float(value) for key, value in numbers.items()}
        if not self.rows:
            print("".join("%15s" % heading for heading in ["", *sorted(numbers)]))
        print("%15s" % name + "".join("%15.8g" % numbers[key] for key in sorted(numbers)))
        sys.stdout.flush()
        self.rows.append(dict(numbers, row=str(name)))

    def checksums(self, **arrays):
        """Record and print checksums of arrays."""
        for name in sorted(arrays):
            self.sums[name] = checksum(arrays[name])
            print("%15s%15.8g%15.8g  (norm, projection)" % ((name,) + tuple(self.sums[name])))

    def finish(self, draw=None):
        """Print the times, and write the files that the command line requests.

        Parameters
        ----------
        draw : callable, optional
            A function that draws on a figure of matplotlib.
        """
        step = float(np.median(self.seconds)) if self.seconds else None
        took = {"ready": self.ready, "step": step, "total": spent()}
        print(
            "first step after %.2f s of CPU, others %s"
            % (self.ready, "took %.3g ms" % (step * 1e3) if step else "none")
        )
        if self.options.json:
            with open(self.options.json, "w") as f:
                json.dump({"rows": self.rows, "checksums": self.sums, "seconds": took}, f, indent=1, sort_keys=True)
        if self.options.picture and draw is not None:
            from matplotlib.backends.backend_agg import FigureCanvasAgg
            from matplotlib.figure import Figure

            figure = Figure(figsize=(8, 3.4))
            FigureCanvasAgg(figure)
            draw(figure)
            figure.savefig(self.options.picture, dpi=80, bbox_inches="tight")
