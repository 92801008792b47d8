/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The server of a gdb, over a target that says what it is asked to do
 */

#include <string.h>
#include <unistd.h>

#include "gdb-side.h"
#include "gdb/breakpoints.h"
#include "gdb/server.h"

#define INTERRUPTED "696e7465727275707465640a"

/**
 * struct fake - the target
 * @calls: what it was asked, one after the other
 * @holds: it serves requests when it is told to
 */
struct fake {
    struct gdb_server *server;
    struct gdb gdb;
    GString *calls;
    bool holds;
    bool left;
};

static const uint64_t threads[] = { 1, 2, 0x1f };

static void ask(void *opaque)
{
    struct fake *f = opaque;

    if (!f->holds) {
        gdb_server_serve(f->server);
    }
}

static void on_interrupt(void *opaque)
{
    struct fake *f = opaque;

    if (f->holds) {
        gdb_server_fail(f->server, NULL);
    }
}

static void on_left(void *opaque)
{
    ((struct fake *)opaque)->left = true;
}

static void features(void *opaque, GString *text)
{
    g_string_append(text, ";Fake+");
}

static bool list_thread(void *opaque, unsigned i, uint64_t *thread)
{
    *thread = threads[i % G_N_ELEMENTS(threads)];
    return i < G_N_ELEMENTS(threads);
}

static char *describe(void *opaque, uint64_t thread)
{
    return thread == 2 ? g_strdup("two") : NULL;
}

static void move(struct fake *f, const char *what, uint64_t thread,
                 bool forward)
{
    g_string_append_printf(f->calls, "%s %x %s\n", what, (unsigned)thread,
                           forward ? "on" : "back");
    gdb_server_stopped(f->server, forward ? GDB_STOP : GDB_STOP_BEGIN, 2);
}

static void step(void *opaque, uint64_t thread, bool forward)
{
    move(opaque, "step", thread, forward);
}

static void go_on(void *opaque, uint64_t thread, bool forward)
{
    move(opaque, "go", thread, forward);
}

static char *breakpoint(void *opaque, const char *key, const char *conditions,
                        GError **error)
{
    struct fake *f = opaque;

    g_string_append_printf(f->calls, "%s %s\n", key,
                           conditions ? conditions : "removed");
    if (key[0] == '9') {
        agent_fail(error, AGENT_ERROR_COMMAND, "not $\x1b#}*");
        return NULL;
    }
    return g_strdup(key[0] < '2' ? "OK" : "");
}

static void unknown(void *opaque, const char *request, size_t n)
{
    struct fake *f = opaque;

    g_string_append_printf(f->calls, "unknown %s\n", request);
    gdb_server_answer_bytes(f->server, "U\0", 2);
}

static char *run_quick(void *opaque, const char *argument, GError **error)
{
    if (*argument) {
        return g_strconcat("quick ", argument, "\n", NULL);
    }
    agent_fail(error, AGENT_ERROR_COMMAND, "no\x1b[1m word");
    return NULL;
}

/* It has no end. */
static char *search_slow(void *opaque, const char *argument, GError **error)
{
    while (true) {
        pause();
    }
    return NULL;
}

/* What it does to the target is lost. */
static char *search_far(void *opaque, const char *argument, GError **error)
{
    struct fake *f = opaque;

    g_string_append(f->calls, "lost\n");
    if (strcmp(argument, "nowhere")) {
        return g_strconcat("far ", argument, "\n", NULL);
    }
    agent_fail(error, AGENT_ERROR_COMMAND, "it is nowhere");
    return NULL;
}

static char *search_dies(void *opaque, const char *argument, GError **error)
{
    _exit(0);
    return NULL;
}

static bool has_letters(const char *argument)
{
    return g_ascii_isalpha(*argument);
}

static const struct monitor_command commands[] = {
    { "dies", "dies", .search = search_dies },
    { "far", "far WHERE", run_quick, search_far, has_letters },
    { "help", "this list" },
    { "quick", "quick WORD", run_quick },
    { "slow", "slow", .search = search_slow },
    { NULL },
};

static char *command(void *opaque, const struct monitor_command *c,
                     const char *argument, const char *line, GError **error)
{
    struct fake *f = opaque;

    g_string_append_printf(f->calls, "%s: %s\n", c ? c->name : "none", line);
    return c ? c->run(f, argument, error) : g_strdup("another\n");
}

