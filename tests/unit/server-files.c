/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a gdb is told when its target comes to another program, and which
 * program's breakpoints stop it
 *
 * usage: server-files SAMPLE
 */

#include <glib/gstdio.h>
#include <string.h>

#include "gdb-side.h"
#include "gdb/server.h"
#include "scratch.h"

#define ONE     0x1000
#define TWO     0x2000
#define AT      UINT64_C(0x555500001000)
#define READ    "qXfer:libraries:read::0,1000"
#define LIBRARY "T05library:;thread:01;"
#define STOP    "T05thread:01;"
#define ENDED   "T05replaylog:end;thread:01;"

static const char map[] =
    "cr3 1000 one\n"
    "555500000000-555500100000 r-xp 00000000 00:00 0 /bin/one\n"
    "cr3 2000 two\n"
    "555500000000-555500100000 r-xp 00000000 00:00 0 /bin/two\n";

static const char *sample;

/**
 * struct fake - a target that comes from one program to the next
 * @cr3:  of the program that runs, always at AT
 * @ways: those that it comes to, 0: to its end
 * @went: how many of them
 */
struct fake {
    char *folder;
    struct symbolizer *symbols;
    struct process_symbols *files;
    struct gdb_server *server;
    struct gdb gdb;
    uint64_t cr3;
    const uint64_t *ways;
    unsigned went;
};

static void put_sample(const struct fake *f, const char *path)
{
    g_autofree char *to = g_build_filename(f->folder, path, NULL);
    g_autofree char *text = NULL;
    gsize n;

    g_assert_true(g_file_get_contents(sample, &text, &n, NULL));
    g_assert_true(g_file_set_contents(to, text, (gssize)n, NULL));
}

static struct process_symbols *files(void *opaque)
{
    struct fake *f = opaque;

    return f->files;
}

static unsigned list(void *opaque)
{
    struct fake *f = opaque;
    const struct symbolizer_where where = { .cr3 = f->cr3 };
    enum btrail_certainty certainty;

    return process_symbols_list(f->files, symbolizer_process(f->symbols, &where,
                                                             &certainty),
                                &where, AT);
}

static uint64_t pc(void *opaque, uint64_t thread)
{
    return AT;
}

/* It does not care which breakpoints there are. */
static void go_on(void *opaque, uint64_t thread, bool forward)
{
    struct fake *f = opaque;
    uint64_t next = f->ways[f->went++];

    f->cr3 = next ?: f->cr3;
    gdb_server_stopped(f->server, next ? GDB_STOP : GDB_STOP_END, 1);
}

static void step(void *opaque, uint64_t thread, bool forward)
{
    go_on(opaque, thread, forward);
}

static char *breakpoint(void *opaque, const char *key, const char *conditions,
                        GError **error)
{
    return g_strdup("OK");
}

static bool list_thread(void *opaque, unsigned i, uint64_t *thread)
{
    *thread = 1;
    return !i;
}

static void features(void *opaque, GString *text)
{
}

static void on_left(void *opaque)
{
}

static const struct packet packets[] = { { NULL } };
static const struct monitor_command commands[] = { { NULL } };

static const struct target_ops ops = {
    .packet_size = 4096,
    .packets = packets,
    .commands = commands,
    .left = on_left,
    .features = features,
    .thread = list_thread,
    .step = step,
    .go_on = go_on,
    .breakpoint = breakpoint,
    .files = files,
    .list = list,
    .pc = pc,
};

static struct fake *begin(const uint64_t *ways)
{
    struct fake *f = g_new0(struct fake, 1);
    g_autofree char *path = NULL, *bin = NULL, *copies = NULL;
    struct symbolizer_options options = { .map = NULL };
    g_autoptr(GError) error = NULL;
    char *roots[2] = { NULL };
    int sock;

    f->folder = scratch_new();
    f->cr3 = ONE;
    f->ways = ways;
    path = g_build_filename(f->folder, "names.map", NULL);
    bin = g_build_filename(f->folder, "bin", NULL);
    copies = g_build_filename(f->folder, "copies", NULL);
    g_assert_cmpint(g_mkdir(bin, 0700) | g_mkdir(copies, 0700), ==, 0);
    put_sample(f, "bin/one");
    put_sample(f, "bin/two");
    g_assert_true(g_file_set_contents(path, map, -1, NULL));
    roots[0] = f->folder;
    options.map = path;
    options.files.sysroots = roots;
    f->symbols = symbolizer_new(&options, NULL, &error);
    g_assert_no_error(error);
    f->files = process_symbols_new(f->symbols, copies);
    f->gdb = gdb_new(&sock);
    f->server = gdb_server_new(&ops, f, NULL, sock, sock, 1);
    return f;
}

static void end(struct fake *f)
{
    leave(&f->gdb);
    gdb_server_free(f->server);
    process_symbols_free(f->files);
    symbolizer_free(f->symbols);
    scratch_remove(f->folder);
    g_free(f);
}

