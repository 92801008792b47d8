/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The server of one gdb: see server.h
 */

#include <glib-unix.h>
#include <inttypes.h>
#include <string.h>

#include "gdb/breakpoints.h"
#include "gdb/process-symbols.h"
#include "gdb/rsp.h"
#include "gdb/server.h"
#include "util/quote.h"

/* After this long a request ends as if its user had interrupted it. */
#define REQUEST_S   600

void gdb_server_answer(struct gdb_server *s, const char *format, ...)
{
    g_autofree char *text = NULL;
    va_list args;

    va_start(args, format);
    text = g_strdup_vprintf(format, args);
    va_end(args);
    gdb_server_answer_bytes(s, text, strlen(text));
}

void gdb_server_answer_bytes(struct gdb_server *s, const void *bytes, size_t n)
{
    if (s->client) {
        client_answer(s->client, bytes, n);
    }
}

void gdb_server_answer_hex(struct gdb_server *s, const void *bytes, size_t n)
{
    g_autoptr(GString) digits = g_string_new(NULL);

    rsp_append_hex(digits, bytes, n);
    gdb_server_answer_bytes(s, digits->str, digits->len);
}

void gdb_server_stopped(struct gdb_server *s, const char *how, uint64_t thread)
{
    s->thread = thread;
    gdb_server_answer(s, "%sthread:%02" PRIx64 ";", how, thread);
}

void gdb_server_print_error(struct gdb_server *s, const char *message)
{
    if (s->client) {
        client_print_error(s->client, message);
    }
}

/* An error that gdb shows */
static void answer_error(struct gdb_server *s, const char *message)
{
    g_autofree char *quoted = btrail_quote(message, "");

    /* They would end the packet, or be an escape. */
    g_strdelimit(quoted, "$#}*", '?');
    gdb_server_answer(s, "E.%s", quoted);
}

static enum packet_kind kind_of(const struct gdb_server *s)
{
    return s->packet ? s->packet->kind : PACKET_ASKS;
}

void gdb_server_fail(struct gdb_server *s, GError *error)
{
    bool cancelled = !error || agent_is_cancelled(error);

    switch (kind_of(s)) {
    case PACKET_RUNS:
        /* gdb waits for a stop, and for no error. */
        if (!cancelled) {
            gdb_server_print_error(s, error->message);
        }
        gdb_server_stopped(s, cancelled ? GDB_STOP_INTERRUPTED : GDB_STOP,
                           s->thread);
        break;
    case PACKET_MONITOR:
        if (!cancelled) {
            /* gdb shows what is printed, and little of an error. */
            gdb_server_print_error(s, error->message);
            gdb_server_answer(s, "E01");
        } else if (s->client) {
            client_answer_interrupted(s->client);
        }
        break;
    default:
        answer_error(s, cancelled ? "interrupted" : error->message);
        break;
    }
    g_clear_error(&error);
}

/* The same of what the target has failed at */
static void fail(struct gdb_server *s, GError *error)
{
    if (s->ops->failed) {
        s->ops->failed(s->target, error);
    } else {
        gdb_server_fail(s, error);
    }
}

/*
 * Threads
 */

static bool has_thread(const struct gdb_server *s, uint64_t thread)
{
    uint64_t each;

    for (unsigned i = 0; s->ops->thread(s->target, i, &each); i++) {
        if (each == thread) {
            return true;
        }
    }
    return false;
}

static void serve_status(void *opaque, const struct packet_value *v)
{
    struct gdb_server *s = opaque;

    gdb_server_stopped(s, GDB_STOP, s->thread);
}

static void serve_current(void *opaque, const struct packet_value *v)
{
    struct gdb_server *s = opaque;

    gdb_server_answer(s, "QC%02" PRIx64, s->thread);
}

static void serve_select(void *opaque, const struct packet_value *v)
{
    struct gdb_server *s = opaque;
    uint64_t thread = v[1].number;

    if ((v[0].number != 'g' && v[0].number != 'c') ||
        (thread != PACKET_ANY && !has_thread(s, thread))) {
        gdb_server_answer(s, "E22");
        return;
    }
    if (v[0].number == 'c') {
        s->runner = thread;
    } else if (thread != PACKET_ANY) {
        s->thread = thread;
    }
    gdb_server_answer(s, "OK");
}

static void serve_lives(void *opaque, const struct packet_value *v)
{
    struct gdb_server *s = opaque;

    gdb_server_answer(s, has_thread(s, v[0].number) ? "OK" : "E22");
}

