/* The parts of cuDNN 9 that are used: names, arguments and constants of its documented interface. The library is loaded
 * when it is first needed, so no CUDA files are needed to build this package. */
#ifndef TNG_CUDNN_LIBRARY_H
#define TNG_CUDNN_LIBRARY_H

#include <stddef.h>
#include <stdint.h>

struct CUstream_st;

typedef int cudnnStatus_t;
typedef struct cudnnContext *cudnnHandle_t;

/* The descriptors are opaque here. */
typedef struct cudnnTensorStruct *cudnnTensorDescriptor_t;
typedef struct cudnnReduceTensorStruct *cudnnReduceTensorDescriptor_t;
typedef struct cudnnFilterStruct *cudnnFilterDescriptor_t;
typedef struct cudnnConvolutionStruct *cudnnConvolutionDescriptor_t;
typedef struct cudnnPoolingStruct *cudnnPoolingDescriptor_t;
typedef struct cudnnDropoutStruct *cudnnDropoutDescriptor_t;
typedef struct cudnnSpatialTransformerStruct *cudnnSpatialTransformerDescriptor_t;
typedef struct cudnnRNNStruct *cudnnRNNDescriptor_t;
typedef struct cudnnRNNDataStruct *cudnnRNNDataDescriptor_t;
typedef void *cudnnBackendDescriptor_t;

/* The thousands of a status are its category. */
enum {
    CUDNN_STATUS_SUCCESS = 0,
    CUDNN_STATUS_NOT_INITIALIZED = 1001,
    CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH = 1002,
    CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED = 1008,
    CUDNN_STATUS_BAD_PARAM = 2000,
    CUDNN_STATUS_NOT_SUPPORTED = 3000,
    CUDNN_STATUS_NOT_SUPPORTED_SUBLIBRARY_UNAVAILABLE = 3009,
    CUDNN_STATUS_INTERNAL_ERROR = 4000,
    CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED = 4003,
    CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED = 4004,
    CUDNN_STATUS_EXECUTION_FAILED = 5000,
};

enum {
    CUDNN_DATA_FLOAT = 0,
    CUDNN_DATA_DOUBLE = 1,
    CUDNN_DATA_HALF = 2,
    CUDNN_DIM_MAX = 8,
    CUDNN_NOT_PROPAGATE_NAN = 0,
    CUDNN_PROPAGATE_NAN = 1,
};

enum {
    CUDNN_SOFTMAX_FAST = 0,
    CUDNN_SOFTMAX_ACCURATE = 1,
    CUDNN_SOFTMAX_LOG = 2,
    CUDNN_SOFTMAX_MODE_INSTANCE = 0,
    CUDNN_SOFTMAX_MODE_CHANNEL = 1,
};

enum {
    CUDNN_REDUCE_TENSOR_ADD = 0,
    CUDNN_REDUCE_TENSOR_MUL = 1,
    CUDNN_REDUCE_TENSOR_MIN = 2,
    CUDNN_REDUCE_TENSOR_MAX = 3,
    CUDNN_REDUCE_TENSOR_AMAX = 4,
    CUDNN_REDUCE_TENSOR_AVG = 5,
    CUDNN_REDUCE_TENSOR_NORM1 = 6,
    CUDNN_REDUCE_TENSOR_NORM2 = 7,
    CUDNN_REDUCE_TENSOR_MUL_NO_ZEROS = 8,
    CUDNN_REDUCE_TENSOR_NO_INDICES = 0,
    CUDNN_REDUCE_TENSOR_FLATTENED_INDICES = 1,
    CUDNN_32BIT_INDICES = 0,
};

enum {
    CUDNN_TENSOR_NCHW = 0,
    CUDNN_CONVOLUTION = 0,
    CUDNN_CROSS_CORRELATION = 1,
    CUDNN_DEFAULT_MATH = 0,
    CUDNN_TENSOR_OP_MATH = 1,
    CUDNN_FMA_MATH = 3,
    CUDNN_NON_DETERMINISTIC = 0,
    CUDNN_DETERMINISTIC = 1,
    CUDNN_CONVOLUTION_FWD_ALGO_COUNT = 8,
    CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0 = 0,
    CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1 = 1,
    CUDNN_CONVOLUTION_BWD_FILTER_ALGO_3 = 3,
    CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT = 7,
    CUDNN_CONVOLUTION_BWD_DATA_ALGO_0 = 0,
    CUDNN_CONVOLUTION_BWD_DATA_ALGO_1 = 1,
    CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT = 6,
};

