/* The routines of the fake cuSOLVER for one precision. D: whether it is double. NAME, TEXT: names of routines. */

cusolverStatus_t NAME(getrf_bufferSize)(cusolverDnHandle_t handle, int m, int n, void *a, int lda, int *size)
{
    CALL(TEXT("getrf_bufferSize"));
    REFUSE_UNLESS(handle && is_matrix(a, D, m, n, lda));
    return size_is(size);
}

cusolverStatus_t NAME(getrf)(cusolverDnHandle_t handle, int m, int n, void *a, int lda, void *work, int *pivots,
                             int *info)
{
    struct work w = {
        .is_double = D, .m = m, .n = n, .leading = lda, .a = a, .work = work, .pivots = pivots, .info = info};
    w.size = state.workspace;
    CALL(TEXT("getrf"));
    REFUSE_UNLESS(m == n && is_matrix(a, D, m, n, lda) && is_workspace(&w)
                  && fake_is_memory(pivots, (size_t)n * sizeof *pivots));
    return submit(handle, "getrf", run_getrf, &w);
}

cusolverStatus_t NAME(getrs)(cusolverDnHandle_t handle, int trans, int n, int nrhs, const void *a, int lda,
                             const int *pivots, void *b, int ldb, int *info)
{
    struct work w = {.is_double = D,
                     .m = n,
                     .n = n,
                     .k = nrhs,
                     .transposed = trans,
                     .leading = lda,
                     .other_leading = ldb,
                     .a = (void *)a,
                     .b = b,
                     .pivots = (int *)pivots,
                     .info = info};
    CALL(TEXT("getrs"));
    REFUSE_UNLESS((trans == CUBLAS_OP_N || trans == CUBLAS_OP_T) && is_matrix(a, D, n, n, lda)
                  && is_matrix(b, D, n, nrhs, ldb) && fake_is_memory(pivots, (size_t)n * sizeof *pivots));
    return submit(handle, "getrs", run_getrs, &w);
}

cusolverStatus_t NAME(potrf_bufferSize)(cusolverDnHandle_t handle, int uplo, int n, void *a, int lda, int *size)
{
    CALL(TEXT("potrf_bufferSize"));
    REFUSE_UNLESS(handle && (uplo == 0 || uplo == 1) && is_matrix(a, D, n, n, lda));
    return size_is(size);
}

cusolverStatus_t NAME(potrf)(cusolverDnHandle_t handle, int uplo, int n, void *a, int lda, void *work, int size,
                             int *info)
{
    struct work w = {.is_double = D,
                     .upper = uplo,
                     .m = n,
                     .n = n,
                     .leading = lda,
                     .a = a,
                     .work = work,
                     .size = size,
                     .info = info};
    CALL(TEXT("potrf"));
    REFUSE_UNLESS((uplo == 0 || uplo == 1) && is_matrix(a, D, n, n, lda) && is_workspace(&w));
    return submit(handle, "potrf", run_potrf, &w);
}

cusolverStatus_t NAME(potrs)(cusolverDnHandle_t handle, int uplo, int n, int nrhs, const void *a, int lda, void *b,
                             int ldb, int *info)
{
    struct work w = {.is_double = D,
                     .upper = uplo,
                     .m = n,
                     .n = n,
                     .k = nrhs,
                     .leading = lda,
                     .other_leading = ldb,
                     .a = (void *)a,
                     .b = b,
                     .info = info};
    CALL(TEXT("potrs"));
    REFUSE_UNLESS((uplo == 0 || uplo == 1) && is_matrix(a, D, n, n, lda) && is_matrix(b, D, n, nrhs, ldb));
    return submit(handle, "potrs", run_potrs, &w);
}

cusolverStatus_t NAME(geqrf_bufferSize)(cusolverDnHandle_t handle, int m, int n, void *a, int lda, int *size)
{
    CALL(TEXT("geqrf_bufferSize"));
    REFUSE_UNLESS(handle && is_matrix(a, D, m, n, lda));
    return size_is(size);
}

cusolverStatus_t NAME(geqrf)(cusolverDnHandle_t handle, int m, int n, void *a, int lda, void *tau, void *work, int size,
                             int *info)
{
    struct work w = {
        .is_double = D, .m = m, .n = n, .leading = lda, .a = a, .b = tau, .work = work, .size = size, .info = info};
    CALL(TEXT("geqrf"));
    REFUSE_UNLESS(is_matrix(a, D, m, n, lda) && is_workspace(&w) && is_matrix(tau, D, m < n ? m : n, 1, m < n ? m : n));
    return submit(handle, "geqrf", run_geqrf, &w);
}

