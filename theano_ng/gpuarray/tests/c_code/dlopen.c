/* For `make sanitize`: gcc's address sanitizer refuses libraries that are loaded with RTLD_DEEPBIND, as OpenCL drivers
 * are. This dlopen is found before the dlopen of the C library, and drops the flag. */
#define _GNU_SOURCE
#include <dlfcn.h>

void *dlopen(const char *name, int flags)
{
    void *(*next)(const char *, int) = (void *(*)(const char *, int))dlsym(RTLD_NEXT, "dlopen");
    return next(name, flags & ~RTLD_DEEPBIND);
}
