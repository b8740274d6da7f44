"""Scalar types and ops under the names of the classic module ``theano.scalar.basic``.

The code is divided by topic into `types`, `variables`, `out_types`, `op`, `ops_arith`, `ops_unary`, `ops_compare`,
`ops_math`, `ops_complex` and `composite`. This module creates the op instances. It defines nothing else, because
`bool`, `complex`, `pow` and other names hide Python's built-ins here.
"""

from theano_ng.configdefaults import config
from theano_ng.printing import pprint
from theano_ng.scalar.composite import Composite, Compositef32, composite_f32, handle_cast, handle_composite
from theano_ng.scalar.instances import ops
from theano_ng.scalar.op import BinaryScalarOp, ScalarOp, UnaryScalarOp
from theano_ng.scalar.ops_arith import (
    Add,
    Clip,
    Identity,
    IntDiv,
    Maximum,
    MaximumFromNothing,
    Minimum,
    Mod,
    Mul,
    Pow,
    Second,
    Sub,
    Switch,
    TrueDiv,
    div_proxy,
    int_or_true_div,
    mod_check,
)
from theano_ng.scalar.ops_compare import (
    AND,
    EQ,
    GE,
    GT,
    LE,
    LT,
    NEQ,
    OR,
    XOR,
    BinaryBitOp,
    FixedLogicalComparison,
    InRange,
    Invert,
    IsInf,
    IsNan,
    LogicalComparison,
    UnaryBitOp,
)
from theano_ng.scalar.ops_complex import CASTS, Angle, Cast, Complex, ComplexFromPolar, Conj, Imag, Real, cast
from theano_ng.scalar.ops_math import (
    ArcCos,
    ArcCosh,
    ArcSin,
    ArcSinh,
    ArcTan,
    ArcTan2,
    ArcTanh,
    Ceil,
    Cos,
    Cosh,
    Deg2Rad,
    Exp,
    Exp2,
    Expm1,
    Floor,
    Log,
    Log10,
    Log1p,
    Log2,
    Rad2Deg,
    RoundHalfAwayFromZero,
    RoundHalfToEven,
    Sin,
    Sinh,
    Sqrt,
    Tan,
    Tanh,
    Trunc,
    round_half_away_from_zero_,
    round_half_away_from_zero_vec,
)
from theano_ng.scalar.ops_unary import Abs, Inv, Neg, Sgn, Sqr
from theano_ng.scalar.out_types import (
    complex_out,
    float_out,
    float_out_nocomplex,
    int_out,
    int_out_nocomplex,
    real_out,
    same_out,
    same_out_float_only,
    same_out_min8,
    same_out_nobool,
    same_out_nocomplex,
    specific_out,
    transfer_type,
    unary_out_lookup,
    upcast_out,
    upcast_out_min8,
    upcast_out_no_complex,
    upcast_out_nobool,
    upgrade_to_float,
    upgrade_to_float64,
    upgrade_to_float_no_complex,
)
from theano_ng.scalar.types import (
    ComplexError,
    IntegerDivisionError,
    NumpyAutocaster,
    Scalar,
    _multi,
    all_types,
    as_common_dtype,
    as_scalar,
    autocast_float,
    autocast_float_as,
    autocast_int,
    bool_ as bool,
    complex64,
    complex128,
    complex_types,
    complexs,
    complexs64,
    complexs128,
    constant,
    continuous_types,
    convert,
    discrete_dtypes,
    discrete_types,
    float16,
    float32,
    float64,
    float_types,
    floats,
    get_scalar_type,
    int8,
    int16,
    int32,
    int64,
    int_t,
    int_types,
    integer_types,
    ints,
    uint8,
    uint16,
    uint32,
    uint64,
    uint_types,
    upcast,
)
from theano_ng.scalar.variables import ScalarConstant, ScalarVariable, _scalar_py_operators

lt = LT()
gt = GT()
le = LE()
ge = GE()
eq = EQ()
neq = NEQ()
isnan = IsNan()
isinf = IsInf()
inopenrange = InRange(True, True)
inclosedrange = InRange(False, False)
switch = Switch()

or_ = OR()
xor = XOR()
and_ = AND()
invert = Invert()

maximum = Maximum(upcast_out, name="maximum")
maximum_from_nothing = MaximumFromNothing(upcast_out, name="maximum_from_nothing")
minimum = Minimum(upcast_out, name="minimum")

