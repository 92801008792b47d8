/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of output-collector.c: what comes by its sockets, as from QEMU, is in
 * the file, which is read here byte by byte
 */

#include <glib/gstdio.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "replay/guest-output.h"
#include "replay/output-collector.h"
#include "scratch.h"

#define HEAD    96

struct fixture {
    char *folder;
    struct recording *r;
    char *path, *new;
    char **arguments;
};

static void set_up(struct fixture *f, gconstpointer data)
{
    f->folder = scratch_new();
    f->r = recording_new(f->folder);
    f->path = recording_path(f->r, RECORDING_OUTPUT);
    f->new = recording_path(f->r, "new-output");
    f->arguments = g_strsplit("-serial null -serial null -parallel null", " ",
                              -1);
}

static void tear_down(struct fixture *f, gconstpointer data)
{
    recording_free(f->r);
    scratch_remove(f->folder);
    g_free(f->path);
    g_free(f->new);
    g_strfreev(f->arguments);
}

static struct output_collector *start(struct fixture *f)
{
    g_autoptr(GError) error = NULL;
    struct output_collector *c = output_collector_new(f->r, &error);

    g_assert_no_error(error);
    output_collector_connect(c, &f->arguments, &error);
    g_assert_no_error(error);
    return c;
}

static void write_port(struct output_collector *c, unsigned port,
                       const char *bytes, size_t n)
{
    g_assert_cmpint(send(output_collector_sockets(c)[port], bytes, n, 0), ==,
                    n);
}

static void check_file(const struct fixture *f, const void *runs, size_t n)
{
    g_autofree char *text = NULL;
    size_t size;
    struct stat st;

    g_assert_true(g_file_get_contents(f->path, &text, &size, NULL));
    g_assert_cmpmem(text, 8, "BtOutpt1", 8);
    g_assert_cmpmem(text + HEAD, size - HEAD, runs, n);
    g_assert_cmpint(stat(f->path, &st), ==, 0);
    g_assert_cmpint(st.st_mode & 0777, ==, 0600);
    g_assert_false(g_file_test(f->new, G_FILE_TEST_EXISTS));
}

/* In their order, each with its port */
static void test_order(struct fixture *f, gconstpointer data)
{
    static const char runs[] = "\0\3\0abc" "\1\1\0d" "\0\1\0e" "\x80\1\0\0"
                               "\1\2\0fg";
    struct output_collector *c = start(f);

    g_assert_cmpint(output_collector_sockets(c)[3], ==, -1);
    write_port(c, 0, "a", 1);
    write_port(c, 0, "bc", 2);
    write_port(c, 1, "d", 1);
    write_port(c, 0, "e", 1);
    write_port(c, 2, "\0", 1);
    write_port(c, 1, "fg", 2);
    g_assert_true(output_collector_finish(c, true, 77, NULL));
    check_file(f, runs, sizeof(runs) - 1);
}

/* More than fits into a run, or waits in a socket */
static void test_much(struct fixture *f, gconstpointer data)
{
    g_autoptr(GByteArray) want = g_byte_array_new();
    struct output_collector *c = start(f);
    unsigned all = GUEST_OUTPUT_RUN + 2;

    for (unsigned i = 0; i < all; i++) {
        char byte = i % 251;

        if (i % GUEST_OUTPUT_RUN == 0) {
            unsigned n = MIN(all - i, GUEST_OUTPUT_RUN);

            g_byte_array_append(want, (guint8[]) { 0, n, n >> 8 }, 3);
        }
        g_byte_array_append(want, (guint8 *)&byte, 1);
        write_port(c, 0, &byte, 1);
    }
    g_assert_true(output_collector_finish(c, true, 77, NULL));
    check_file(f, want->data, want->len);
}

/* Nothing of a replay that has failed; what was there stays. */
static void test_failed(struct fixture *f, gconstpointer data)
{
    struct output_collector *c = start(f);
    g_autofree char *text = NULL;

    g_assert_true(g_file_set_contents(f->path, "old", 3, NULL));
    write_port(c, 0, "a", 1);
    g_assert_true(g_file_test(f->new, G_FILE_TEST_EXISTS));
    g_assert_false(output_collector_finish(c, false, 0, NULL));
    g_assert_false(g_file_test(f->new, G_FILE_TEST_EXISTS));
    g_assert_true(g_file_get_contents(f->path, &text, NULL, NULL));
    g_assert_cmpstr(text, ==, "old");
}