static void serve_threads(void *opaque, const struct packet_value *v)
{
    struct gdb_server *s = opaque;
    g_autoptr(GString) text = g_string_new("m");
    uint64_t thread;

    for (unsigned i = 0; text->len < s->ops->packet_size - 32 &&
                         s->ops->thread(s->target, i, &thread); i++) {
        g_string_append_printf(text, "%s%02" PRIx64, i ? "," : "", thread);
    }
    gdb_server_answer_bytes(s, text->str, text->len);
}

static void serve_unknown(struct gdb_server *s)
{
    if (s->ops->unknown) {
        s->ops->unknown(s->target, s->request, s->n);
    } else {
        gdb_server_answer(s, "%s", "");
    }
}

static void serve_thread_info(void *opaque, const struct packet_value *v)
{
    struct gdb_server *s = opaque;
    g_autofree char *text = NULL;

    if (!has_thread(s, v[0].number)) {
        gdb_server_answer(s, "E22");
        return;
    }
    text = s->ops->describe(s->target, v[0].number);
    if (text) {
        gdb_server_answer_hex(s, text, strlen(text));
    } else {
        serve_unknown(s);
    }
}

/*
 * What lets the target run
 */

static void serve_step(void *opaque, const struct packet_value *v)
{
    struct gdb_server *s = opaque;

    s->ops->step(s->target, s->runner ? s->runner : s->thread,
                 v[PACKET_WHICH].number);
}

static void serve_continue(void *opaque, const struct packet_value *v)
{
    struct gdb_server *s = opaque;

    s->ops->go_on(s->target, s->runner, v[PACKET_WHICH].number);
}

static void serve_actions(void *opaque, const struct packet_value *v)
{
    struct gdb_server *s = opaque;
    struct packet_move move;

    if (!packet_move_parse(v[0].text, &move) ||
        (move.thread != PACKET_ANY && !has_thread(s, move.thread))) {
        gdb_server_answer(s, "E01");
    } else if (!move.step) {
        s->ops->go_on(s->target, move.thread, true);
    } else {
        s->ops->step(s->target, move.thread ? move.thread : s->thread, true);
    }
}

/*
 * Breakpoints
 */

static void serve_breakpoint(void *opaque, const struct packet_value *v)
{
    struct gdb_server *s = opaque;
    g_autofree char *key = breakpoints_key(v[0].number, v[1].number,
                                           v[2].number);
    const char *conditions = v[3].text;
    g_autofree char *answer = NULL;
    GError *error = NULL;

    if (conditions && *conditions && *conditions != ';') {
        gdb_server_answer(s, "E01");
        return;
    }
    if (conditions &&
        g_hash_table_size(s->breakpoints) >= BREAKPOINTS_MAX) {
        gdb_server_answer(s, "E.there are too many breakpoints");
        return;
    }
    answer = s->ops->breakpoint(s->target, key, conditions, &error);
    if (!answer) {
        fail(s, error);
        return;
    }
    if (!strcmp(answer, "OK")) {
        breakpoints_set(s->breakpoints, key, conditions);
    }
    gdb_server_answer(s, "%s", answer);
}

/*
 * The monitor
 */

static void end_search(struct gdb_server *s)
{
    if (s->search) {
        g_source_destroy(s->search_source);
        g_source_destroy(s->search_limit);
        g_clear_pointer(&s->search_source, g_source_unref);
        g_clear_pointer(&s->search_limit, g_source_unref);
        g_clear_pointer(&s->search, apart_free);
    }
}

/* What is printed, or an error; takes it. */
static void answer_monitor(struct gdb_server *s, const char *text,
                           GError *error)
{
    if (!text) {
        fail(s, error);
        return;
    }
    if (s->client) {
        client_print(s->client, text);
    }
    gdb_server_answer(s, "OK");
}

static void set_request(struct gdb_server *s, const char *request, size_t n);
static void ask(struct gdb_server *s);

/* Another command in place of the one that it has asked for */
static void ask_command(struct gdb_server *s, const char *line)
{
    g_autoptr(GString) request = g_string_new("qRcmd,");

    rsp_append_hex(request, line, strlen(line));
    set_request(s, request->str, request->len);
    ask(s);
}