/* The library's record of an algorithm: cudnnConvolutionFwdAlgoPerf_t, and the same for both gradients */
typedef struct {
    int algo;
    cudnnStatus_t status;
    float time; /* milliseconds */
    size_t memory;
    int determinism, mathType, reserved[3];
} cudnnConvolutionAlgoPerf_t;

enum {
    CUDNN_POOLING_MAX = 0,
    CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING = 1,
    CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING = 2,
    CUDNN_POOLING_MAX_DETERMINISTIC = 3,
};

enum {
    CUDNN_BATCHNORM_PER_ACTIVATION = 0,
    CUDNN_BATCHNORM_SPATIAL = 1,
};

enum {
    CUDNN_RNN_ALGO_STANDARD = 0,
    CUDNN_FWD_MODE_TRAINING = 1,
    CUDNN_RNN_RELU = 0,
    CUDNN_RNN_TANH = 1,
    CUDNN_LSTM = 2,
    CUDNN_GRU = 3,
    CUDNN_RNN_DOUBLE_BIAS = 2,
    CUDNN_UNIDIRECTIONAL = 0,
    CUDNN_BIDIRECTIONAL = 1,
    CUDNN_LINEAR_INPUT = 0,
    CUDNN_SKIP_INPUT = 1,
    CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED = 0,
    CUDNN_WGRAD_MODE_ADD = 0,
};

enum {
    CUDNN_SAMPLER_BILINEAR = 0,
};

/* A flag, as CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED needs it */
#define CUDNN_RNN_PADDED_IO_ENABLED 1u

/* The oldest supported version, as cudnnGetVersion() returns it: 9.0.0 */
#define CUDNN_OLDEST 90000

/* Graphs of operations. A descriptor has a kind, and attributes of these types. */
enum {
    CUDNN_BACKEND_POINTWISE_DESCRIPTOR = 0,
    CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR = 1,
    CUDNN_BACKEND_ENGINE_DESCRIPTOR = 2,
    CUDNN_BACKEND_ENGINECFG_DESCRIPTOR = 3,
    CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR = 4,
    CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR = 5,
    CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR = 10,
    CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR = 13,
    CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR = 15,
    CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR = 16,
    CUDNN_BACKEND_TENSOR_DESCRIPTOR = 17,
};

enum {
    CUDNN_TYPE_HANDLE = 0,
    CUDNN_TYPE_DATA_TYPE = 1,
    CUDNN_TYPE_BOOLEAN = 2,
    CUDNN_TYPE_INT64 = 3,
    CUDNN_TYPE_FLOAT = 4,
    CUDNN_TYPE_DOUBLE = 5,
    CUDNN_TYPE_VOID_PTR = 6,
    CUDNN_TYPE_CONVOLUTION_MODE = 7,
    CUDNN_TYPE_HEUR_MODE = 8,
    CUDNN_TYPE_NAN_PROPOGATION = 10, /* the library's spelling */
    CUDNN_TYPE_NUMERICAL_NOTE = 11,
    CUDNN_TYPE_POINTWISE_MODE = 14,
    CUDNN_TYPE_BACKEND_DESCRIPTOR = 15,
};