/* It reads the list, which has one program. */
static void check_list(struct fake *f, const char *program)
{
    g_autofree char *said = NULL, *end = g_strconcat("-", program, "\">", NULL);

    say(&f->gdb, READ);
    said = hear(&f->gdb);
    g_assert_nonnull(strstr(said, end));
    g_assert_null(strstr(strstr(said, "<library ") + 1, "<library "));
}

/* It is offered, and told of where the target comes to another one. */
static void test_list(void)
{
    static const uint64_t ways[] = { TWO, TWO, ONE, ONE };
    struct fake *f = begin(ways);

    check(&f->gdb, "qSupported", "QStartNoAckMode+;ReverseStep+;"
          "ReverseContinue+;qXfer:libraries:read+");
    check(&f->gdb, "?", STOP);
    check_list(f, "one");
    check(&f->gdb, "vCont;c", LIBRARY);
    g_assert_cmpuint(f->went, ==, 1);
    check_list(f, "two");
    /* How it has stopped; it has not run. */
    check(&f->gdb, "vCont;c", STOP);
    g_assert_cmpuint(f->went, ==, 1);
    check(&f->gdb, "vCont;c", STOP);
    check(&f->gdb, "vCont;s:1", LIBRARY);
    check_list(f, "one");
    check(&f->gdb, "vCont;s:1", STOP);
    g_assert_cmpuint(f->went, ==, 3);
    check(&f->gdb, "bc", STOP);
    end(f);
}

/* Those of a program stop it there alone. */
static void test_breakpoint(void)
{
    static const uint64_t ways[] = { TWO, TWO, ONE, TWO, ONE, 0 };
    struct fake *f = begin(ways);

    check_list(f, "one");
    check(&f->gdb, "Z0,555500001000,1", "OK");
    check(&f->gdb, "vCont;c", STOP);
    g_assert_cmpuint(f->went, ==, 3);
    check(&f->gdb, "z0,555500001000,1", "OK");
    /* A step ends where it ends; the breakpoint is not there then. */
    check(&f->gdb, "vCont;s:1", LIBRARY);
    check_list(f, "two");
    check(&f->gdb, "vCont;s:1", STOP);
    /* gdb had taken it out for the step, and could not set it again. */
    check(&f->gdb, "vCont;c", LIBRARY);
    g_assert_cmpuint(f->went, ==, 5);
    check_list(f, "one");
    check(&f->gdb, "Z0,555500001000,1", "OK");
    check(&f->gdb, "vCont;c", STOP);
    check(&f->gdb, "vCont;c", ENDED);
    end(f);
}

/* One that gdb does not set again where its program is has been deleted. */
static void test_deleted(void)
{
    static const uint64_t ways[] = { TWO, ONE, TWO, 0 };
    struct fake *f = begin(ways);

    check_list(f, "one");
    check(&f->gdb, "Z0,555500001000,1", "OK");
    /* Both have one there. */
    f->cr3 = TWO;
    check_list(f, "two");
    check(&f->gdb, "Z0,555500001000,1", "OK");
    check(&f->gdb, "vCont;c", STOP);
    check(&f->gdb, "vCont;c", LIBRARY);
    g_assert_cmpuint(f->went, ==, 2);
    check_list(f, "one");
    check(&f->gdb, "vCont;c", LIBRARY);
    g_assert_cmpuint(f->went, ==, 3);
    check_list(f, "two");
    check(&f->gdb, "Z0,555500001000,1", "OK");
    check(&f->gdb, "vCont;c", STOP);
    check(&f->gdb, "vCont;c", ENDED);
    end(f);
}

/* Its user does not wait for a breakpoint that others meet again and again. */
static void test_interrupted(void)
{
    uint64_t ways[10000];
    struct fake *f;

    for (unsigned i = 0; i < G_N_ELEMENTS(ways); i++) {
        ways[i] = TWO;
    }
    ways[G_N_ELEMENTS(ways) - 1] = 0;
    f = begin(ways);
    check_list(f, "one");
    check(&f->gdb, "Z0,555500001000,1", "OK");
    say(&f->gdb, "vCont;c");
    interrupt(&f->gdb);
    check(&f->gdb, NULL, LIBRARY);
    g_assert_cmpuint(f->went, <, G_N_ELEMENTS(ways));
    check_list(f, "two");
    check(&f->gdb, "vCont;c", "T02thread:01;");
    end(f);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_assert_cmpint(argc, ==, 2);
    sample = argv[1];
    g_test_add_func("/server-files/list", test_list);
    g_test_add_func("/server-files/breakpoint", test_breakpoint);
    g_test_add_func("/server-files/deleted", test_deleted);
    g_test_add_func("/server-files/interrupted", test_interrupted);
    return g_test_run();
}