static gboolean on_search(gint fd, GIOCondition condition, gpointer opaque)
{
    struct gdb_server *s = opaque;
    g_autofree char *text = NULL, *instead = NULL;
    GError *error = NULL;
    const void *then;
    size_t n;
    bool done;

    apart_read(s->search, &done);
    if (!done) {
        return G_SOURCE_CONTINUE;
    }
    text = monitor_found(apart_answer(s->search), &then, &n, &error);
    if (text && n) {
        instead = s->ops->follow(s->target, then, n);
    }
    end_search(s);
    if (instead) {
        ask_command(s, instead);
    } else {
        answer_monitor(s, text, error);
    }
    return G_SOURCE_REMOVE;
}

static gboolean on_search_limit(gpointer opaque)
{
    gdb_server_interrupt(opaque);
    return G_SOURCE_REMOVE;
}

/* Others are served meanwhile, and it can be given up at any moment. */
static void begin_search(struct gdb_server *s, const struct monitor_command *c,
                         const char *argument)
{
    struct monitor_search search = {
        c, s->target, argument, s->ops->remains,
    };

    s->search = apart_start(monitor_search, &search);
    if (!s->search) {
        answer_monitor(s, NULL, g_error_new(AGENT_ERROR,
                                            AGENT_ERROR_COMMAND,
                                            "there can be no more processes"));
        return;
    }
    s->search_source = g_unix_fd_source_new(apart_fd(s->search), G_IO_IN);
    g_source_set_callback(s->search_source, G_SOURCE_FUNC(on_search), s, NULL);
    g_source_attach(s->search_source, s->context);
    s->search_limit = g_timeout_source_new_seconds(REQUEST_S);
    g_source_set_callback(s->search_limit, on_search_limit, s, NULL);
    g_source_attach(s->search_limit, s->context);
}

static void serve_monitor(void *opaque, const struct packet_value *v)
{
    struct gdb_server *s = opaque;
    g_autofree char *line = rsp_unhex(v[0].text, NULL);
    g_autofree char *name = NULL, *text = NULL;
    const struct monitor_command *c;
    const char *argument;
    GError *error = NULL;

    if (!line) {
        gdb_server_answer(s, "E01");
        return;
    }
    name = monitor_split(line, &argument);
    c = monitor_find(s->ops->commands, name);
    if (c && monitor_searches(c, argument)) {
        begin_search(s, c, argument);
        return;
    }
    if (c && !c->run) {
        text = monitor_help(s->ops->commands);
    } else if (s->ops->command) {
        text = s->ops->command(s->target, c, argument, line, &error);
    } else {
        agent_fail(&error, AGENT_ERROR_COMMAND,
                   "unknown command '%s'; see monitor help", name);
    }
    answer_monitor(s, text, error);
}

/*
 * What remains
 */

static void serve_supported(void *opaque, const struct packet_value *v)
{
    struct gdb_server *s = opaque;
    g_autoptr(GString) text = g_string_new("QStartNoAckMode+");

    s->ops->features(s->target, text);
    g_string_append(text, ";ReverseStep+;ReverseContinue+");
    gdb_server_answer_bytes(s, text->str, text->len);
}

static void serve_no_acks(void *opaque, const struct packet_value *v)
{
    struct gdb_server *s = opaque;

    gdb_server_answer(s, "OK");
    client_stop_acks(s->client);
}

static void serve_symbols(void *opaque, const struct packet_value *v)
{
    struct gdb_server *s = opaque;
    unsigned set;

    if (s->ops->symbols(s->target, &set)) {
        gdb_server_answer(s, "V%x", set);
    } else {
        gdb_server_answer(s, "U");
    }
}

static void serve_moved(void *opaque, const struct packet_value *v)
{
    struct gdb_server *s = opaque;

    if (s->moved) {
        gdb_server_answer(s, "%" PRIx64, s->moved);
    } else {
        gdb_server_answer(s, "E01");
    }
    s->moved = PACKET_ANY;
}

/* A gdb that leaves, or kills, takes nothing from the others. */
static void serve_leave(void *opaque, const struct packet_value *v)
{
    if (v[PACKET_WHICH].number) {
        gdb_server_answer(opaque, "OK");
    }
    gdb_server_end(opaque);
}