enum {
    CUDNN_ATTR_POINTWISE_MODE = 0,
    CUDNN_ATTR_POINTWISE_MATH_PREC = 1,
    CUDNN_ATTR_POINTWISE_NAN_PROPAGATION = 2,
    CUDNN_ATTR_CONVOLUTION_COMP_TYPE = 100,
    CUDNN_ATTR_CONVOLUTION_CONV_MODE = 101,
    CUDNN_ATTR_CONVOLUTION_DILATIONS = 102,
    CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES = 103,
    CUDNN_ATTR_CONVOLUTION_POST_PADDINGS = 104,
    CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS = 105,
    CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS = 106,
    CUDNN_ATTR_ENGINEHEUR_MODE = 200,
    CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH = 201,
    CUDNN_ATTR_ENGINEHEUR_RESULTS = 202,
    CUDNN_ATTR_ENGINECFG_ENGINE = 300,
    CUDNN_ATTR_EXECUTION_PLAN_HANDLE = 400,
    CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG = 401,
    CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE = 402,
    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA = 700,
    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA = 701,
    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC = 702,
    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W = 703,
    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X = 704,
    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y = 705,
    CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR = 750,
    CUDNN_ATTR_OPERATION_POINTWISE_XDESC = 751,
    CUDNN_ATTR_OPERATION_POINTWISE_BDESC = 752,
    CUDNN_ATTR_OPERATION_POINTWISE_YDESC = 753,
    CUDNN_ATTR_OPERATION_POINTWISE_ALPHA1 = 754,
    CUDNN_ATTR_OPERATIONGRAPH_HANDLE = 800,
    CUDNN_ATTR_OPERATIONGRAPH_OPS = 801,
    CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT = 900,
    CUDNN_ATTR_TENSOR_DATA_TYPE = 901,
    CUDNN_ATTR_TENSOR_DIMENSIONS = 902,
    CUDNN_ATTR_TENSOR_STRIDES = 903,
    CUDNN_ATTR_TENSOR_UNIQUE_ID = 906,
    CUDNN_ATTR_TENSOR_IS_VIRTUAL = 907,
    CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS = 1000,
    CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS = 1001,
    CUDNN_ATTR_VARIANT_PACK_WORKSPACE = 1003,
    CUDNN_ATTR_ENGINE_NUMERICAL_NOTE = 1303,
};

enum {
    CUDNN_POINTWISE_ADD = 0,
    CUDNN_POINTWISE_RELU_FWD = 100,
    CUDNN_POINTWISE_TANH_FWD = 101,
    CUDNN_POINTWISE_SIGMOID_FWD = 102,
    CUDNN_HEUR_MODE_FALLBACK = 2,
    CUDNN_HEUR_MODE_A = 3,
    CUDNN_NUMERICAL_NOTE_TENSOR_CORE = 0,
    CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS = 1,
    CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION = 2,
    CUDNN_NUMERICAL_NOTE_FFT = 3,
    CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC = 4,
    CUDNN_NUMERICAL_NOTE_WINOGRAD = 5,
};

/* Each list of functions has the rows X(name, result, argument types). A new family of functions has a list of its own,
 * which is added to CUDNN_FUNCTIONS. */
#define CUDNN_CORE_FUNCTIONS(X)                                                           \
    X(cudnnGetVersion, size_t, (void))                                                    \
    X(cudnnGetCudartVersion, size_t, (void))                                              \
    X(cudnnGetErrorString, const char *, (cudnnStatus_t))                                 \
    X(cudnnGetLastErrorString, void, (char *message, size_t size))                        \
    X(cudnnCreate, cudnnStatus_t, (cudnnHandle_t *))                                      \
    X(cudnnDestroy, cudnnStatus_t, (cudnnHandle_t))                                       \
    X(cudnnSetStream, cudnnStatus_t, (cudnnHandle_t, struct CUstream_st *))               \
    X(cudnnCreateTensorDescriptor, cudnnStatus_t, (cudnnTensorDescriptor_t *))            \
    X(cudnnSetTensorNdDescriptor, cudnnStatus_t,                                          \
      (cudnnTensorDescriptor_t, int type, int nd, const int dims[], const int strides[])) \
    X(cudnnDestroyTensorDescriptor, cudnnStatus_t, (cudnnTensorDescriptor_t))

#define CUDNN_SOFTMAX_FUNCTIONS(X)                                                                                 \
    X(cudnnSoftmaxForward, cudnnStatus_t,                                                                          \
      (cudnnHandle_t, int algorithm, int mode, const void *alpha, cudnnTensorDescriptor_t x_layout, const void *x, \
       const void *beta, cudnnTensorDescriptor_t y_layout, void *y))                                               \
    X(cudnnSoftmaxBackward, cudnnStatus_t,                                                                         \
      (cudnnHandle_t, int algorithm, int mode, const void *alpha, cudnnTensorDescriptor_t y_layout, const void *y, \
       cudnnTensorDescriptor_t dy_layout, const void *dy, const void *beta, cudnnTensorDescriptor_t dx_layout,     \
       void *dx))