add = Add(upcast_out, name="add")
mul = Mul(upcast_out, name="mul")
sub = Sub(upcast_out_nobool, name="sub")
true_div = TrueDiv(upcast_out, name="true_div")
int_div = IntDiv(upcast_out_min8, name="int_div")
floor_div = int_div
mod = Mod(upcast_out_min8, name="mod")
pow = Pow(upcast_out_min8, name="pow")
clip = Clip(upcast_out_no_complex, name="clip")
second = Second(transfer_type(1), name="second")
identity = Identity(same_out, name="identity")

convert_to_bool = CASTS["bool"]
convert_to_int8 = CASTS["int8"]
convert_to_int16 = CASTS["int16"]
convert_to_int32 = CASTS["int32"]
convert_to_int64 = CASTS["int64"]
convert_to_uint8 = CASTS["uint8"]
convert_to_uint16 = CASTS["uint16"]
convert_to_uint32 = CASTS["uint32"]
convert_to_uint64 = CASTS["uint64"]
convert_to_float16 = CASTS["float16"]
convert_to_float32 = CASTS["float32"]
convert_to_float64 = CASTS["float64"]
convert_to_complex64 = CASTS["complex64"]
convert_to_complex128 = CASTS["complex128"]

abs_ = Abs(real_out)
sgn = Sgn(same_out_nobool, name="sgn")
ceil = Ceil(upgrade_to_float_no_complex, name="ceil")
floor = Floor(upgrade_to_float_no_complex, name="floor")
trunc = Trunc(upgrade_to_float_no_complex, name="trunc")
round_half_to_even = RoundHalfToEven(upgrade_to_float_no_complex)
round_half_away_from_zero = RoundHalfAwayFromZero(upgrade_to_float_no_complex)
neg = Neg(same_out_nobool, name="neg")
inv = Inv(upgrade_to_float, name="inv")

log = Log(upgrade_to_float, name="log")
log2 = Log2(upgrade_to_float, name="log2")
log10 = Log10(upgrade_to_float, name="log10")
log1p = Log1p(upgrade_to_float, name="log1p")
exp = Exp(upgrade_to_float, name="exp")
exp2 = Exp2(upgrade_to_float, name="exp2")
expm1 = Expm1(upgrade_to_float, name="expm1")
sqr = Sqr(same_out, name="sqr")
sqrt = Sqrt(upgrade_to_float, name="sqrt")
deg2rad = Deg2Rad(upgrade_to_float_no_complex, name="deg2rad")
rad2deg = Rad2Deg(upgrade_to_float_no_complex, name="rad2deg")

cos = Cos(upgrade_to_float, name="cos")
arccos = ArcCos(upgrade_to_float, name="arccos")
sin = Sin(upgrade_to_float, name="sin")
arcsin = ArcSin(upgrade_to_float, name="arcsin")
tan = Tan(upgrade_to_float, name="tan")
arctan = ArcTan(upgrade_to_float, name="arctan")
arctan2 = ArcTan2(upgrade_to_float_no_complex, name="arctan2")
cosh = Cosh(upgrade_to_float, name="cosh")
arccosh = ArcCosh(upgrade_to_float, name="arccosh")
sinh = Sinh(upgrade_to_float, name="sinh")
arcsinh = ArcSinh(upgrade_to_float, name="arcsinh")
tanh = Tanh(upgrade_to_float, name="tanh")
arctanh = ArcTanh(upgrade_to_float, name="arctanh")

real = Real(real_out, name="real")
imag = Imag(real_out, name="imag")
angle = Angle(specific_out(float64), name="angle")
complex = Complex(complex_out, name="complex")
conj = Conj(same_out_min8, name="conj")
complex_from_polar = ComplexFromPolar(complex_out, name="complex_from_polar")

__all__ = [name for name in dir() if not name.startswith("__")]
ops.define({name: globals()[name] for name in __all__})

# This import follows the definition of `__all__`, so that ``import *`` does not export these names.
from theano_ng.lazy import CLASSIC_IMPORTS, lazy_names  # noqa: E402, see above

__getattr__, __dir__, _ = lazy_names(
    __name__,
    {
        **CLASSIC_IMPORTS,
        "builtins": "builtin_bool=bool builtin_complex=complex builtin_float=float builtin_int=int",
        "theano_ng": "gof printing",
    },
)
