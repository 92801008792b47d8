/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A player that gdbs debug: see replay-session.h
 */

#include <signal.h>

#include "gdb/replay-session.h"
#include "gdb/replay-target.h"
#include "gdb/start-gdb.h"
#include "gdb/symbol-file.h"
#include "replay/guest-output.h"
#include "util/json.h"
#include "util/quote.h"
#include "util/server-socket.h"
#include "util/unix-socket.h"

struct replay_session {
    struct player *player;
    const struct turns *turns;
    struct replay_target *replay;
    struct trace_index *trace;  /* or NULL */
    struct process_symbols *symbols;    /* or NULL */
    char *socket;
    char *commands;
    struct server_socket *server;
};

struct moment_search {
    struct trace_index *trace;
    uint64_t icount;
};

static gpointer find_moment(gpointer opaque)
{
    const struct moment_search *m = opaque;

    trace_index_process(m->trace, m->icount);
    return NULL;
}

/*
 * Everybody who comes to a place asks the trace what it is.  It is read while
 * the guest goes there: both take some milliseconds of a CPU.
 */
static bool go(void *opaque, uint64_t icount, GError **error)
{
    struct replay_session *s = opaque;
    struct moment_search moment = { s->trace, icount };
    GThread *thread = s->trace ? g_thread_new("moment", find_moment, &moment) :
                      NULL;
    bool ok = player_goto(s->player, icount, error);

    if (thread) {
        g_thread_join(thread);
    }
    return ok;
}

static bool get_icount(void *opaque, uint64_t *icount, GError **error)
{
    struct replay_session *s = opaque;

    return player_icount(s->player, icount, error);
}

static bool divert(void *opaque, unsigned vcpu, GError **error)
{
    struct replay_session *s = opaque;

    return player_divert(s->player, vcpu, error);
}

static bool find_output(void *opaque, const struct find_place *place,
                        uint64_t *icount, GError **error)
{
    struct replay_session *s = opaque;

    return guest_output_find(player_recording(s->player), place, icount,
                             error);
}

static bool halt(void *opaque, uint64_t *begin, uint64_t *end, GError **error)
{
    struct replay_session *s = opaque;
    g_autoptr(JsonNode) node = NULL;
    JsonArray *icounts;
    uint64_t icount;
    guint n;

    if (!player_halt(s->player, error) ||
        !player_icount(s->player, &icount, error)) {
        return false;
    }
    node = player_checkpoints(s->player, error);
    if (!node) {
        return false;
    }
    icounts = btrail_json_array(json_node_get_object(node), "icounts");
    n = icounts ? json_array_get_length(icounts) : 0;
    *begin = 0;
    *end = UINT64_MAX;
    for (guint i = 0; i < n; i++) {
        gint64 at = btrail_json_element(icounts, i, -1);

        if (at < 0) {
            continue;
        }
        if ((uint64_t)at <= icount) {
            *begin = MAX(*begin, (uint64_t)at);
        } else {
            *end = MIN(*end, (uint64_t)at);
        }
    }
    return true;
}

static char *describe_checkpoints(void *opaque, GError **error)
{
    struct replay_session *s = opaque;
    g_autoptr(JsonNode) node = player_checkpoints(s->player, error);
    JsonObject *info = node ? json_node_get_object(node) : NULL;
    JsonArray *icounts = info ? btrail_json_array(info, "icounts") : NULL;
    guint n = icounts ? json_array_get_length(icounts) : 0;
    g_autoptr(GString) text = NULL;

    if (!info) {
        return NULL;
    }
    text = g_string_new(NULL);
    g_string_printf(text, "checkpoints  %u\nmemory       %.1f of %.1f MiB\n", n,
                    btrail_json_int(info, "memory", 0) / 1048576.0,
                    btrail_json_int(info, "memory-limit", 0) / 1048576.0);
    if (n) {
        g_string_append_printf(
            text, "icount       from %" G_GINT64_FORMAT " to %" G_GINT64_FORMAT
            "\n", btrail_json_element(icounts, 0, -1),
            btrail_json_element(icounts, n - 1, -1));
    }
    if (btrail_json_int(info, "merged", 0)) {
        g_string_append_printf(
            text, "removed      %" G_GINT64_FORMAT ", to keep to the limit\n",
            btrail_json_int(info, "merged", 0));
    }
    return g_string_free(g_steal_pointer(&text), FALSE);
}

static void on_ctrl_c(void *opaque)
{
    struct replay_session *s = opaque;

    replay_target_interrupt(s->replay, start_gdb_shares_ctrl_c);
}