static void remains(void *opaque, GByteArray *then)
{
    struct fake *f = opaque;

    g_byte_array_append(then, (void *)f->calls->str, f->calls->len);
}

static char *follow(void *opaque, const void *then, size_t n)
{
    struct fake *f = opaque;

    g_assert_cmpmem(then, n, "begin\nlost\n", 11);
    g_string_append(f->calls, "follow\n");
    return f->holds ? g_strdup("quick instead") : NULL;
}

static void serve_own(void *opaque, const struct packet_value *values)
{
    struct fake *f = opaque;

    gdb_server_answer(f->server, "own %x", (unsigned)values[0].number);
}

static const struct packet packets[] = {
    { "fixed", "", .answer = "it%s" },
    { "own:", "n", PACKET_ASKS, serve_own },
    { NULL },
};

static const struct target_ops ops = {
    .packet_size = 4096,
    .packets = packets,
    .commands = commands,
    .ask = ask,
    .interrupt = on_interrupt,
    .left = on_left,
    .features = features,
    .thread = list_thread,
    .describe = describe,
    .step = step,
    .go_on = go_on,
    .breakpoint = breakpoint,
    .unknown = unknown,
    .command = command,
    .remains = remains,
    .follow = follow,
};

static struct fake *begin(void)
{
    struct fake *f = g_new0(struct fake, 1);
    int sock;

    f->calls = g_string_new(NULL);
    f->gdb = gdb_new(&sock);
    f->server = gdb_server_new(&ops, f, NULL, sock, sock, 1);
    return f;
}

static void end(struct fake *f)
{
    leave(&f->gdb);
    g_assert_true(f->left);
    g_assert_null(f->server->search);
    gdb_server_free(f->server);
    g_string_free(f->calls, TRUE);
    g_free(f);
}

/* What the target was asked since the last time */
static void require_calls(struct fake *f, const char *want)
{
    g_assert_cmpstr(f->calls->str, ==, want);
    g_string_truncate(f->calls, 0);
}

static void test_requests(void)
{
    struct fake *f = begin();

    check(&f->gdb, "qSupported:multiprocess+", "QStartNoAckMode+;Fake+;"
          "ReverseStep+;ReverseContinue+");
    check(&f->gdb, "own:1f", "own 1f");
    check(&f->gdb, "own:", "E01");
    check(&f->gdb, "own:1,2", "E01");
    check(&f->gdb, "fixed", "it%s");
    check(&f->gdb, "qXfer:libraries:read::0,1000", "");
    check(&f->gdb, "qAttached:1", "1");
    require_calls(f, "");
    /* As the target answers it, whatever bytes there are */
    check(&f->gdb, "qCRC:1,2", "U");
    check(&f->gdb, "fixed2", "U");
    check(&f->gdb, "", "U");
    require_calls(f, "unknown qCRC:1,2\nunknown fixed2\nunknown \n");
    end(f);
}

static void test_threads(void)
{
    struct fake *f = begin();

    check(&f->gdb, "?", "T05thread:01;");
    check(&f->gdb, "qC", "QC01");
    check(&f->gdb, "qfThreadInfo", "m01,02,1f");
    check(&f->gdb, "qsThreadInfo", "l");
    check(&f->gdb, "Hgp1.1f", "OK");
    check(&f->gdb, "qC", "QC1f");
    check(&f->gdb, "Hg0", "OK");
    check(&f->gdb, "qC", "QC1f");
    check(&f->gdb, "Hg3", "E22");
    check(&f->gdb, "Hx1", "E22");
    check(&f->gdb, "Hg", "E01");
    check(&f->gdb, "T2", "OK");
    check(&f->gdb, "T20", "E22");
    check(&f->gdb, "T0", "E22");
    check(&f->gdb, "qThreadExtraInfo,2", "74776f");
    check(&f->gdb, "qThreadExtraInfo,4", "E22");
    require_calls(f, "");
    check(&f->gdb, "qThreadExtraInfo,1", "U");
    require_calls(f, "unknown qThreadExtraInfo,1\n");
    end(f);
}

