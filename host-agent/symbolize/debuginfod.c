/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Fetching debugging information: see debuginfod.h
 */

#include <dlfcn.h>
#include <errno.h>
#include <gio/gio.h>
#include <stdlib.h>
#include <unistd.h>

#include "symbolize/debuginfod.h"

#define LIBRARY "libdebuginfod.so.1"
#define URLS    "DEBUGINFOD_URLS"

/* These are the declarations of elfutils/debuginfod.h. */
typedef struct debuginfod_client client;
typedef client *begin_fn(void);
typedef int find_fn(client *c, const unsigned char *id, int size, char **path);
typedef void end_fn(client *c);

struct debuginfod {
    void *library;
    client *client;
    find_fn *find_file;
    find_fn *find_debug;
    end_fn *end;
    char *failure;
};

struct debuginfod *debuginfod_new(GError **error)
{
    const char *urls = g_getenv(URLS);
    struct debuginfod *d;
    begin_fn *begin;

    if (!urls || !*urls) {
        g_set_error(error, G_IO_ERROR, G_IO_ERROR_FAILED, "--debuginfod: set "
                    URLS " to the server of the guest's distribution");
        return NULL;
    }
    d = g_new0(struct debuginfod, 1);
    d->library = dlopen(LIBRARY, RTLD_LAZY);
    if (!d->library) {
        g_set_error(error, G_IO_ERROR, G_IO_ERROR_FAILED, "--debuginfod: %s; "
                    "install the library, on Debian libdebuginfod1",
                    dlerror());
        debuginfod_free(d);
        return NULL;
    }
    begin = (begin_fn *)dlsym(d->library, "debuginfod_begin");
    d->find_file = (find_fn *)dlsym(d->library, "debuginfod_find_executable");
    d->find_debug = (find_fn *)dlsym(d->library, "debuginfod_find_debuginfo");
    d->end = (end_fn *)dlsym(d->library, "debuginfod_end");
    d->client = begin && d->find_file && d->find_debug && d->end ? begin() :
                NULL;
    if (!d->client) {
        g_set_error(error, G_IO_ERROR, G_IO_ERROR_FAILED,
                    "--debuginfod: %s cannot be used", LIBRARY);
        debuginfod_free(d);
        return NULL;
    }
    return d;
}

void debuginfod_free(struct debuginfod *d)
{
    if (d) {
        if (d->client) {
            d->end(d->client);
        }
        /* libcurl, which it uses, is not made to be unloaded. */
        g_free(d->failure);
        g_free(d);
    }
}

char *debuginfod_fetch(struct debuginfod *d, const char *build_id, bool debug)
{
    find_fn *find = debug ? d->find_debug : d->find_file;
    char *found = NULL, *path = NULL;
    int fd;

    if (d->failure) {
        return NULL;
    }
    /* A size of 0: the id is in digits. */
    fd = find(d->client, (const unsigned char *)build_id, 0, &found);
    if (fd >= 0) {
        close(fd);
        path = g_strdup(found);
    } else if (fd != -ENOENT) {
        d->failure = g_strdup_printf("debuginfod: %s; nothing more is "
                                     "fetched", g_strerror(-fd));
    }
    free(found);
    return path;
}

const char *debuginfod_failure(const struct debuginfod *d)
{
    return d ? d->failure : NULL;
}