#define CUDNN_REDUCTION_FUNCTIONS(X)                                                                                \
    X(cudnnCreateReduceTensorDescriptor, cudnnStatus_t, (cudnnReduceTensorDescriptor_t *))                          \
    X(cudnnSetReduceTensorDescriptor, cudnnStatus_t,                                                                \
      (cudnnReduceTensorDescriptor_t, int operation, int compute, int nan, int indices, int indices_type))          \
    X(cudnnDestroyReduceTensorDescriptor, cudnnStatus_t, (cudnnReduceTensorDescriptor_t))                           \
    X(cudnnGetReductionIndicesSize, cudnnStatus_t,                                                                  \
      (cudnnHandle_t, cudnnReduceTensorDescriptor_t, cudnnTensorDescriptor_t a, cudnnTensorDescriptor_t c,          \
       size_t *size))                                                                                               \
    X(cudnnGetReductionWorkspaceSize, cudnnStatus_t,                                                                \
      (cudnnHandle_t, cudnnReduceTensorDescriptor_t, cudnnTensorDescriptor_t a, cudnnTensorDescriptor_t c,          \
       size_t *size))                                                                                               \
    X(cudnnReduceTensor, cudnnStatus_t,                                                                             \
      (cudnnHandle_t, cudnnReduceTensorDescriptor_t, void *indices, size_t indices_size, void *workspace,           \
       size_t workspace_size, const void *alpha, cudnnTensorDescriptor_t a_layout, const void *a, const void *beta, \
       cudnnTensorDescriptor_t c_layout, void *c))