/* Which thread is meant; a stop has another one, which is meant then. */
static void test_moves(void)
{
    struct fake *f = begin();

    check(&f->gdb, "s", "T05thread:02;");
    check(&f->gdb, "S05", "T05thread:02;");
    check(&f->gdb, "bs", "T05replaylog:begin;thread:02;");
    check(&f->gdb, "c", "T05thread:02;");
    check(&f->gdb, "bc", "T05replaylog:begin;thread:02;");
    require_calls(f, "step 1 on\nstep 2 on\nstep 2 back\ngo 0 on\n"
                  "go 0 back\n");
    check(&f->gdb, "Hc1f", "OK");
    check(&f->gdb, "bs", "T05replaylog:begin;thread:02;");
    check(&f->gdb, "bc", "T05replaylog:begin;thread:02;");
    check(&f->gdb, "C0b", "T05thread:02;");
    check(&f->gdb, "Hc-1", "OK");
    check(&f->gdb, "bc", "T05replaylog:begin;thread:02;");
    require_calls(f, "step 1f back\ngo 1f back\ngo 1f on\ngo 0 back\n");
    check(&f->gdb, "vCont?", "vCont;c;C;s;S");
    check(&f->gdb, "vCont;s", "T05thread:02;");
    check(&f->gdb, "vCont;c:1;s:1f;c", "T05thread:02;");
    check(&f->gdb, "vCont;c:1", "T05thread:02;");
    require_calls(f, "step 2 on\nstep 1f on\ngo 1 on\n");
    check(&f->gdb, "vCont;s:3", "E01");
    check(&f->gdb, "vCont;", "E01");
    check(&f->gdb, "vCont;x", "E01");
    check(&f->gdb, "S", "E01");
    require_calls(f, "");
    end(f);
}

static void test_breakpoints(void)
{
    struct fake *f = begin();
    GHashTable *table = f->server->breakpoints;

    check(&f->gdb, "Z0,00FF,1", "OK");
    check(&f->gdb, "Z1,ff,2;X1,00", "OK");
    check(&f->gdb, "Z4,ff,2", "");
    check(&f->gdb, "z1,ff,2", "OK");
    check(&f->gdb, "Z0,ff", "E01");
    check(&f->gdb, "Z0,ff,1x", "E01");
    check(&f->gdb, "z0,ff,1;X1,00", "E01");
    check(&f->gdb, "Z", "E01");
    check(&f->gdb, "Z9,1,1", "E.not ?\\x1b???");
    require_calls(f, "0,ff,1 \n1,ff,2 ;X1,00\n4,ff,2 \n1,ff,2 removed\n"
                  "9,1,1 \n");
    g_assert_cmpuint(g_hash_table_size(table), ==, 1);
    g_assert_cmpstr(g_hash_table_lookup(table, "0,ff,1"), ==, "");
    for (unsigned i = 1; i < BREAKPOINTS_MAX; i++) {
        g_autofree char *request = g_strdup_printf("Z0,%x000,1", i);

        check(&f->gdb, request, "OK");
    }
    check(&f->gdb, "Z0,1,1", "E.there are too many breakpoints");
    check(&f->gdb, "z0,ff,1", "OK");
    check(&f->gdb, "Z0,1,1", "OK");
    end(f);
}

static void test_monitor(void)
{
    struct fake *f = begin();

    monitor(&f->gdb, " quick\t brown fox ", "quick brown fox\n");
    monitor(&f->gdb, "quick", "no\\x1b[1m word\n");
    monitor(&f->gdb, "help", "dies         dies\nfar          far WHERE\n");
    monitor(&f->gdb, "far 1", "quick 1\n");
    monitor(&f->gdb, "other one", "another\n");
    require_calls(f, "quick:  quick\t brown fox \nquick: quick\nfar: far 1\n"
                  "none: other one\n");
    check(&f->gdb, "qRcmd,6", "E01");
    check(&f->gdb, "qRcmd,6g", "E01");
    end(f);
}