cusolverStatus_t NAME(orgqr_bufferSize)(cusolverDnHandle_t handle, int m, int n, int k, const void *a, int lda,
                                        const void *tau, int *size)
{
    CALL(TEXT("orgqr_bufferSize"));
    REFUSE_UNLESS(handle && is_matrix(a, D, m, n, lda) && k <= n && n <= m && is_matrix(tau, D, k, 1, k));
    return size_is(size);
}

cusolverStatus_t NAME(orgqr)(cusolverDnHandle_t handle, int m, int n, int k, void *a, int lda, const void *tau,
                             void *work, int size, int *info)
{
    struct work w = {.is_double = D,
                     .m = m,
                     .n = n,
                     .leading = lda,
                     .a = a,
                     .b = (void *)tau,
                     .work = work,
                     .size = size,
                     .info = info};
    CALL(TEXT("orgqr"));
    REFUSE_UNLESS(is_matrix(a, D, m, n, lda) && k == n && n <= m && is_workspace(&w) && is_matrix(tau, D, k, 1, k));
    return submit(handle, "orgqr", run_orgqr, &w);
}

cusolverStatus_t NAME(gesvd_bufferSize)(cusolverDnHandle_t handle, int m, int n, int *size)
{
    CALL(TEXT("gesvd_bufferSize"));
    REFUSE_UNLESS(handle && m >= n && n > 0);
    return size_is(size);
}

#ifndef FAKE_WITHOUT_SVD
cusolverStatus_t NAME(gesvd)(cusolverDnHandle_t handle, signed char jobu, signed char jobvt, int m, int n, void *a,
                             int lda, void *s, void *u, int ldu, void *vt, int ldvt, void *work, int size, void *rwork,
                             int *info)
{
    struct work w = {.is_double = D,
                     .job = jobu,
                     .m = m,
                     .n = n,
                     .k = ldvt,
                     .leading = lda,
                     .other_leading = ldu,
                     .a = a,
                     .s = s,
                     .u = u,
                     .vt = vt,
                     .work = work,
                     .size = size,
                     .info = info};
    CALL(TEXT("gesvd"));
    REFUSE_UNLESS(m >= n && jobu == jobvt && (jobu == 'A' || jobu == 'S' || jobu == 'N') && is_matrix(a, D, m, n, lda)
                  && is_matrix(s, D, n, 1, n) && is_workspace(&w) && !rwork && ldu >= m && ldvt >= n);
    REFUSE_UNLESS(jobu == 'N' || (is_matrix(u, D, m, jobu == 'A' ? m : n, ldu) && is_matrix(vt, D, n, n, ldvt)));
    return submit(handle, "gesvd", run_gesvd, &w);
}
#endif

cusolverStatus_t NAME(syevd_bufferSize)(cusolverDnHandle_t handle, int jobz, int uplo, int n, const void *a, int lda,
                                        const void *values, int *size)
{
    CALL(TEXT("syevd_bufferSize"));
    REFUSE_UNLESS(handle && is_matrix(a, D, n, n, lda) && is_matrix(values, D, n, 1, n) && (uplo == 0 || uplo == 1));
    return jobz == 0 || jobz == 1 ? size_is(size) : CUSOLVER_STATUS_INVALID_VALUE;
}

cusolverStatus_t NAME(syevd)(cusolverDnHandle_t handle, int jobz, int uplo, int n, void *a, int lda, void *values,
                             void *work, int size, int *info)
{
    struct work w = {.is_double = D,
                     .vectors = jobz,
                     .upper = uplo,
                     .m = n,
                     .n = n,
                     .leading = lda,
                     .a = a,
                     .s = values,
                     .work = work,
                     .size = size,
                     .info = info};
    CALL(TEXT("syevd"));
    REFUSE_UNLESS((jobz == 0 || jobz == 1) && (uplo == 0 || uplo == 1) && is_matrix(a, D, n, n, lda)
                  && is_matrix(values, D, n, 1, n) && is_workspace(&w));
    return submit(handle, "syevd", run_syevd, &w);
}