#define CUDNN_CONVOLUTION_FUNCTIONS(X)                                                                                \
    X(cudnnCreateFilterDescriptor, cudnnStatus_t, (cudnnFilterDescriptor_t *))                                        \
    X(cudnnSetFilterNdDescriptor, cudnnStatus_t,                                                                      \
      (cudnnFilterDescriptor_t, int type, int format, int nd, const int dims[]))                                      \
    X(cudnnDestroyFilterDescriptor, cudnnStatus_t, (cudnnFilterDescriptor_t))                                         \
    X(cudnnCreateConvolutionDescriptor, cudnnStatus_t, (cudnnConvolutionDescriptor_t *))                              \
    X(cudnnSetConvolutionNdDescriptor, cudnnStatus_t,                                                                 \
      (cudnnConvolutionDescriptor_t, int axes, const int pad[], const int stride[], const int dilation[], int mode,   \
       int compute))                                                                                                  \
    X(cudnnSetConvolutionGroupCount, cudnnStatus_t, (cudnnConvolutionDescriptor_t, int groups))                       \
    X(cudnnSetConvolutionMathType, cudnnStatus_t, (cudnnConvolutionDescriptor_t, int math))                           \
    X(cudnnDestroyConvolutionDescriptor, cudnnStatus_t, (cudnnConvolutionDescriptor_t))                               \
    X(cudnnGetConvolutionForwardAlgorithm_v7, cudnnStatus_t,                                                          \
      (cudnnHandle_t, cudnnTensorDescriptor_t x_layout, cudnnFilterDescriptor_t w_layout,                             \
       cudnnConvolutionDescriptor_t, cudnnTensorDescriptor_t y_layout, int most, int *count,                          \
       cudnnConvolutionAlgoPerf_t *found))                                                                            \
    X(cudnnFindConvolutionForwardAlgorithmEx, cudnnStatus_t,                                                          \
      (cudnnHandle_t, cudnnTensorDescriptor_t x_layout, const void *x, cudnnFilterDescriptor_t w_layout,              \
       const void *w, cudnnConvolutionDescriptor_t, cudnnTensorDescriptor_t y_layout, void *y, int most, int *count,  \
       cudnnConvolutionAlgoPerf_t *found, void *workspace, size_t workspace_size))                                    \
    X(cudnnGetConvolutionForwardWorkspaceSize, cudnnStatus_t,                                                         \
      (cudnnHandle_t, cudnnTensorDescriptor_t x_layout, cudnnFilterDescriptor_t w_layout,                             \
       cudnnConvolutionDescriptor_t, cudnnTensorDescriptor_t y_layout, int algorithm, size_t *size))                  \
    X(cudnnConvolutionForward, cudnnStatus_t,                                                                         \
      (cudnnHandle_t, const void *alpha, cudnnTensorDescriptor_t x_layout, const void *x,                             \
       cudnnFilterDescriptor_t w_layout, const void *w, cudnnConvolutionDescriptor_t, int algorithm, void *workspace, \
       size_t workspace_size, const void *beta, cudnnTensorDescriptor_t y_layout, void *y))                           \
    X(cudnnGetConvolutionBackwardFilterAlgorithm_v7, cudnnStatus_t,                                                   \
      (cudnnHandle_t, cudnnTensorDescriptor_t x_layout, cudnnTensorDescriptor_t dy_layout,                            \
       cudnnConvolutionDescriptor_t, cudnnFilterDescriptor_t dw_layout, int most, int *count,                         \
       cudnnConvolutionAlgoPerf_t *found))                                                                            \
    X(cudnnFindConvolutionBackwardFilterAlgorithmEx, cudnnStatus_t,                                                   \
      (cudnnHandle_t, cudnnTensorDescriptor_t x_layout, const void *x, cudnnTensorDescriptor_t dy_layout,             \
       const void *dy, cudnnConvolutionDescriptor_t, cudnnFilterDescriptor_t dw_layout, void *dw, int most,           \
       int *count, cudnnConvolutionAlgoPerf_t *found, void *workspace, size_t workspace_size))                        \
    X(cudnnGetConvolutionBackwardFilterWorkspaceSize, cudnnStatus_t,                                                  \
      (cudnnHandle_t, cudnnTensorDescriptor_t x_layout, cudnnTensorDescriptor_t dy_layout,                            \
       cudnnConvolutionDescriptor_t, cudnnFilterDescriptor_t dw_layout, int algorithm, size_t *size))                 \
    X(cudnnConvolutionBackwardFilter, cudnnStatus_t,                                                                  \
      (cudnnHandle_t, const void *alpha, cudnnTensorDescriptor_t x_layout, const void *x,                             \
       cudnnTensorDescriptor_t dy_layout, const void *dy, cudnnConvolutionDescriptor_t, int algorithm,                \
       void *workspace, size_t workspace_size, const void *beta, cudnnFilterDescriptor_t dw_layout, void *dw))        \
    X(cudnnGetConvolutionBackwardDataAlgorithm_v7, cudnnStatus_t,                                                     \
      (cudnnHandle_t, cudnnFilterDescriptor_t w_layout, cudnnTensorDescriptor_t dy_layout,                            \
       cudnnConvolutionDescriptor_t, cudnnTensorDescriptor_t dx_layout, int most, int *count,                         \
       cudnnConvolutionAlgoPerf_t *found))                                                                            \
    X(cudnnFindConvolutionBackwardDataAlgorithmEx, cudnnStatus_t,                                                     \
      (cudnnHandle_t, cudnnFilterDescriptor_t w_layout, const void *w, cudnnTensorDescriptor_t dy_layout,             \
       const void *dy, cudnnConvolutionDescriptor_t, cudnnTensorDescriptor_t dx_layout, void *dx, int most,           \
       int *count, cudnnConvolutionAlgoPerf_t *found, void *workspace, size_t workspace_size))                        \
    X(cudnnGetConvolutionBackwardDataWorkspaceSize, cudnnStatus_t,                                                    \
      (cudnnHandle_t, cudnnFilterDescriptor_t w_layout, cudnnTensorDescriptor_t dy_layout,                            \
       cudnnConvolutionDescriptor_t, cudnnTensorDescriptor_t dx_layout, int algorithm, size_t *size))                 \
    X(cudnnConvolutionBackwardData, cudnnStatus_t,                                                                    \
      (cudnnHandle_t, const void *alpha, cudnnFilterDescriptor_t w_layout, const void *w,                             \
       cudnnTensorDescriptor_t dy_layout, const void *dy, cudnnConvolutionDescriptor_t, int algorithm,                \
       void *workspace, size_t workspace_size, const void *beta, cudnnTensorDescriptor_t dx_layout, void *dx))

