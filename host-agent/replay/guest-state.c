/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Saving the state of a guest: see guest-state.h
 */

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "replay/guest-state.h"
#include "util/json.h"
#include "util/whole-io.h"

#define COMMAND_MS      60000
#define POLL_US         2000
/* QEMU's own limit of 128 MiB/s would keep the guest waiting. */
#define BANDWIDTH       (UINT64_C(1) << 40)
/* As much as anybody may have */
#define PIPE_SIZE       (1 << 20)
#define PIPE_NAME       "backtrail-state"

/* A command; only the wait for the end can be cancelled. */
static JsonNode *execute(struct qmp *qmp, const char *command,
                         JsonObject *arguments, int fd, GError **error)
{
    return qmp_execute(qmp, command, arguments, fd, COMMAND_MS, -1,
                       error);
}

static bool command(struct qmp *qmp, const char *name,
                    JsonObject *arguments, GError **error)
{
    g_autoptr(JsonNode) node = execute(qmp, name, arguments, -1, error);

    return node;
}

static JsonObject *object_of(JsonNode *node)
{
    return node && JSON_NODE_HOLDS_OBJECT(node) ? json_node_get_object(node) :
           NULL;
}

static int create(const char *path, GError **error)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    if (fd < 0) {
        agent_error_errno(error, path);
    }
    return fd;
}

/* Passes QEMU a file to write to, which it need not be able to open. */
static bool pass(struct qmp *qmp, const char *path, gint64 *set,
                 GError **error)
{
    int fd = create(path, error);
    g_autoptr(JsonNode) node = NULL;
    JsonObject *o;

    if (fd < 0) {
        return false;
    }
    node = execute(qmp, "add-fd", NULL, fd, error);
    close(fd);
    o = object_of(node);
    *set = o ? btrail_json_int(o, "fdset-id", -1) : -1;
    return node && *set >= 0;
}

static bool is_cancelled(int cancel_fd)
{
    GPollFD p = { .fd = cancel_fd, .events = G_IO_IN };

    return cancel_fd >= 0 && g_poll(&p, 1, 0) > 0;
}

static bool wait_saved(struct qmp *qmp, int cancel_fd, GError **error)
{
    for (;;) {
        g_autoptr(JsonNode) node = execute(qmp, "query-migrate", NULL, -1,
                                           error);
        JsonObject *o = object_of(node);
        const char *status = o ? btrail_json_string(o, "status") : NULL;

        if (!node || !g_strcmp0(status, "completed")) {
            return node;
        }
        if (!g_strcmp0(status, "failed") || !g_strcmp0(status, "cancelled")) {
            const char *why = btrail_json_string(o, "error-desc");

            return agent_fail(error, AGENT_ERROR_COMMAND,
                              "QEMU has not saved the guest: %s",
                              why ? why : status);
        }
        if (is_cancelled(cancel_fd)) {
            command(qmp, "migrate_cancel", NULL, NULL);
            return agent_fail(error, AGENT_ERROR_CANCELLED,
                              "cancelled");
        }
        g_usleep(POLL_US);
    }
}

/* QEMU says "completed" before it takes a "cont" again. */
static bool wait_finished(struct qmp *qmp, GError **error)
{
    for (;;) {
        g_autoptr(JsonNode) node = execute(qmp, "query-status", NULL, -1,
                                           error);
        JsonObject *o = object_of(node);

        if (!o || g_strcmp0(btrail_json_string(o, "status"),
                            "finish-migrate")) {
            return node;
        }
        g_usleep(POLL_US);
    }
}

static bool migrate(struct qmp *qmp, const char *uri, int cancel_fd,
                    GError **error)
{
    return command(qmp, "migrate", btrail_json_new("s:uri", uri, NULL),
                   error) &&
           wait_saved(qmp, cancel_fd, error) && wait_finished(qmp, error);
}

static bool set_bandwidth(struct qmp *qmp, uint64_t bandwidth,
                          GError **error)
{
    return command(qmp, "migrate-set-parameters",
                   btrail_json_new("U:max-bandwidth", bandwidth, NULL), error);
}

/* With the whole of the disk's bandwidth, and as it was afterwards */
static bool migrate_fast(struct qmp *qmp, const char *uri,
                         int cancel_fd, GError **error)
{
    g_autoptr(JsonNode) node = execute(qmp, "query-migrate-parameters", NULL,
                                       -1, error);
    JsonObject *o = object_of(node);
    gint64 before = o ? btrail_json_int(o, "max-bandwidth", -1) : -1;
    bool ok;

    if (!node || before < 0 || !set_bandwidth(qmp, BANDWIDTH, error)) {
        return false;
    }
    ok = migrate(qmp, uri, cancel_fd, error);
    return set_bandwidth(qmp, before, ok ? error : NULL) && ok;
}

bool guest_state_save(struct qmp *qmp, const char *path, int cancel_fd,
                      GError **error)
{
    gint64 set = -1;
    g_autofree char *uri = NULL;
    bool ok = pass(qmp, path, &set, error);

    if (ok) {
        uri = g_strdup_printf("file:/dev/fdset/%" G_GINT64_FORMAT, set);
        ok = migrate_fast(qmp, uri, cancel_fd, error);
    }
    if (set >= 0) {
        command(qmp, "remove-fd",
                btrail_json_new("U:fdset-id", (uint64_t)set, NULL), NULL);
    }
    return ok;
}

/*
 * Through a pipe
 */

struct state_writer {
    int from, to;
    int error;                  /* errno */
    GThread *thread;
};

static gpointer write_all(gpointer opaque)
{
    struct state_writer *w = opaque;
    g_autofree char *bytes = g_malloc(PIPE_SIZE);
    ssize_t n;

    do {
        n = read(w->from, bytes, PIPE_SIZE);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        w->error = n < 0 ? errno : whole_write(w->to, bytes, n);
    } while (n && !w->error);
    /* QEMU does not wait for a reader that is gone. */
    close(w->from);
    return NULL;
}

/* Returns what is to be written to, or -1 and an error. */
static int start_writer(struct state_writer *w, const char *path,
                        GError **error)
{
    int ends[2];

    if (pipe2(ends, O_CLOEXEC)) {
        agent_error_errno(error, "pipe2");
        return -1;
    }
    w->to = create(path, error);
    if (w->to < 0) {
        close(ends[0]);
        close(ends[1]);
        return -1;
    }
    /* It is slower if it stays small. */
    fcntl(ends[0], F_SETPIPE_SZ, PIPE_SIZE);
    w->from = ends[0];
    w->thread = g_thread_new("guest-state", write_all, w);
    return ends[1];
}

bool guest_state_pipe(struct qmp *qmp, const char *path, int cancel_fd,
                      GError **error)
{
    struct state_writer w = { .error = 0 };
    int fd = start_writer(&w, path, error);
    g_autoptr(JsonNode) node = NULL;
    bool ok;

    if (fd < 0) {
        return false;
    }
    node = execute(qmp, "getfd", btrail_json_new("s:fdname", PIPE_NAME, NULL),
                   fd, error);
    close(fd);
    ok = node && migrate_fast(qmp, "fd:" PIPE_NAME, cancel_fd, error);
    if (node && !ok) {
        /* It may not have been used. */
        command(qmp, "closefd", btrail_json_new("s:fdname", PIPE_NAME, NULL),
                NULL);
    }
    g_thread_join(w.thread);
    if (close(w.to) && !w.error) {
        w.error = errno;
    }
    if (w.error) {
        g_clear_error(error);
        errno = w.error;
        return agent_error_errno(error, path);
    }
    return ok;
}