static const struct packet packets[] = {
    { "?", "", PACKET_ALONE, serve_status },
    { "C", "n", PACKET_RUNS, serve_continue, .which = true },
    { "D", "s", PACKET_ALONE, serve_leave, .which = true },
    { "H", "ct", PACKET_ALONE, serve_select },
    { "QStartNoAckMode", "", PACKET_ALONE, serve_no_acks },
    { "S", "n", PACKET_RUNS, serve_step, .which = true },
    { "T", "t", PACKET_ALONE, serve_lives },
    { "Z", "n,n,ns", PACKET_ASKS, serve_breakpoint },
    { "bc", "", PACKET_RUNS, serve_continue },
    { "bs", "", PACKET_RUNS, serve_step },
    { "c", "", PACKET_RUNS, serve_continue, .which = true },
    { "k", "", PACKET_ALONE, serve_leave },
    { "qAttached", "s", .answer = "1" },
    { GDB_SERVER_MOVED, "", PACKET_ALONE, serve_moved },
    { "qC", "", PACKET_ALONE, serve_current },
    { "qRcmd,", "s", PACKET_MONITOR, serve_monitor },
    { "qSupported", "s", PACKET_ALONE, serve_supported },
    { PROCESS_SYMBOLS_REQUEST, "s", PACKET_ALONE, serve_symbols },
    { "qThreadExtraInfo,", "t", PACKET_ASKS, serve_thread_info },
    { "qfThreadInfo", "", PACKET_ALONE, serve_threads },
    { "qsThreadInfo", "", .answer = "l" },
    { "s", "", PACKET_RUNS, serve_step, .which = true },
    { "vCont;", "s", PACKET_RUNS, serve_actions },
    { "vCont?", "", .answer = "vCont;c;C;s;S" },
    { "vKill", "s", PACKET_ALONE, serve_leave, .which = true },
    { "z", "n,n,n", PACKET_ASKS, serve_breakpoint },
    { NULL },
};

/*
 * Requests
 */

static void set_request(struct gdb_server *s, const char *request, size_t n)
{
    g_free(s->request);
    s->request = g_memdup2(request, n + 1);
    s->n = n;
    s->opaque = s->target;
    s->packet = packet_find(s->ops->packets, s->request, &s->arguments);
    if (!s->packet) {
        s->opaque = s;
        s->packet = packet_find(packets, s->request, &s->arguments);
    }
}

static void ask(struct gdb_server *s)
{
    if (kind_of(s) == PACKET_ALONE || !s->ops->ask) {
        gdb_server_serve(s);
    } else {
        s->ops->ask(s->target);
    }
}

static void on_packet(void *opaque, const char *request, size_t n)
{
    struct gdb_server *s = opaque;

    set_request(s, request, n);
    s->interrupted = false;
    s->deadline = g_get_monotonic_time() + REQUEST_S * G_USEC_PER_SEC;
    ask(s);
}

void gdb_server_serve(struct gdb_server *s)
{
    struct packet_value values[PACKET_VALUES];

    if (!s->packet) {
        serve_unknown(s);
    } else if (!packet_parse(s->packet->schema, s->arguments, values)) {
        gdb_server_answer(s, "E01");
    } else if (s->packet->serve) {
        values[PACKET_WHICH].number = s->packet->which;
        s->packet->serve(s->opaque, values);
    } else {
        gdb_server_answer(s, "%s", s->packet->answer);
    }
}

void gdb_server_interrupt(struct gdb_server *s)
{
    s->interrupted = true;
    if (s->search) {
        end_search(s);
        gdb_server_fail(s, NULL);
    } else if (s->ops->interrupt) {
        s->ops->interrupt(s->target);
    }
}

static void on_closed(void *opaque)
{
    struct gdb_server *s = opaque;

    g_clear_pointer(&s->client, client_free);
    end_search(s);
    s->ops->left(s->target);
}

static void on_interrupt(void *opaque)
{
    gdb_server_interrupt(opaque);
}

struct gdb_server *gdb_server_new(const struct target_ops *ops, void *target,
                                  GMainContext *context, int in, int out,
                                  uint64_t thread)
{
    static const struct client_functions functions = {
        .packet = on_packet,
        .interrupt = on_interrupt,
        .closed = on_closed,
    };
    struct gdb_server *s = g_new0(struct gdb_server, 1);

    s->ops = ops;
    s->target = target;
    s->context = context;
    s->thread = thread;
    s->breakpoints = breakpoints_new();
    s->client = client_new(context, in, out, ops->packet_size, &functions, s);
    return s;
}

void gdb_server_free(struct gdb_server *s)
{
    if (s) {
        end_search(s);
        client_free(s->client);
        g_hash_table_unref(s->breakpoints);
        g_free(s->request);
        g_free(s);
    }
}

bool gdb_server_wanted(struct gdb_server *s, bool limited)
{
    return s->client && client_waits(s->client) && !s->interrupted &&
           (!limited || g_get_monotonic_time() < s->deadline);
}

void gdb_server_end(struct gdb_server *s)
{
    if (s->client) {
        client_end(s->client);
    }
}
