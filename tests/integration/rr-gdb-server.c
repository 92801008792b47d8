/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * usage: rr-gdb-server STUB QMP SOCKET
 *
 * The front end for gdb, at a QEMU that a test has started: STUB and QMP are
 * its sockets.  Prints "ready" when it listens at SOCKET, and ends when QEMU
 * does or its standard input is closed.
 */

#include <errno.h>
#include <glib-unix.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "gdb/front-end.h"
#include "monitor/qmp.h"
#include "util/json.h"

#define TIMEOUT_MS  60000

static GMainLoop *loop;

static void die(const char *what, const GError *error)
{
    fprintf(stderr, "%s: %s\n", what, error ? error->message :
            strerror(errno));
    exit(1);
}

static JsonNode *command(struct btrail_qmp *qmp, const char *name,
                         JsonObject *arguments, GError **error)
{
    return btrail_qmp_execute(qmp, name, arguments, -1, TIMEOUT_MS, -1,
                              error);
}

static bool query_icount(void *opaque, uint64_t *icount, GError **error)
{
    g_autoptr(JsonNode) node = command(opaque, "query-replay", NULL, error);

    if (!node) {
        return false;
    }
    *icount = btrail_json_int(json_node_get_object(node), "icount", 0);
    return true;
}

/* "running", "paused", "shutdown" at the end of the recording, ... */
static char *query_status(void *opaque, GError **error)
{
    g_autoptr(JsonNode) node = command(opaque, "query-status", NULL, error);

    return node ? g_strdup(btrail_json_string(json_node_get_object(node),
                                              "status")) : NULL;
}

static bool is_behind_end(uint64_t at, GError **error)
{
    g_set_error(error, BTRAIL_AGENT_ERROR, BTRAIL_AGENT_ERROR_COMMAND,
                "the recording ends at instruction %" G_GUINT64_FORMAT, at);
    return false;
}

static bool go(void *opaque, uint64_t icount, GError **error)
{
    g_autoptr(JsonNode) node = NULL;
    g_autofree char *status = query_status(opaque, error);
    uint64_t at;

    if (!status || !query_icount(opaque, &at, error)) {
        return false;
    }
    if (at == icount) {
        return true;
    }
    if (at < icount && !strcmp(status, "shutdown")) {
        return is_behind_end(at, error);
    }
    node = command(opaque, "replay-seek",
                   btrail_json_new("U:icount", icount, NULL), error);
    if (!node) {
        return false;
    }
    do {
        g_usleep(1000);
        g_free(status);
        status = query_status(opaque, error);
    } while (status && !strcmp(status, "running"));
    if (!status || !query_icount(opaque, &at, error)) {
        return false;
    }
    return at == icount || is_behind_end(at, error);
}

static int open_socket(const char *path, bool listening)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    g_strlcpy(address.sun_path, path, sizeof(address.sun_path));
    if (sock < 0 ||
        (listening ?
         bind(sock, (struct sockaddr *)&address, sizeof(address)) ||
         listen(sock, 8) :
         connect(sock, (struct sockaddr *)&address, sizeof(address)))) {
        die(path, NULL);
    }
    return sock;
}

static gboolean on_gdb(gint fd, GIOCondition condition, gpointer opaque)
{
    int sock = accept4(fd, NULL, NULL, SOCK_CLOEXEC);

    if (sock >= 0) {
        front_end_add(opaque, sock);
    }
    return G_SOURCE_CONTINUE;
}

static gboolean on_input(gint fd, GIOCondition condition, gpointer opaque)
{
    g_main_loop_quit(loop);
    return G_SOURCE_REMOVE;
}

static void on_end(void *opaque, const GError *error)
{
    fprintf(stderr, "%s\n", error->message);
    g_main_loop_quit(loop);
}

int main(int argc, char **argv)
{
    struct target_moves moves = { .go = go, .icount = query_icount };
    struct btrail_qmp *qmp;
    struct target *target;
    struct front_end *fe;
    GError *error = NULL;
    guint source;
    int sock;

    if (argc != 4) {
        fprintf(stderr, "usage: %s STUB QMP SOCKET\n", argv[0]);
        return 2;
    }
    qmp = btrail_qmp_connect(argv[2], TIMEOUT_MS, -1, &error);
    if (!qmp) {
        die(argv[2], error);
    }
    moves.opaque = qmp;
    target = target_new(open_socket(argv[1], false), &moves, &error);
    if (!target) {
        die(argv[1], error);
    }
    loop = g_main_loop_new(NULL, FALSE);
    fe = front_end_new(target, on_end, NULL);
    sock = open_socket(argv[3], true);
    source = g_unix_fd_add(sock, G_IO_IN, on_gdb, fe);
    g_unix_fd_add(STDIN_FILENO, G_IO_IN | G_IO_HUP, on_input, NULL);
    puts("ready");
    fflush(stdout);
    g_main_loop_run(loop);
    g_source_remove(source);
    front_end_free(fe);
    btrail_qmp_free(qmp);
    g_main_loop_unref(loop);
    close(sock);
    return 0;
}