/* While the guest goes somewhere */
static bool goes_on(void *opaque)
{
    struct replay_session *s = opaque;
    sigset_t pending;

    if (!s->server) {
        return true;
    }
    server_socket_accept(s->server);
    /* They are taken when it has arrived. */
    sigpending(&pending);
    if (sigismember(&pending, SIGINT)) {
        on_ctrl_c(s);
    }
    return !sigismember(&pending, SIGTERM) && !sigismember(&pending, SIGHUP) &&
           replay_target_goes_on(s->replay);
}

/* gdb learns of it, too, and its user decides what to do. */
static void on_end(void *opaque, const GError *error)
{
    g_autofree char *quoted = btrail_quote(error->message, "");

    g_printerr("%s\n", quoted);
}

static void on_gdb(void *opaque, int sock)
{
    struct replay_session *s = opaque;

    replay_target_add(s->replay, sock);
}

static bool write_commands(struct replay_session *s, const char *folder,
                           const char *kernel, GError **error)
{
    g_autofree char *by_hand = start_gdb_by_hand(s->commands);
    g_autofree char *more = g_strdup_printf("echo Other gdbs connect with "
                                            "%s\\n\n", by_hand);
    const struct start_gdb_commands commands = {
        .files = s->symbols ? folder : NULL,
        .kernel = kernel,
        .more = more,
        .target = s->socket,
    };

    return start_gdb_write(s->commands, &commands, error);
}

static bool open_trace(struct replay_session *s,
                       const struct btrail_trace *trace,
                       const struct symbolizer_options *symbols,
                       const char *folder, GError **error)
{
    s->trace = trace_index_new(trace, s->turns, symbols, error);
    s->symbols = s->trace ? process_symbols_new(s->trace->symbols, folder) :
                 NULL;
    return s->symbols;
}

static bool start(struct replay_session *s, const struct btrail_trace *trace,
                  const struct symbolizer_options *symbols_of, GError **error)
{
    const struct vm_moves moves = {
        .go = go,
        .icount = get_icount,
        .checkpoints = describe_checkpoints,
        .halt = halt,
        .divert = divert,
        .output = find_output,
        .goes_on = goes_on,
        .opaque = s,
        .turns = s->turns,
    };
    const char *stub = player_gdb_socket(s->player);
    g_autofree char *folder = g_path_get_dirname(stub);
    g_autofree char *symbols = g_build_filename(folder, "kernel", NULL);
    struct vm *vm;
    bool any = false;
    int sock;

    s->socket = g_build_filename(folder, "front-end", NULL);
    s->commands = g_build_filename(folder, "gdb-commands", NULL);
    if (trace && (!symbol_file_write_trace(symbols, trace, &any, error) ||
                  !open_trace(s, trace, symbols_of, folder, error))) {
        return false;
    }
    if (!write_commands(s, folder, any ? symbols : NULL, error)) {
        return false;
    }
    sock = unix_connect(stub, error);
    if (sock < 0) {
        return false;
    }
    vm = vm_new(sock, &moves, error);
    if (!vm) {
        return false;
    }
    s->replay = replay_target_new(vm, on_end, NULL);
    player_set_go_on(s->player, goes_on, s);
    replay_target_set_trace(s->replay, s->trace);
    replay_target_set_symbols(s->replay, s->symbols);
    s->server = server_socket_unix(s->socket, on_gdb, s, error);
    return s->server;
}

struct replay_session *
replay_session_new(struct player *player, const struct btrail_trace *trace,
                   const struct turns *turns,
                   const struct symbolizer_options *symbols, GError **error)
{
    struct replay_session *s = g_new0(struct replay_session, 1);

    s->player = player;
    s->turns = turns;
    if (!start(s, trace, symbols, error)) {
        replay_session_free(s);
        return NULL;
    }
    return s;
}

void replay_session_free(struct replay_session *s)
{
    if (s) {
        server_socket_free(s->server);
        player_set_go_on(s->player, NULL, NULL);
        replay_target_free(s->replay);
        process_symbols_free(s->symbols);
        trace_index_free(s->trace);
        g_free(s->socket);
        g_free(s->commands);
        g_free(s);
    }
}

bool replay_session_run(struct replay_session *s, char *const *arguments,
                        int signal_fd, int *status, GError **error)
{
    return start_gdb(s->commands, arguments, signal_fd, on_ctrl_c, s, status,
                     error);
}