/* A link where it writes is replaced, and not followed. */
static void test_link(struct fixture *f, gconstpointer data)
{
    g_autofree char *victim = recording_path(f->r, "victim");
    g_autofree char *text = NULL;
    struct output_collector *c;

    g_assert_true(g_file_set_contents(victim, "kept", 4, NULL));
    g_assert_cmpint(symlink("victim", f->new), ==, 0);
    g_assert_cmpint(symlink("victim", f->path), ==, 0);
    c = start(f);
    write_port(c, 0, "a", 1);
    g_assert_true(output_collector_finish(c, true, 77, NULL));
    check_file(f, "\0\1\0a", 4);
    g_assert_true(g_file_get_contents(victim, &text, NULL, NULL));
    g_assert_cmpstr(text, ==, "kept");
}

/* The guest is not kept from what it does; that nothing is kept is said. */
static void test_full(struct fixture *f, gconstpointer data)
{
    g_autoptr(GError) error = NULL;
    g_autofree char *bytes = g_malloc0(GUEST_OUTPUT_RUN);
    struct output_collector *c = start(f);
    struct rlimit had, low;

    g_assert_cmpint(getrlimit(RLIMIT_FSIZE, &had), ==, 0);
    signal(SIGXFSZ, SIG_IGN);
    low = (struct rlimit) { 1024, had.rlim_max };
    g_assert_cmpint(setrlimit(RLIMIT_FSIZE, &low), ==, 0);
    for (unsigned i = 0; i < 8; i++) {
        write_port(c, i & 1, bytes, GUEST_OUTPUT_RUN);
    }
    g_assert_false(output_collector_finish(c, true, 77, &error));
    g_assert_error(error, AGENT_ERROR, AGENT_ERROR_SYSTEM);
    g_assert_cmpint(setrlimit(RLIMIT_FSIZE, &had), ==, 0);
    g_assert_false(g_file_test(f->new, G_FILE_TEST_EXISTS));
    g_assert_false(g_file_test(f->path, G_FILE_TEST_EXISTS));
}

/* Of another's recording */
static void test_many_ports(struct fixture *f, gconstpointer data)
{
    g_autoptr(GError) error = NULL;
    struct output_collector *c = output_collector_new(f->r, NULL);

    g_strfreev(f->arguments);
    f->arguments = g_new0(char *, 2 * (GUEST_OUTPUT_PORTS + 1) + 1);
    for (unsigned i = 0; i <= GUEST_OUTPUT_PORTS; i++) {
        f->arguments[2 * i] = g_strdup("-serial");
        f->arguments[2 * i + 1] = g_strdup("null");
    }
    g_assert_false(output_collector_connect(c, &f->arguments, &error));
    g_assert_error(error, AGENT_ERROR, AGENT_ERROR_PROTOCOL);
    output_collector_finish(c, false, 0, NULL);
}

/* No path of the host's is too long for its sockets. */
static void test_long_path(struct fixture *f, gconstpointer data)
{
    g_autofree char *name = g_strnfill(200, 'x');
    g_autofree char *folder = g_build_filename(f->folder, name, NULL);

    if (g_test_subprocess()) {
        output_collector_finish(start(f), true, 77, NULL);
        return;
    }
    g_assert_cmpint(g_mkdir(folder, 0700), ==, 0);
    g_setenv("TMPDIR", folder, TRUE);
    g_test_trap_subprocess(NULL, 0, G_TEST_SUBPROCESS_DEFAULT);
    g_test_trap_assert_passed();
    g_unsetenv("TMPDIR");
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*test)(struct fixture *f, gconstpointer data);
    } tests[] = {
        { "/output-collector/order", test_order },
        { "/output-collector/much", test_much },
        { "/output-collector/failed", test_failed },
        { "/output-collector/link", test_link },
        { "/output-collector/full", test_full },
        { "/output-collector/many-ports", test_many_ports },
        { "/output-collector/long-path", test_long_path },
    };

    g_test_init(&argc, &argv, NULL);
    for (unsigned i = 0; i < G_N_ELEMENTS(tests); i++) {
        g_test_add(tests[i].name, struct fixture, NULL, set_up, tests[i].test,
                   tear_down);
    }
    return g_test_run();
}
