/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The server of one gdb: see server.h
 */

#include <glib-unix.h>
#include <inttypes.h>
#include <string.h>
#include <sys/socket.h>

#include "gdb/breakpoints.h"
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

/*
 * The files of the process, which are a list of libraries to gdb
 */

static struct process_symbols *files_of(const struct gdb_server *s)
{
    return s->lists && s->ops->files ? s->ops->files(s->target) : NULL;
}

/* A list of files */
struct file_list {
    const struct process_symbols *files;
    unsigned number;
};

static bool is_in_list(void *opaque, unsigned home)
{
    const struct file_list *l = opaque;

    return process_symbols_has(l->files, l->number, home);
}

static enum breakpoint_owner owner_here(struct gdb_server *s,
                                        struct file_list *l, bool set)
{
    return breakpoint_homes_owner(s->homes,
                                  s->ops->pc(s->target, s->thread), set,
                                  is_in_list, l);
}

/* Does a request let the target run until something happens? */
static bool is_continue(const struct gdb_server *s)
{
    struct packet_move move;

    return s->request[0] == 'c' || s->request[0] == 'C' ||
           !strcmp(s->request, "bc") ||
           (g_str_has_prefix(s->request, "vCont;") &&
            packet_move_parse(s->request + strlen("vCont;"), &move) &&
            !move.step);
}

bool gdb_server_wants(const struct gdb_server *s, uint64_t pc,
                      breakpoint_home_fn *here, void *opaque)
{
    return !files_of(s) || !is_continue(s) ||
           breakpoint_homes_owner(s->homes, pc, false, here, opaque) !=
           BREAKPOINT_OTHERS;
}

static void report_stop(struct gdb_server *s, const char *how)
{
    gdb_server_answer(s, "%sthread:%02" PRIx64 ";", how, s->thread);
}

static void ask(struct gdb_server *s);

static gboolean on_again(gpointer opaque)
{
    struct gdb_server *s = opaque;

    g_clear_pointer(&s->again, g_source_unref);
    if (s->client) {
        ask(s);
    }
    return G_SOURCE_REMOVE;
}

static void end_again(struct gdb_server *s)
{
    if (s->again) {
        g_source_destroy(s->again);
        g_clear_pointer(&s->again, g_source_unref);
    }
}

/* Not from here: it can have been no stop many times, one in another. */
static void run_again(struct gdb_server *s)
{
    s->again = g_idle_source_new();
    g_source_set_callback(s->again, on_again, s, NULL);
    g_source_attach(s->again, s->context);
}

/* gdb is first told of the files, if they are others. */
static void tell_stopped(struct gdb_server *s, const char *how)
{
    if (files_of(s) && s->ops->list(s->target) != s->told) {
        g_free(s->held);
        s->held = g_strdup(how);
        how = "T05library:;";
    }
    report_stop(s, how);
}

/* Has it stopped at breakpoints, and at nothing else, of others? */
static bool is_others(struct gdb_server *s, const char *how)
{
    struct file_list here = { files_of(s) };

    if (!here.files || !is_continue(s) || strcmp(how, GDB_STOP)) {
        return false;
    }
    here.number = s->ops->list(s->target);
    return owner_here(s, &here, false) == BREAKPOINT_OTHERS;
}

void gdb_server_stopped(struct gdb_server *s, const char *how, uint64_t thread)
{
    s->thread = thread;
    if (kind_of(s) != PACKET_RUNS) {
        report_stop(s, how);
    } else if (!s->interrupted && is_others(s, how)) {
        run_again(s);
    } else {
        tell_stopped(s, how);
    }
}

/*
 * A gdb that lets the target run is told how that has stopped, if it has first
 * been told of another list, and still means the breakpoint.
 */
static bool serve_held(struct gdb_server *s)
{
    struct file_list here = { files_of(s), s->told };
    g_autofree char *how = g_steal_pointer(&s->held);

    if (!how) {
        return false;
    }
    if (is_continue(s) && !strcmp(how, GDB_STOP) &&
        owner_here(s, &here, false) != BREAKPOINT_NOBODYS &&
        owner_here(s, &here, true) != BREAKPOINT_OWN) {
        return false;
    }
    report_stop(s, how);
    return true;
}

