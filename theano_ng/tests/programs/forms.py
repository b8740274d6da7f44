"""The memory layouts of arguments, by name."""

from theano_ng.audit import forms

FORMS = {
    "contiguous": forms.contiguous,
    "fortran": forms.fortran,
    "strided": forms.strided,
    "reversed": forms.reversed_,
    "offset": forms.offset,
    "read_only": forms.read_only,
    "misaligned": forms.misaligned,
    "records": forms.misaligned_strides,
    "swapped": forms.swapped,
}