#define CUDNN_POOLING_FUNCTIONS(X)                                                                                    \
    X(cudnnCreatePoolingDescriptor, cudnnStatus_t, (cudnnPoolingDescriptor_t *))                                      \
    X(cudnnSetPoolingNdDescriptor, cudnnStatus_t,                                                                     \
      (cudnnPoolingDescriptor_t, int mode, int nan, int nd, const int window[], const int pad[], const int stride[])) \
    X(cudnnDestroyPoolingDescriptor, cudnnStatus_t, (cudnnPoolingDescriptor_t))                                       \
    X(cudnnPoolingForward, cudnnStatus_t,                                                                             \
      (cudnnHandle_t, cudnnPoolingDescriptor_t, const void *alpha, cudnnTensorDescriptor_t x_layout, const void *x,   \
       const void *beta, cudnnTensorDescriptor_t y_layout, void *y))                                                  \
    X(cudnnPoolingBackward, cudnnStatus_t,                                                                            \
      (cudnnHandle_t, cudnnPoolingDescriptor_t, const void *alpha, cudnnTensorDescriptor_t y_layout, const void *y,   \
       cudnnTensorDescriptor_t dy_layout, const void *dy, cudnnTensorDescriptor_t x_layout, const void *x,            \
       const void *beta, cudnnTensorDescriptor_t dx_layout, void *dx))

#define CUDNN_NORMALIZATION_FUNCTIONS(X)                                                                              \
    X(cudnnBatchNormalizationForwardTraining, cudnnStatus_t,                                                          \
      (cudnnHandle_t, int mode, const void *alpha, const void *beta, cudnnTensorDescriptor_t x_layout, const void *x, \
       cudnnTensorDescriptor_t y_layout, void *y, cudnnTensorDescriptor_t statistic, const void *scale,               \
       const void *bias, double factor, void *running_mean, void *running_variance, double epsilon, void *mean,       \
       void *invstd))                                                                                                 \
    X(cudnnBatchNormalizationForwardInference, cudnnStatus_t,                                                         \
      (cudnnHandle_t, int mode, const void *alpha, const void *beta, cudnnTensorDescriptor_t x_layout, const void *x, \
       cudnnTensorDescriptor_t y_layout, void *y, cudnnTensorDescriptor_t statistic, const void *scale,               \
       const void *bias, const void *mean, const void *variance, double epsilon))                                     \
    X(cudnnBatchNormalizationBackward, cudnnStatus_t,                                                                 \
      (cudnnHandle_t, int mode, const void *alpha, const void *beta, const void *alpha_params,                        \
       const void *beta_params, cudnnTensorDescriptor_t x_layout, const void *x, cudnnTensorDescriptor_t dy_layout,   \
       const void *dy, cudnnTensorDescriptor_t dx_layout, void *dx, cudnnTensorDescriptor_t statistic,                \
       const void *scale, void *dscale, void *dbias, double epsilon, const void *mean, const void *invstd))

#define CUDNN_DROPOUT_FUNCTIONS(X)                                                                               \
    X(cudnnCreateDropoutDescriptor, cudnnStatus_t, (cudnnDropoutDescriptor_t *))                                 \
    X(cudnnDestroyDropoutDescriptor, cudnnStatus_t, (cudnnDropoutDescriptor_t))                                  \
    X(cudnnDropoutGetStatesSize, cudnnStatus_t, (cudnnHandle_t, size_t *size))                                   \
    X(cudnnDropoutGetReserveSpaceSize, cudnnStatus_t, (cudnnTensorDescriptor_t, size_t *size))                   \
    X(cudnnSetDropoutDescriptor, cudnnStatus_t,                                                                  \
      (cudnnDropoutDescriptor_t, cudnnHandle_t, float rate, void *states, size_t size, unsigned long long seed)) \
    X(cudnnRestoreDropoutDescriptor, cudnnStatus_t,                                                              \
      (cudnnDropoutDescriptor_t, cudnnHandle_t, float rate, void *states, size_t size, unsigned long long seed)) \
    X(cudnnGetDropoutDescriptor, cudnnStatus_t,                                                                  \
      (cudnnDropoutDescriptor_t, cudnnHandle_t, float *rate, void **states, unsigned long long *seed))           \
    X(cudnnDropoutForward, cudnnStatus_t,                                                                        \
      (cudnnHandle_t, cudnnDropoutDescriptor_t, cudnnTensorDescriptor_t x_layout, const void *x,                 \
       cudnnTensorDescriptor_t y_layout, void *y, void *reserve, size_t size))                                   \
    X(cudnnDropoutBackward, cudnnStatus_t,                                                                       \
      (cudnnHandle_t, cudnnDropoutDescriptor_t, cudnnTensorDescriptor_t dy_layout, const void *dy,               \
       cudnnTensorDescriptor_t dx_layout, void *dx, void *reserve, size_t size))

