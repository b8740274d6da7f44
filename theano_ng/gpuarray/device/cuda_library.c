/* Loads NVIDIA's libraries of mathematical functions, and checks their versions. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "context.h"
#include "cuda.h"

enum { MAJOR, MINOR, PATCH, PARTS };

static void write_version(char *text, size_t size, const int *version)
{
    snprintf(text, size, "%d.%d.%d", version[MAJOR], version[MINOR], version[PATCH]);
}

static int is_older(const int *version, const int *oldest)
{
    for (int part = MAJOR; part < PARTS; ++part)
        if (version[part] != oldest[part])
            return version[part] < oldest[part];
    return 0;
}

/* Check the version of a library that has been loaded from `path`. */
static int fits(const struct cuda_library *library, const char *path)
{
    char version[64], oldest[64];
    int driver = 0, cuda_version = library->version[MAJOR] + library->before_cuda;
    write_version(version, sizeof version, library->version);
    write_version(oldest, sizeof oldest, library->oldest);
    cuda.cuDriverGetVersion(&driver);
    if (is_older(library->version, library->oldest))
        return device_failed(GA_LOAD_ERROR, "%s %s (%s) is too old: %s is the oldest that can be used; " CUDA_ADVICE,
                             library->title, version, path, oldest);
    if (cuda_version > driver / 1000)
        return device_failed(GA_LOAD_ERROR,
                             "%s %s (%s) is for CUDA %d, but the driver is of CUDA %d.%d: pip install "
                             "'theano_ng[cuda%d]' installs the version for this driver",
                             library->title, version, path, cuda_version, driver / 1000, driver % 1000 / 10,
                             driver / 1000);
    return GA_NO_ERROR;
}

/* Read the version of a library, and look up its functions. */
static int bind_functions(struct cuda_library *library, void *loaded, const char *path)
{
    int (*property)(int part, int *value) = NULL;
    *(void **)&property = dlsym(loaded, library->property);
    const char *missing = property ? library->bind(loaded) : library->property;
    for (int part = MAJOR; part < PARTS && !missing; ++part)
        if (property(part, &library->version[part]) != 0)
            missing = library->property;
    if (!missing)
        return fits(library, path);
    char oldest[64];
    write_version(oldest, sizeof oldest, library->oldest);
    return device_failed(GA_LOAD_ERROR, "%s has no function %s: %s %s is the oldest that can be used; " CUDA_ADVICE,
                         path, missing, library->title, oldest);
}

int cuda_library_load(struct cuda_library *library)
{
    if (library->loaded)
        return GA_NO_ERROR;
    const char *path = device_library(library->which);
    void *loaded = device_load_library(library->which, library->names);
    if (!loaded)
        return device_failed(GA_LOAD_ERROR, "%s cannot be loaded (%s); " CUDA_ADVICE, library->title, dlerror());
    int code = bind_functions(library, loaded, path ? path : library->names[0]);
    if (code == GA_NO_ERROR)
        library->loaded = loaded;
    else
        dlclose(loaded);
    return code;
}

int cuda_library_open(struct cuda_library *library, gpucontext *ctx, cuda_device **d)
{
    int code = context_usable(ctx);
    if (code != GA_NO_ERROR)
        return code;
    if (ctx->table != &device_cuda)
        return context_failed(ctx, GA_UNSUPPORTED_ERROR, "%s is no CUDA device, so %s does not run on it", ctx->name,
                              library->title);
    *d = (cuda_device *)ctx->device;
    return context_checked(ctx, cuda_library_load(library));
}

size_t cuda_library_version(const struct cuda_library *library)
{
    const int *version = library->version;
    return (size_t)(version[MAJOR] * 10000 + version[MINOR] * 100 + version[PATCH]);
}
