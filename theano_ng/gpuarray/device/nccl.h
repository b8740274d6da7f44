/* Collective operations of several CUDA contexts by NCCL. Each context of a group is a member, and has a number, the rank.
 * Each member is used by one thread at a time. These functions do not need Python's GIL. Before the
 * first of them, the caller gives collected calls to the device (launch_queue.h). */
#ifndef TNG_NCCL_H
#define TNG_NCCL_H

#include "gpuarray/types.h"

typedef struct nccl_member nccl_member;

enum nccl_operation { NCCL_SUM, NCCL_PROD, NCCL_MAX, NCCL_MIN };
enum nccl_call { NCCL_ALL_REDUCE, NCCL_REDUCE, NCCL_BROADCAST, NCCL_ALL_GATHER, NCCL_REDUCE_SCATTER };

/* A collective operation. Each member contributes `count` elements; in a reduce-scatter, `count` elements for each
 * member. The memory of source and result is contiguous. It must exist until the operation is finished. */
typedef struct {
    enum nccl_call call;
    enum nccl_operation operation; /* of a reduction */
    int typecode;
    int root; /* of NCCL_REDUCE and NCCL_BROADCAST */
    size_t count;
    gpudata *from;
    size_t from_offset; /* bytes */
    gpudata *to;        /* in NCCL_REDUCE, it can be NULL for members other than the root */
    size_t to_offset;   /* bytes */
} nccl_work;

/* Load NCCL. *version is then its version, for example 22803 for 2.28.3. If the context is no CUDA context, or if the
 * library cannot be used, return an error. */
int nccl_open(gpucontext *, int *version);

/* Make the identifier of a new group: 128 bytes. It can be passed to other processes. */
int nccl_make_id(gpucontext *, char *id);

/* Begin to join a group of `size` members as member number `rank`. nccl_wait() tells when all members have joined. */
int nccl_join(gpucontext *, const char *id, int size, int rank, nccl_member **);

/* Begin a collective operation, in the stream of the context. nccl_wait() tells when it is finished. */
int nccl_begin(nccl_member *, const nccl_work *);

/* Wait, for at most this time, until the operations that were begun are finished; set *finished to 1 if it is. After an error, the
 * communicator is aborted. */
int nccl_wait(nccl_member *, double seconds, int *finished);

/* Abort the operations that were begun, so that the device no longer waits for other members. The member cannot be used any longer. */
void nccl_abort(nccl_member *);

/* Leave the group and free the member. If something that was begun is not finished, it is aborted. */
void nccl_leave(nccl_member *);

#endif