#define CUDNN_RNN_FUNCTIONS(X)                                                                                         \
    X(cudnnCreateRNNDescriptor, cudnnStatus_t, (cudnnRNNDescriptor_t *))                                               \
    X(cudnnDestroyRNNDescriptor, cudnnStatus_t, (cudnnRNNDescriptor_t))                                                \
    X(cudnnSetRNNDescriptor_v8, cudnnStatus_t,                                                                         \
      (cudnnRNNDescriptor_t, int algorithm, int mode, int bias, int direction, int input_mode, int type,               \
       int precision, int math, int32_t input, int32_t hidden, int32_t projection, int32_t layers,                     \
       cudnnDropoutDescriptor_t, uint32_t flags))                                                                      \
    X(cudnnGetRNNDescriptor_v8, cudnnStatus_t,                                                                         \
      (cudnnRNNDescriptor_t, int *algorithm, int *mode, int *bias, int *direction, int *input_mode, int *type,         \
       int *precision, int *math, int32_t *input, int32_t *hidden, int32_t *projection, int32_t *layers,               \
       cudnnDropoutDescriptor_t *, uint32_t *flags))                                                                   \
    X(cudnnCreateRNNDataDescriptor, cudnnStatus_t, (cudnnRNNDataDescriptor_t *))                                       \
    X(cudnnDestroyRNNDataDescriptor, cudnnStatus_t, (cudnnRNNDataDescriptor_t))                                        \
    X(cudnnSetRNNDataDescriptor, cudnnStatus_t,                                                                        \
      (cudnnRNNDataDescriptor_t, int type, int layout, int steps, int batch, int vector, const int lengths[],          \
       void *padding))                                                                                                 \
    X(cudnnGetRNNTempSpaceSizes, cudnnStatus_t,                                                                        \
      (cudnnHandle_t, cudnnRNNDescriptor_t, int mode, cudnnRNNDataDescriptor_t x_layout, size_t *workspace,            \
       size_t *reserve))                                                                                               \
    X(cudnnGetRNNWeightSpaceSize, cudnnStatus_t, (cudnnHandle_t, cudnnRNNDescriptor_t, size_t *size))                  \
    X(cudnnGetRNNWeightParams, cudnnStatus_t,                                                                          \
      (cudnnHandle_t, cudnnRNNDescriptor_t, int32_t layer, size_t size, const void *weights, int32_t id,               \
       cudnnTensorDescriptor_t matrix_layout, void **matrix, cudnnTensorDescriptor_t bias_layout, void **bias))        \
    X(cudnnRNNForward, cudnnStatus_t,                                                                                  \
      (cudnnHandle_t, cudnnRNNDescriptor_t, int mode, const int32_t *lengths, cudnnRNNDataDescriptor_t x_layout,       \
       const void *x, cudnnRNNDataDescriptor_t y_layout, void *y, cudnnTensorDescriptor_t h_layout, const void *hx,    \
       void *hy, cudnnTensorDescriptor_t c_layout, const void *cx, void *cy, size_t weights_size, const void *weights, \
       size_t workspace_size, void *workspace, size_t reserve_size, void *reserve))                                    \
    X(cudnnRNNBackwardData_v8, cudnnStatus_t,                                                                          \
      (cudnnHandle_t, cudnnRNNDescriptor_t, const int32_t *lengths, cudnnRNNDataDescriptor_t y_layout, const void *y,  \
       const void *dy, cudnnRNNDataDescriptor_t x_layout, void *dx, cudnnTensorDescriptor_t h_layout, const void *hx,  \
       const void *dhy, void *dhx, cudnnTensorDescriptor_t c_layout, const void *cx, const void *dcy, void *dcx,       \
       size_t weights_size, const void *weights, size_t workspace_size, void *workspace, size_t reserve_size,          \
       void *reserve))                                                                                                 \
    X(cudnnRNNBackwardWeights_v8, cudnnStatus_t,                                                                       \
      (cudnnHandle_t, cudnnRNNDescriptor_t, int add, const int32_t *lengths, cudnnRNNDataDescriptor_t x_layout,        \
       const void *x, cudnnTensorDescriptor_t h_layout, const void *hx, cudnnRNNDataDescriptor_t y_layout,             \
       const void *y, size_t weights_size, void *dweights, size_t workspace_size, void *workspace,                     \
       size_t reserve_size, void *reserve))

