/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * usage: rr-gdb-server STUB QMP SOCKET
 *
 * The server of gdbs, at a QEMU that a test has started: STUB and QMP are
 * its sockets.  Prints "ready" when it listens at SOCKET, and ends when QEMU
 * does or its standard input is closed.
 */

#include <glib-unix.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "gdb/replay-target.h"
#include "monitor/qmp.h"
#include "util/json.h"
#include "util/server-socket.h"
#include "util/unix-socket.h"

#define TIMEOUT_MS  60000

static GMainLoop *loop;
static struct replay_target *served;

static void die(const char *what, const GError *error)
{
    fprintf(stderr, "%s: %s\n", what, error->message);
    exit(1);
}

static JsonNode *command(struct qmp *qmp, const char *name,
                         JsonObject *arguments, GError **error)
{
    return qmp_execute(qmp, name, arguments, -1, TIMEOUT_MS, -1,
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
    g_set_error(error, AGENT_ERROR, AGENT_ERROR_COMMAND,
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

static bool divert(void *opaque, unsigned vcpu, GError **error)
{
    g_autoptr(JsonNode) node = command(opaque, "replay-divert",
                                       btrail_json_new("U:cpu-index",
                                                       (uint64_t)vcpu, NULL),
                                       error);

    return node;
}

static bool halt(void *opaque, uint64_t *begin, uint64_t *end, GError **error)
{
    g_autoptr(JsonNode) stopped = command(opaque, "stop", NULL, error);
    g_autoptr(JsonNode) removed = command(opaque, "replay-delete-break", NULL,
                                          NULL);
    g_autoptr(JsonNode) node = command(opaque, "query-replay-checkpoints",
                                       NULL, error);
    JsonArray *icounts = node ? btrail_json_array(json_node_get_object(node),
                                                  "icounts") : NULL;
    uint64_t icount;

    if (!stopped || !query_icount(opaque, &icount, error)) {
        return false;
    }
    *begin = 0;
    *end = UINT64_MAX;
    for (guint i = 0; icounts && i < json_array_get_length(icounts); i++) {
        uint64_t at = json_array_get_int_element(icounts, i);

        *begin = at <= icount ? MAX(*begin, at) : *begin;
        *end = at > icount ? MIN(*end, at) : *end;
    }
    return icounts;
}

static bool goes_on(void *opaque)
{
    return !served || replay_target_goes_on(served);
}

static void on_gdb(void *opaque, int sock)
{
    replay_target_add(opaque, sock);
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
    struct vm_moves moves = {
        .go = go,
        .icount = query_icount,
        .halt = halt,
        .divert = divert,
        .goes_on = goes_on,
    };
    struct qmp *qmp;
    struct vm *vm;
    struct replay_target *fe;
    GError *error = NULL;
    struct server_socket *server;
    int sock;

    if (argc != 4) {
        fprintf(stderr, "usage: %s STUB QMP SOCKET\n", argv[0]);
        return 2;
    }
    qmp = qmp_connect(argv[2], TIMEOUT_MS, -1, &error);
    if (!qmp) {
        die(argv[2], error);
    }
    moves.opaque = qmp;
    sock = unix_connect(argv[1], &error);
    vm = sock < 0 ? NULL : vm_new(sock, &moves, &error);
    if (!vm) {
        die(argv[1], error);
    }
    loop = g_main_loop_new(NULL, FALSE);
    served = fe = replay_target_new(vm, on_end, NULL);
    server = server_socket_unix(argv[3], on_gdb, fe, &error);
    if (!server) {
        die(argv[3], error);
    }
    g_unix_fd_add(STDIN_FILENO, G_IO_IN | G_IO_HUP, on_input, NULL);
    puts("ready");
    fflush(stdout);
    g_main_loop_run(loop);
    server_socket_free(server);
    replay_target_free(fe);
    qmp_free(qmp);
    g_main_loop_unref(loop);
    return 0;
}
