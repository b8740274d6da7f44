/* What the back ends share: sentences of errors, settings, libraries. */
#include "device.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int device_failed(device *device, int code, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(device->error, sizeof device->error, format, arguments);
    va_end(arguments);
    return code;
}

/* A handful, said once: a list. */
struct setting {
    struct setting *next;
    char *value;
    char name[];
};

static struct setting *settings;

static struct setting *setting_named(const char *name)
{
    struct setting *one = settings;
    while (one && strcmp(one->name, name) != 0)
        one = one->next;
    return one;
}

int device_set(const char *name, const char *value)
{
    char *copy = value ? strdup(value) : NULL;
    if (value && !copy)
        return GA_MEMORY_ERROR;
    struct setting *one = setting_named(name);
    if (!one) {
        one = malloc(sizeof *one + strlen(name) + 1);
        if (!one) {
            free(copy);
            return GA_MEMORY_ERROR;
        }
        strcpy(one->name, name);
        one->value = NULL;
        one->next = settings;
        settings = one;
    }
    free(one->value);
    one->value = copy;
    return GA_NO_ERROR;
}

const char *device_setting(const char *name)
{
    const struct setting *one = setting_named(name);
    return one ? one->value : NULL;
}

void *device_library(device *device, const char *setting, const char *soname)
{
    const char *path = device_setting(setting);
    if (!path)
        path = soname;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        const char *why = dlerror();
        device_failed(device, GA_LOAD_ERROR, "%s cannot be loaded: %s", path, why ? why : "no reason given");
    }
    return library;
}