/* What a gdb has set, and what it has forgotten */
static void prepare_run(struct gdb_server *s)
{
    struct file_list told = { files_of(s), s->told };

    if (told.files) {
        breakpoint_homes_insert(s->homes, is_continue(s), is_in_list, &told,
                                s->breakpoints);
    }
}

static void serve_list(void *opaque, const struct packet_value *v)
{
    struct gdb_server *s = opaque;
    struct file_list list = { files_of(s) };
    g_autofree char *xml = NULL;

    if (!list.files) {
        gdb_server_answer(s, "%s", "");
        return;
    }
    if (!v[0].number) {
        s->told = list.number = s->ops->list(s->target);
        breakpoint_homes_leave(s->homes, is_in_list, &list);
    }
    xml = process_symbols_xml(list.files, s->told);
    gdb_server_answer_piece(s, xml, strlen(xml), v[0].number, v[1].number);
}

void gdb_server_answer_piece(struct gdb_server *s, const char *text, size_t n,
                             uint64_t offset, uint64_t size)
{
    g_autoptr(GString) piece = g_string_new(NULL);

    offset = MIN(offset, n);
    size = MIN(size, MIN(n - offset, s->ops->packet_size - 16));
    g_string_append_c(piece, offset + size < n ? 'm' : 'l');
    g_string_append_len(piece, text + offset, size);
    gdb_server_answer_bytes(s, piece->str, piece->len);
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
        tell_stopped(s, cancelled ? GDB_STOP_INTERRUPTED : GDB_STOP);
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
    const struct process_symbols *files = files_of(s);
    unsigned home = files ? process_symbols_home(files, s->told, v[1].number) :
                            0;
    g_autofree char *answer = NULL;
    GError *error = NULL;

    if (conditions && *conditions && *conditions != ';') {
        gdb_server_answer(s, "E01");
        return;
    }
    if (conditions &&
        breakpoint_homes_count(s->homes) >= BREAKPOINTS_MAX) {
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
        breakpoint_homes_set(s->homes, key, home, conditions);
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
    if (files_of(s)) {
        g_string_append(text, ";qXfer:libraries:read+");
    }
    gdb_server_answer_bytes(s, text->str, text->len);
}

static void serve_no_acks(void *opaque, const struct packet_value *v)
{
    struct gdb_server *s = opaque;

    gdb_server_answer(s, "OK");
    client_stop_acks(s->client);
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
    { "qThreadExtraInfo,", "t", PACKET_ASKS, serve_thread_info },
    { "qXfer:libraries:read::", "n,n", PACKET_ALONE, serve_list },
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
    if (kind_of(s) == PACKET_RUNS) {
        if (serve_held(s)) {
            return;
        }
        prepare_run(s);
    } else if (kind_of(s) == PACKET_MONITOR) {
        /* It can move the target. */
        g_clear_pointer(&s->held, g_free);
    }
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
    if (s->again) {
        end_again(s);
        gdb_server_fail(s, NULL);
    } else if (s->search) {
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
    end_again(s);
    end_search(s);
    s->ops->left(s->target);
}

static void on_interrupt(void *opaque)
{
    gdb_server_interrupt(opaque);
}

/* Whoever has the private folder, where the socket is, has the files, too. */
static bool is_unix(int sock)
{
    struct sockaddr_storage address;
    socklen_t size = sizeof(address);

    return !getsockname(sock, (struct sockaddr *)&address, &size) &&
           address.ss_family == AF_UNIX;
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
    s->homes = breakpoint_homes_new();
    s->lists = is_unix(in);
    s->client = client_new(context, in, out, ops->packet_size, &functions, s);
    return s;
}

void gdb_server_free(struct gdb_server *s)
{
    if (s) {
        end_again(s);
        end_search(s);
        client_free(s->client);
        breakpoint_homes_free(s->homes);
        g_free(s->held);
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
