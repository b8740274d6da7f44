"""Import paths below `theano` that published programs and Theano 1.0's own tests use.

Each line is a module with the names that are imported from it. GPU modules, test classes, and names that Theano 1.0
lacks or has removed are left out.
"""

PATHS = """
.: Apply Constant FunctionGraph Generic In Mode Op OpFromGraph OpWiseCLinker OrderedUpdates Out PerformLinker ProfileStats Variable __file__
    __path__ __version__ _asarray as_op change_flags clone config dot foldl foldr function function_dump generic grad
    logging_default_handler map pp pprint reduce scan scan_checkpoints shared sparse_grad subgraph_grad theano theano_logger
compat: BytesIO OrderedDict PY3 cmp decode exc_message get_unbound_function imap izip operator_div python2x six
compat.python2x: OrderedDict
compat.six: Iterator moves string_types
compat.six.moves: cPickle cStringIO input reduce xrange zip
compile: DebugMode DeepCopyOp In Mode MonitorMode ProfileStats SharedVariable UnusedInputError as_op config deep_copy_op function
    get_default_mode get_mode optdb shared view_op
compile.builders: OpFromGraph
compile.debugmode: BadDestroyMap BadOptimization BadThunkOutput BadViewMap DebugMode InvalidValueError StochasticOrder default_make_thunk
compile.function_module: _pickle_Function deep_copy_op
compile.io: In Out
compile.mode: AddFeatureOptimizer FAST_RUN Mode OPT_FAST_RUN get_default_mode get_mode optdb predefined_modes
compile.nanguardmode: NanGuardMode
compile.ops: DeepCopyOp as_op
compile.pfunc: pfunc rebuild_collect_shared
compile.profiling: ProfileStats
compile.sharedvalue: SharedVariable generic shared
configdefaults: local_bitwidth python_int_bitwidth short_platform
configparser: AddConfigVar ConfigParam StrParam THEANO_FLAGS_DICT _config_var_list change_flags
d3viz: d3viz
d3viz.formatting: PyDotFormatter pydot_imported pydot_imported_msg
gof: Apply CLinker COp CachedConstantError Constant DualLinker EnumList EquilibriumDB FunctionGraph LocalOptGroup MissingInputError Op
    OpKeyOptimizer OpWiseCLinker Params ParamsType PatternSub PerformLinker Query TopoOptimizer Type Variable WrapLinkerMany generic
    local_optimizer
gof.cc: CLinker DualLinker OpWiseCLinker
gof.cmodule: GCC_compiler get_lib_extension
gof.compilelock: get_lock release_lock
gof.destroyhandler: DestroyHandler
gof.fg: FunctionGraph InconsistencyError MissingInputError
gof.graph: Apply Constant Variable ancestors as_string clone general_toposort inputs io_toposort is_same_graph ops
gof.link: Container PerformLinker WrapLinker
gof.null_type: NullType
gof.op: Op PureOp debug_assert debug_error_message get_debug_values get_test_value
gof.opt: EquilibriumOptimizer MergeOptimizer NavigatorOptimizer OpKeyOptimizer OpSub Optimizer PatternSub TopoOptimizer check_stack_trace
    config logging out2in pre_constant_merge pre_greedy_local_optimizer theano
gof.optdb: DB opt
gof.sched: _toposort make_dependence_cmp make_depends posort reverse_dict sort_apply_nodes sort_schedule_fn
gof.toolbox: BadOptimization NoOutputFromInplace NodeFinder ReplaceValidate
gof.type: CDataType CEnumType EnumList EnumType Generic Type
gof.utils: MethodNotDefined give_variables_names remove unique
gof.vm: VM_Linker
gradient: DisconnectedInputError DisconnectedType GradClip GradScale NullTypeGradError UndefinedGrad consider_constant consider_constant_
    disconnected_grad disconnected_grad_ disconnected_type grad grad_clip grad_not_implemented grad_scale grad_undefined hessian jacobian
    verify_grad zero_grad zero_grad_
ifelse: IfElse ifelse
misc:
misc.may_share_memory: may_share_memory
misc.pkl_utils: CompatUnpickler StripPickler dump load
misc.strutil: render_string
misc.windows: output_subprocess_Popen
printing: Print _TagGenerator debugprint hex_digest min_informative_str pp pydot_imported pydotprint var_descriptor
sandbox: cuda
sandbox.linalg:
sandbox.linalg.ops: Cholesky Solve alloc_diag imported_scipy inv_as_solve matrix_inverse solve spectral_radius_bound
sandbox.multinomial: ChoiceFromUniform MultinomialFromUniform
sandbox.rng_mrg: DotModulo MRG_RandomStreams ff_2p134 ff_2p72 guess_n_streams matVecModM mrg_uniform
sandbox.softsign: softsign
scalar: Abs Add Cast ComplexError Composite EQ Identity IntDiv IntegerDivisionError Maximum Mul NEQ Neg Scalar ScalarOp Second Sub
    UnaryScalarOp add all_types and_ as_scalar autocast_float autocast_float_as constant float32 float64 identity int32 int8 maximum minimum
    mul or_ sgn transfer_type uint32 uint64 upcast upgrade_to_float upgrade_to_float_no_complex xor
scalar.basic: Cast ComplexError Composite Expm1 Identity InRange IntDiv Inv Mul Scalar Switch TrueDiv UnaryScalarOp add all_types and_
    arccos arccosh arcsin arcsinh arctan arctan2 arctanh cast complex64 constant cos cosh deg2rad div_proxy eq exp exp2 expm1 float16
    float32 float64 floats int32 int8 ints inv invert log log10 log1p log2 maximum mul neq rad2deg round_half_away_from_zero_vec sin sinh
    sqrt switch tan tanh true_div uint8 upcast upgrade_to_float
scalar.basic_scipy: GammaLn Psi imported_scipy_special
scalar.basic_sympy: SymPyCCode
scalar.sharedvar: shared
scan_module: until
scan_module.scan_op: Scan
scan_module.scan_opt: ScanMerge
scan_module.scan_utils: equal_computations map_variables until
sparse: AddSD AddSS AddSSData CSC CSM CSMGrad CSMProperties CSR Cast ColScaleCSC ConstructSparseFromList DenseFromSparse Diag Dot
    EnsureSortedIndices GetItem2Lists GetItemList GetItemScalar HStack MulSD MulSS MulSV Neg Remove0 RowScaleCSC SamplingDot SpSum
    SparseFromDense SparseType SparseVariable SquareDiagonal StructuredAddSV StructuredDot StructuredDotGradCSC StructuredDotGradCSR
    Transpose TrueDot Usmm VStack add add_s_s_data all_dtypes arcsin arcsinh arctan arctanh as_sparse as_sparse_or_tensor_variable
    as_sparse_variable cast ceil clean col_scale complex_dtypes conj construct_sparse_from_list csc_from_dense csc_matrix csm_properties
    csr_from_dense csr_matrix deg2rad dense_from_sparse diag discrete_dtypes dot enable_sparse ensure_sorted_indices eq expm1 float_dtypes
    floor ge gt hstack integer_dtypes le log1p lt matrix mul mul_s_d mul_s_v neq rad2deg rint row_scale sampling_dot sgn shared sin sinh
    sp_ones_like sp_sum sp_zeros_like sparse_formats sqr sqrt square_diagonal structured_add structured_add_s_v structured_dot
    structured_exp structured_log structured_maximum structured_minimum structured_pow structured_sigmoid tan tanh transpose true_dot trunc
    vstack
sparse.basic: CSMProperties GetItem2Lists GetItemList _is_dense _is_dense_variable _is_sparse _is_sparse_variable _mtypes as_sparse hstack
    structured_dot vstack
sparse.opt: AddSD_ccode CSMGradC SamplingDotCSR StructuredDotCSC UsmmCscDense sd_csc
sparse.sandbox:
sparse.sandbox.sp2: Binomial Multinomial Poisson multinomial poisson sampling_dot
sparse.tests:
sparse.tests.test_basic: as_sparse_format random_lil
sparse.utils: hash_from_sparse
tensor: ARange AdvancedBooleanIncSubtensor AdvancedBooleanSubtensor AdvancedIncSubtensor AdvancedIncSubtensor1 AdvancedSubtensor
    AdvancedSubtensor1 Alloc AllocDiag AllocEmpty Apply Argmax CAReduce Choose Constant DimShuffle Dot Elemwise EmptyConstantError
    ExtractDiag Eye IncSubtensor Join Lop MaxAndArgmax Mean NoneConst NotScalarConstantError Op PermuteRowElements Rebroadcast Reshape Rop
    ScalarFromTensor Shape SpecifyShape Split Subtensor Sum Tensor TensorConstant TensorFromScalar TensorType TensorVariable Tile Tri
    Variable _shared abs_ add addbroadcast advanced_inc_subtensor advanced_inc_subtensor1 advanced_set_subtensor1 all allclose alloc and_
    any arange arccos arccosh arcsin arcsinh arctan arctan2 arctanh argmax argmin argsort as_tensor as_tensor_variable batched_dot
    batched_tensordot bitwise_and bitwise_or bitwise_xor bmatrix bscalar bvector cast ceil ceil_intdiv chi2sf choose clip cmatrix col
    complex_dtypes complex_from_polar concatenate conj constant constant_cache continuous_dtypes cos cosh cov cscalar ctensor3 cumsum dcol
    default deg2rad diag discrete_dtypes dmatrices dmatrix dot drow dscalar dscalars dtensor3 dtensor4 dtensor5 dvector dvectors eq erf erfc
    erfcinv erfcx erfinv exp exp2 expm1 extract_constant eye fill fill_diagonal flatnonzero flatten float_dtypes floor floor_div fmatrices
    fmatrix fscalar fscalars ftensor3 ftensor4 fvector gamma gammaln ge get_scalar_constant_value get_vector_length grad gt hessian
    horizontal_stack i0 i1 identity_like imatrices imatrix inc_subtensor int_div int_dtypes integer_dtypes inv inverse_permutation invert
    iround is_flat iscalar iscalars isclose isinf isnan isnan_ itensor3 iv ivector ivectors j0 j1 jacobian join jv largest le lmatrix load
    log log10 log1p log2 lrow lscalar lscalars lt lvector matrices matrix max max_and_argmax maximum mean mgrid min minimum mod mul neg neq
    nonzero nonzero_values numeric_grad ogrid ones ones_like or_ outer patternbroadcast permute_row_elements pow power prod psi ptp rad2deg
    repeat reshape roll round round_half_away_from_zero round_half_to_even row scal scalar scalar_from_tensor scalars second set_subtensor
    sgn shape shape_padaxis shape_padleft shape_padright sin sinh slicetype smallest specify_shape split sqr sqrt square squeeze stack
    stacklists std sub sum swapaxes switch tan tanh tensor tensor3 tensor4 tensor5 tensor_copy tensor_from_scalar tensordot tile transpose
    tri tri_gamma tril triu true_div trunc unbroadcast vector vectors verify_grad vertical_stack where wmatrix wscalar wvector xor zeros
    zeros_like zmatrix zscalar zvector
tensor.basic: Argmax DimShuffle Dot Elemwise NotScalarConstantError Reshape ScalarFromTensor TensorConstant _allclose _convert_to_float32
    _convert_to_float64 _convert_to_int16 _convert_to_int32 _convert_to_int64 _convert_to_int8 _dot _get_atol_rtol batched_dot
    batched_tensordot constant exp float32_atol float32_rtol float64_atol float64_rtol hashtype is_flat matrix mul neg scalar true_div
    vector vectors zeros_like
tensor.blas: Dot22 Dot22Scalar Gemm Gemv Ger InconsistencyError _as_scalar _dot22 _dot22scalar _factor_canonicalized _gemm_canonicalize
    _is_real_matrix gemm gemm_inplace gemm_no_inplace gemv gemv_inplace gemv_no_inplace ger ger_destructive local_dot22_to_dot22scalar
    local_gemm_to_ger res_is_a
tensor.blas_c: CGemv CGer check_force_gemv_init
tensor.blas_scipy: ScipyGer have_fblas
tensor.elemwise: CAReduce DimShuffle Elemwise Prod ProdWithoutZeros Sum
tensor.extra_ops: Bartlett CpuContiguous CumOp DiffOp FillDiagonal FillDiagonalOffset RavelMultiIndex RepeatOp SearchsortedOp Unique
    UnravelIndex bartlett bincount compress cpu_contiguous cumprod cumsum diff fill_diagonal fill_diagonal_offset ravel_multi_index repeat
    searchsorted squeeze to_one_hot unravel_index
tensor.fft: irfft rfft
tensor.fourier: Fourier fft
tensor.inplace: abs__inplace add_inplace arccos_inplace arccosh_inplace arcsin_inplace arcsinh_inplace arctan2_inplace arctan_inplace
    arctanh_inplace ceil_inplace chi2sf_inplace conj_inplace cos_inplace cosh_inplace deg2rad_inplace erf_inplace erfc_inplace erfcx_inplace
    exp2_inplace exp_inplace expm1_inplace floor_inplace gamma_inplace gammaln_inplace i0_inplace i1_inplace int_div_inplace inv_inplace
    iv_inplace j0_inplace j1_inplace jv_inplace log10_inplace log1p_inplace log2_inplace log_inplace maximum_inplace minimum_inplace
    mod_inplace mul_inplace neg_inplace pow_inplace psi_inplace rad2deg_inplace round_half_away_from_zero_inplace round_half_to_even_inplace
    sgn_inplace sin_inplace sinh_inplace sqr_inplace sqrt_inplace sub_inplace tan_inplace tanh_inplace tri_gamma_inplace true_div_inplace
    trunc_inplace xor_inplace
tensor.io: MPISend MPISendWait mpi_cmps mpi_enabled mpi_send_wait_cmp mpi_tag_cmp recv send
tensor.nlinalg: AllocDiag Det Eig Eigh EighGrad ExtractDiag MatrixInverse MatrixPinv SVD TensorInv _zero_disconnected alloc_diag det diag
    eig eigh extract_diag lstsq matrix_dot matrix_inverse matrix_power norm pinv qr svd tensorinv tensorsolve trace
tensor.nnet: CrossentropyCategorical1Hot CrossentropyCategorical1HotGrad CrossentropySoftmax1HotWithBiasDx
    CrossentropySoftmaxArgmax1HotWithBias Prepend_scalar_constant_to_each_row Prepend_scalar_to_each_row Softmax SoftmaxGrad SoftmaxWithBias
    binary_crossentropy categorical_crossentropy confusion_matrix conv2d conv2d_transpose conv3d crossentropy_categorical_1hot
    crossentropy_softmax_1hot crossentropy_softmax_1hot_with_bias crossentropy_softmax_1hot_with_bias_dx
    crossentropy_softmax_argmax_1hot_with_bias elu h_softmax hard_sigmoid logsoftmax logsoftmax_op relu selu sigmoid
    sigmoid_binary_crossentropy sigmoid_inplace softmax softmax_grad softmax_graph softmax_op softmax_with_bias softplus ultra_fast_sigmoid
tensor.nnet.abstract_conv: AbstractConv2d AbstractConv2d_gradInputs AbstractConv2d_gradWeights AbstractConv3d AbstractConv3d_gradInputs
    AbstractConv3d_gradWeights assert_conv_shape assert_shape bilinear_kernel_1D bilinear_kernel_2D bilinear_upsampling causal_conv1d
    check_conv_gradinputs_shape conv2d conv2d_grad_wrt_inputs conv2d_grad_wrt_weights conv3d conv3d_grad_wrt_inputs conv3d_grad_wrt_weights
    get_conv_gradinputs_shape get_conv_gradweights_shape get_conv_output_shape imported_scipy_signal separable_conv2d separable_conv3d
tensor.nnet.blocksparse: SparseBlockGemv SparseBlockOuter sparse_block_dot sparse_block_gemv sparse_block_gemv_inplace sparse_block_outer
    sparse_block_outer_inplace
tensor.nnet.bn: AbstractBatchNormInference AbstractBatchNormTrain AbstractBatchNormTrainGrad batch_normalization batch_normalization_test
    batch_normalization_train
tensor.nnet.conv: ConvOp conv2d imported_scipy_signal
tensor.nnet.conv3d2d: DiagonalSubtensor IncDiagonalSubtensor conv3d get_diagonal_subtensor_view
tensor.nnet.corr: CorrMM CorrMM_gradInputs CorrMM_gradWeights
tensor.nnet.corr3d: Corr3dMM Corr3dMM_gradInputs Corr3dMM_gradWeights
tensor.nnet.ctc: ConnectionistTemporalClassification ctc ctc_available
tensor.nnet.neighbours: Images2Neibs images2neibs neibs2images
tensor.nnet.nnet: LogSoftmax softsign
tensor.nnet.sigm: ScalarSigmoid ScalarSoftplus compute_mul is_1pexp parse_mul_tree perform_sigm_times_exp register_local_1msigmoid
    simplify_mul softplus
tensor.nnet.tests:
tensor.nnet.tests.test_abstract_conv:
tensor.opt: Assert MakeVector ShapeFeature Shape_i assert_ assert_op constant_folding in2out local_add_specialize local_canonicalize_alloc
    local_dimshuffle_lift local_greedy_distributor local_lift_transpose_through_dot local_merge_alloc local_reshape_to_dimshuffle
    local_useless_alloc local_useless_dimshuffle_in_reshape local_useless_elemwise local_useless_reshape make_vector mul_canonizer
    register_specialize
tensor.opt_uncanonicalize: local_alloc_dimshuffle local_dimshuffle_alloc local_dimshuffle_subtensor local_reshape_dimshuffle
tensor.raw_random: _infer_ndim_bcast
tensor.shared_randomstreams: RandomStateSharedVariable RandomStreams
tensor.sharedvar: SharedVariable TensorSharedVariable
tensor.signal: downsample
tensor.signal.conv: conv2d
tensor.signal.downsample: max_pool_2d
tensor.signal.pool: AveragePoolGrad DownsampleFactorMaxGradGrad MaxPoolGrad Pool max_pool_2d_same_size pool_2d pool_3d
tensor.slinalg: Cholesky CholeskyGrad Eigvalsh EigvalshGrad Solve cholesky eigvalsh expm kron solve solve_lower_triangular
    solve_upper_triangular
tensor.sort: ArgSortOp SortOp TopKOp argsort argtopk sort topk topk_and_argtopk
tensor.subtensor: AdvancedIncSubtensor AdvancedIncSubtensor1 AdvancedSubtensor IncSubtensor Subtensor advanced_inc_subtensor
    advanced_inc_subtensor1 advanced_set_subtensor advanced_set_subtensor1 get_canonical_form_slice inc_subtensor set_subtensor
tensor.tests:
tensor.tests.test_basic: _good_broadcast_unary_normal_float_no_complex _good_broadcast_unary_normal_no_complex check_floatX copymod
    inplace_func makeBroadcastTester rand randint_ranged upcast_int8_nfunc
tensor.tests.test_blas: BaseGemv TestBlasStrides
tensor.tests.test_sharedvar: makeSharedTester
tensor.type: values_eq_approx_remove_nan
tensor.type_other: MakeSlice NoneConst NoneTypeT SliceConstant SliceType make_slice slicetype
tensor.utils: hash_from_ndarray shape_of_variables
tensor.var: TensorConstant TensorVariable
tensor.xlogx: xlogx xlogy0
tests: disturb_mem
tests.breakpoint: PdbBreakpoint
tests.main: TheanoNoseTester main
tests.record: MismatchError Record RecordMode
tests.test_rop: break_op
tests.unittest_tools: InferShapeTester SkipTest T_OpContractMixin TestOptimizationMixin WrongValue assertFailure_fast assert_allclose attr
    custom_name_func fetch_seed parameterized seed_rng verify_grad
typed_list: TypedListVariable make_list
typed_list.basic: Append Count Extend GetItem Index Insert Length Remove Reverse make_list
typed_list.type: TypedListType
updates: OrderedUpdates
"""
"""Module below the package ("." is the package), a colon, names; lines that are indented go on."""


def paths():
    """Yield pairs of a module's path below the package and a list of names. The package itself has an empty path."""
    for line in PATHS.strip().replace("\n    ", " ").splitlines():
        module, _, names = line.partition(":")
        yield "" if module == "." else module, names.split()
