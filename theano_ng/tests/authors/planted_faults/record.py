"""The description of a fault."""

from dataclasses import dataclass

KINDS = {
    "parameter": "wrong only for some values of a parameter of the Op, which the cases for the audit do not have",
    "length": "wrong only for some lengths",
    "value": "wrong only for special numbers",
    "dtype": "wrong only for some of the dtypes that the Op accepts",
    "layout": "wrong only for some strides of inputs or of old outputs",
    "aliasing": "memory is shared or overwritten without a declaration",
    "output memory": "results depend on the memory of outputs, or change in later calls",
    "bounds": "reads or writes beyond an array",
    "references": "a reference is missing, or is never released",
    "memory": "allocated memory is never freed",
    "state": "results depend on earlier calls or on other threads",
    "gradient": "wrong derivatives",
    "shape": "wrong or missing shapes of infer_shape",
    "declaration": "equality, hash, pickling, versions, types of outputs or errors are wrong",
    "process": "the process dies or does not end",
}


@dataclass(frozen=True)
class PlantedFault:
    """A fault, described as a change of one file.

    Attributes
    ----------
    name : str
        A unique name.
    module : str
        The module of the Op.
    kind : str
        A key of `KINDS`.
    why : str
        The mistake of the author, and what a user sees.
    file : str
        The file to change, relative to the folder of the Ops.
    old, new : str
        A text that occurs exactly once in the file, and its replacement.
    witness : str
        Python source that is executed with the names `op` (the module of the Op), `np`, `theano` and `T`. It sets
        `right` to True with the unchanged module. With the changed module, it sets `right` to False, or raises an
        exception, or kills the process, or does not end.
    """

    name: str
    module: str
    kind: str
    why: str
    file: str
    old: str
    new: str
    witness: str