/* Searches are apart; what they have found is gone to. */
static void test_searches(void)
{
    struct fake *f = begin();

    g_string_assign(f->calls, "begin\n");
    monitor(&f->gdb, "far away", "far away\n");
    require_calls(f, "begin\nfollow\n");
    monitor(&f->gdb, "far nowhere", "it is nowhere\n");
    monitor(&f->gdb, "dies", "this takes too long, or too much memory\n");
    require_calls(f, "");
    say_monitor(&f->gdb, "slow");
    interrupt(&f->gdb);
    check(&f->gdb, NULL, INTERRUPTED);
    g_assert_null(f->server->search);
    check(&f->gdb, "qC", "QC01");
    /* It leaves in the midst of one. */
    say_monitor(&f->gdb, "slow");
    while (!f->server->search) {
        g_main_context_iteration(NULL, TRUE);
    }
    end(f);
}

/* Another command is run in place of a search. */
static void test_instead(void)
{
    struct fake *f = begin();

    g_string_assign(f->calls, "begin\n");
    f->holds = true;
    say_monitor(&f->gdb, "far away");
    while (!f->server->request) {
        g_main_context_iteration(NULL, TRUE);
    }
    gdb_server_serve(f->server);
    while (f->server->search) {
        g_main_context_iteration(NULL, TRUE);
    }
    /* It waits for its turn. */
    require_calls(f, "begin\nfollow\n");
    gdb_server_serve(f->server);
    check_printed(&f->gdb, "quick instead\n");
    check(&f->gdb, NULL, "OK");
    end(f);
}

/* An answer is what the request wants, if it is not served. */
static void test_interrupted(void)
{
    struct fake *f = begin();

    f->holds = true;
    say(&f->gdb, "own:1");
    interrupt(&f->gdb);
    check(&f->gdb, NULL, "E.interrupted");
    g_assert_false(gdb_server_wanted(f->server, false));
    check(&f->gdb, "qC", "QC01");
    g_assert_true(gdb_server_wanted(f->server, false));
    say(&f->gdb, "vCont;c");
    interrupt(&f->gdb);
    check(&f->gdb, NULL, "T02thread:01;");
    say_monitor(&f->gdb, "quick word");
    interrupt(&f->gdb);
    check(&f->gdb, NULL, INTERRUPTED);
    say(&f->gdb, "unknown");
    interrupt(&f->gdb);
    check(&f->gdb, NULL, "E.interrupted");
    /* What needs nothing of the target is served all the same. */
    check(&f->gdb, "qC", "QC01");
    require_calls(f, "");
    end(f);
}

static void fail(struct fake *f, const char *request, const char *message)
{
    say(&f->gdb, request);
    while (!f->server->request || strcmp(f->server->request, request)) {
        g_main_context_iteration(NULL, TRUE);
    }
    gdb_server_fail(f->server, g_error_new(AGENT_ERROR,
                                           AGENT_ERROR_PROTOCOL, "%s",
                                           message));
}

static void test_failed(void)
{
    struct fake *f = begin();

    f->holds = true;
    fail(f, "own:1", "a\x1b#b");
    check(&f->gdb, NULL, "E.a\\x1b?b");
    fail(f, "c", "cannot run");
    check_printed(&f->gdb, "cannot run\n");
    check(&f->gdb, NULL, "T05thread:01;");
    fail(f, "qRcmd,00", "cannot\x1b do");
    check_printed(&f->gdb, "cannot\\x1b do\n");
    check(&f->gdb, NULL, "E01");
    end(f);
}

static void check_leaves(const char *request, const char *want)
{
    struct fake *f = begin();

    say(&f->gdb, request);
    if (want) {
        check(&f->gdb, NULL, want);
    }
    check(&f->gdb, NULL, NULL);
    end(f);
}

static void test_leave(void)
{
    g_autofree char *much = g_strnfill(4097, 'm');

    check_leaves("D", "OK");
    check_leaves("D;1", "OK");
    check_leaves("vKill;1", "OK");
    check_leaves("k", NULL);
    check_leaves(much, NULL);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/server/requests", test_requests);
    g_test_add_func("/server/threads", test_threads);
    g_test_add_func("/server/moves", test_moves);
    g_test_add_func("/server/breakpoints", test_breakpoints);
    g_test_add_func("/server/monitor", test_monitor);
    g_test_add_func("/server/searches", test_searches);
    g_test_add_func("/server/instead", test_instead);
    g_test_add_func("/server/interrupted", test_interrupted);
    g_test_add_func("/server/failed", test_failed);
    g_test_add_func("/server/leave", test_leave);
    return g_test_run();
}