#define CUDNN_TRANSFORMER_FUNCTIONS(X)                                                                          \
    X(cudnnCreateSpatialTransformerDescriptor, cudnnStatus_t, (cudnnSpatialTransformerDescriptor_t *))          \
    X(cudnnSetSpatialTransformerNdDescriptor, cudnnStatus_t,                                                    \
      (cudnnSpatialTransformerDescriptor_t, int sampler, int type, int nd, const int dims[]))                   \
    X(cudnnDestroySpatialTransformerDescriptor, cudnnStatus_t, (cudnnSpatialTransformerDescriptor_t))           \
    X(cudnnSpatialTfGridGeneratorForward, cudnnStatus_t,                                                        \
      (cudnnHandle_t, cudnnSpatialTransformerDescriptor_t, const void *theta, void *grid))                      \
    X(cudnnSpatialTfGridGeneratorBackward, cudnnStatus_t,                                                       \
      (cudnnHandle_t, cudnnSpatialTransformerDescriptor_t, const void *dgrid, void *dtheta))                    \
    X(cudnnSpatialTfSamplerForward, cudnnStatus_t,                                                              \
      (cudnnHandle_t, cudnnSpatialTransformerDescriptor_t, const void *alpha, cudnnTensorDescriptor_t x_layout, \
       const void *x, const void *grid, const void *beta, cudnnTensorDescriptor_t y_layout, void *y))           \
    X(cudnnSpatialTfSamplerBackward, cudnnStatus_t,                                                             \
      (cudnnHandle_t, cudnnSpatialTransformerDescriptor_t, const void *alpha, cudnnTensorDescriptor_t x_layout, \
       const void *x, const void *beta, cudnnTensorDescriptor_t dx_layout, void *dx, const void *alpha_grid,    \
       cudnnTensorDescriptor_t dy_layout, const void *dy, const void *grid, const void *beta_grid, void *dgrid))

#define CUDNN_GRAPH_FUNCTIONS(X)                                                                  \
    X(cudnnBackendCreateDescriptor, cudnnStatus_t, (int kind, cudnnBackendDescriptor_t *))        \
    X(cudnnBackendDestroyDescriptor, cudnnStatus_t, (cudnnBackendDescriptor_t))                   \
    X(cudnnBackendSetAttribute, cudnnStatus_t,                                                    \
      (cudnnBackendDescriptor_t, int name, int type, int64_t count, const void *values))          \
    X(cudnnBackendFinalize, cudnnStatus_t, (cudnnBackendDescriptor_t))                            \
    X(cudnnBackendGetAttribute, cudnnStatus_t,                                                    \
      (cudnnBackendDescriptor_t, int name, int type, int64_t most, int64_t *count, void *values)) \
    X(cudnnBackendExecute, cudnnStatus_t, (cudnnHandle_t, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack))

#define CUDNN_FUNCTIONS(X)           \
    CUDNN_CORE_FUNCTIONS(X)          \
    CUDNN_SOFTMAX_FUNCTIONS(X)       \
    CUDNN_REDUCTION_FUNCTIONS(X)     \
    CUDNN_CONVOLUTION_FUNCTIONS(X)   \
    CUDNN_POOLING_FUNCTIONS(X)       \
    CUDNN_NORMALIZATION_FUNCTIONS(X) \
    CUDNN_DROPOUT_FUNCTIONS(X)       \
    CUDNN_RNN_FUNCTIONS(X)           \
    CUDNN_TRANSFORMER_FUNCTIONS(X)   \
    CUDNN_GRAPH_FUNCTIONS(X)

#endif
