/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * An output file: see result.h
 */

#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <glib/gstdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/result.h"

bool result_open(struct result *r, const char *path)
{
    struct stat st;
    int fd;

    memset(r, 0, sizeof(*r));
    if (!path || !strcmp(path, "-")) {
        r->file = stdout;
        return true;
    }
    r->path = g_strdup(path);
    if (!stat(path, &st) && !S_ISREG(st.st_mode)) {
        /* A pipe or device is written directly. */
        r->file = fopen(path, "w");
    } else {
        r->temporary = g_strdup_printf("%s.XXXXXX", path);
        fd = g_mkstemp_full(r->temporary, O_RDWR | O_CLOEXEC, 0666);
        r->file = fd < 0 ? NULL : fdopen(fd, "w");
    }
    if (!r->file) {
        cli_error("%s: %s", path, g_strerror(errno));
        g_free(r->path);
        g_free(r->temporary);
    }
    return r->file;
}

bool result_close(struct result *r)
{
    bool ok = !fflush(r->file) && !ferror(r->file);
    int error = errno;

    if (r->path) {
        if (fclose(r->file) && ok) {
            ok = false;
            error = errno;
        }
        if (ok && r->temporary && rename(r->temporary, r->path)) {
            ok = false;
            error = errno;
        }
        if (!ok && r->temporary) {
            unlink(r->temporary);
        }
    }
    /* The reader of a pipe may stop early. */
    if (!ok && (r->path || error != EPIPE)) {
        cli_error("%s: cannot write: %s", r->path ? r->path :
                  "standard output", g_strerror(error));
    }
    ok |= !r->path && error == EPIPE;
    g_free(r->path);
    g_free(r->temporary);
    return ok;
}

void result_discard(struct result *r)
{
    if (r->path) {
        fclose(r->file);
        if (r->temporary) {
            unlink(r->temporary);
        }
    }
    g_free(r->path);
    g_free(r->temporary);
}
