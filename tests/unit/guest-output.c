/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of guest-output.c: logs and files that are made here, at random, where
 * each byte is compared in turn; and files that are damaged
 */

#include <glib/gstdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "replay/guest-output.h"
#include "scratch.h"

#define BEGIN   1000
#define HEAD    96              /* bytes of the file before its runs */

/* A byte that the guest has written */
struct written {
    uint64_t icount;
    unsigned port;
    char byte;
};

struct fixture {
    char *folder;
    struct recording *r;
    GByteArray *log, *output;
    GArray *written;
    uint64_t icount;
};

static void put(GByteArray *to, uint64_t n, unsigned bytes)
{
    while (bytes--) {
        g_byte_array_append(to, &(guint8){ n >> (8 * bytes) }, 1);
    }
}

static void put_little(GByteArray *to, uint64_t n, unsigned bytes)
{
    for (; bytes--; n >>= 8) {
        g_byte_array_append(to, &(guint8){ n }, 1);
    }
}

static void set_up(struct fixture *f, gconstpointer data)
{
    f->folder = scratch_new();
    f->r = recording_new(f->folder);
    f->r->arguments = g_strsplit("-serial null -serial null", " ", -1);
    g_free(f->r->log.name);
    f->r->log.name = g_strdup("replay.log");
    f->r->begin = (struct log_start) { .icount = BEGIN };
    f->log = g_byte_array_new();
    f->output = g_byte_array_new();
    f->written = g_array_new(FALSE, FALSE, sizeof(struct written));
    f->icount = BEGIN;
    put(f->log, 0xe0200e, 4);
    put(f->log, 0, 8);
}

static void tear_down(struct fixture *f, gconstpointer data)
{
    recording_free(f->r);
    scratch_remove(f->folder);
    g_byte_array_unref(f->log);
    g_byte_array_unref(f->output);
    g_array_unref(f->written);
}

static void log_instructions(struct fixture *f, unsigned n)
{
    put(f->log, 0, 1);
    put(f->log, n, 4);
    f->icount += n;
}

static void log_write(struct fixture *f, unsigned port, const char *bytes,
                      unsigned n)
{
    put(f->log, 22, 1);
    put(f->log, n, 4);
    put(f->log, n, 4);
    for (unsigned i = 0; i < n; i++) {
        const struct written w = { f->icount, port, bytes[i] };

        g_array_append_val(f->written, w);
    }
}

/* A run of what was written, up to @most bytes */
static unsigned put_run(struct fixture *f, unsigned from, unsigned most)
{
    const struct written *all = (const void *)f->written->data;
    unsigned n = 1;

    while (n < most && from + n < f->written->len &&
           all[from + n].port == all[from].port) {
        n++;
    }
    put(f->output, all[from].port, 1);
    put_little(f->output, n, 2);
    for (unsigned i = 0; i < n; i++) {
        put(f->output, all[from + i].byte, 1);
    }
    return n;
}

static void put_head(struct fixture *f, uint64_t end)
{
    g_byte_array_set_size(f->output, 0);
    g_byte_array_append(f->output, (const guint8 *)"BtOutpt1", 8);
    put_little(f->output, f->r->log.size, 8);
    put_little(f->output, BEGIN, 8);
    put_little(f->output, end, 8);
    for (unsigned i = 0; i < 64; i++) {
        put(f->output, f->r->log.sha256 ? f->r->log.sha256[i] : 0, 1);
    }
    g_assert_cmpuint(f->output->len, ==, HEAD);
}

static void store(struct fixture *f, const char *name, const GByteArray *bytes)
{
    g_autofree char *path = recording_path(f->r, name);

    g_assert_true(g_file_set_contents(path, (const char *)bytes->data,
                                      bytes->len, NULL));
}

static void finish(struct fixture *f)
{
    log_instructions(f, 5);
    put(f->log, 40, 1);
    f->r->log.size = f->log->len;
    g_free(f->r->log.sha256);
    f->r->log.sha256 = g_strnfill(64, 'c');
    put_head(f, f->icount);
    for (unsigned i = 0; i < f->written->len;) {
        i += put_run(f, i, g_test_rand_int_range(1, 9));
    }
    store(f, "replay.log", f->log);
    store(f, RECORDING_OUTPUT, f->output);
}

static bool find(const struct fixture *f, const char *text, size_t n,
                 uint64_t number, bool last, uint64_t *icount, GError **error)
{
    const struct find_place place = {
        .kind = FIND_PLACE_OUTPUT, .name = (char *)text, .length = n,
        .number = number, .last = last,
    };

    return guest_output_find(f->r, &place, icount, error);
}

static void check(const struct fixture *f, const char *text, uint64_t number,
                  bool last, uint64_t icount)
{
    g_autoptr(GError) error = NULL;
    uint64_t found = 0;

    find(f, text, strlen(text), number, last, &found, &error);
    g_assert_no_error(error);
    g_assert_cmpuint(found, ==, icount);
}

static void check_fails(const struct fixture *f, const char *text,
                        uint64_t number, int code, const char *why)
{
    g_autoptr(GError) error = NULL;
    uint64_t found;

    g_assert_false(find(f, text, strlen(text), number, false, &found, &error));
    g_assert_error(error, AGENT_ERROR, code);
    g_assert_nonnull(strstr(error->message, why));
}

/* A text of several writes, with others to another port between them */
static void test_split(struct fixture *f, gconstpointer data)
{
    log_instructions(f, 10);
    log_write(f, 0, "log", 3);
    log_instructions(f, 10);
    log_write(f, 1, "in:", 3);
    log_write(f, GUEST_OUTPUT_OTHER, "in:", 3);
    log_instructions(f, 10);
    log_write(f, 0, "in:", 3);
    log_write(f, 0, "", 0);
    log_instructions(f, 10);
    log_write(f, 1, "login:", 6);
    finish(f);
    check(f, "login:", 1, false, BEGIN + 30);
    check(f, "login:", 2, false, BEGIN + 40);
    check(f, "login:", 1, true, BEGIN + 40);
    check(f, "in:", 1, false, BEGIN + 20);
    check_fails(f, "login:", 3, AGENT_ERROR_COMMAND, "this text 2 times");
    check_fails(f, "logout", 1, AGENT_ERROR_COMMAND, "this text 0 times");
}

/* One begins where the last one has not ended. */
static void test_overlap(struct fixture *f, gconstpointer data)
{
    for (unsigned i = 0; i < 5; i++) {
        log_instructions(f, 10);
        log_write(f, 0, i % 2 ? "b" : "a", 1);
    }
    finish(f);
    check(f, "aba", 1, false, BEGIN + 30);
    check(f, "aba", 2, false, BEGIN + 50);
}

/* Where a text ends at a byte, without any state */
static bool ends_at(const struct fixture *f, unsigned at, const char *text,
                    unsigned n)
{
    const struct written *all = (const void *)f->written->data;
    unsigned i = at + 1;

    for (unsigned k = n; k; k--) {
        do {
            if (!i--) {
                return false;
            }
        } while (all[i].port != all[at].port);
        if (all[i].byte != text[k - 1]) {
            return false;
        }
    }
    return all[at].port < GUEST_OUTPUT_PORTS;
}

static void compare(const struct fixture *f, const char *text, unsigned n)
{
    const struct written *all = (const void *)f->written->data;
    uint64_t times = 0, last = 0, found;

    for (unsigned i = 0; i < f->written->len; i++) {
        if (ends_at(f, i, text, n)) {
            g_assert_true(find(f, text, n, ++times, false, &found, NULL));
            g_assert_cmpuint(found, ==, all[i].icount);
            last = all[i].icount;
        }
    }
    g_assert_false(find(f, text, n, times + 1, false, &found, NULL));
    g_assert_cmpint(find(f, text, n, 1, true, &found, NULL), ==, !!times);
    if (times) {
        g_assert_cmpuint(found, ==, last);
    }
}

static void random_bytes(char *bytes, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        bytes[i] = "a\0\xff"[g_test_rand_int_range(0, 3)];
    }
}

static void test_random(struct fixture *f, gconstpointer data)
{
    static const unsigned ports[] = { 0, 1, 63, GUEST_OUTPUT_OTHER };
    char bytes[5];

    for (unsigned i = 0; i < 60; i++) {
        unsigned n = g_test_rand_int_range(0, sizeof(bytes));

        log_instructions(f, g_test_rand_int_range(1, 9));
        random_bytes(bytes, n);
        log_write(f, ports[g_test_rand_int_range(0, 4)], bytes, n);
        /* An interrupt, which is nothing here */
        put(f->log, 1, 1);
    }
    finish(f);
    for (unsigned round = 0; round < 40; round++) {
        unsigned n = g_test_rand_int_range(1, sizeof(bytes) + 1);

        random_bytes(bytes, n);
        compare(f, bytes, n);
    }
}

/* What a replay need not have come to */
static void test_end(struct fixture *f, gconstpointer data)
{
    unsigned n;

    log_instructions(f, 10);
    log_write(f, 0, "ab", 2);
    log_instructions(f, 10);
    log_write(f, 0, "c", 1);
    finish(f);
    /* It has ended before "c", and has not this. */
    for (unsigned end = BEGIN + 10; end <= BEGIN + 20; end += 5) {
        put_head(f, end);
        put_run(f, 0, 2);
        store(f, RECORDING_OUTPUT, f->output);
        check(f, "ab", 1, true, BEGIN + 10);
        check_fails(f, "c", 1, AGENT_ERROR_COMMAND, "0 times");
    }
    /* Half of a write is none. */
    put_head(f, BEGIN + 10);
    put_run(f, 0, 1);
    store(f, RECORDING_OUTPUT, f->output);
    check_fails(f, "b", 1, AGENT_ERROR_PROTOCOL, "is damaged");
    /* It has come further, and should have it. */
    put_head(f, BEGIN + 21);
    n = put_run(f, 0, 2);
    store(f, RECORDING_OUTPUT, f->output);
    check_fails(f, "c", 1, AGENT_ERROR_PROTOCOL, "is damaged");
    /* It has not come so far, and should not have it. */
    put_head(f, BEGIN + 15);
    put_run(f, 0, 2);
    put_run(f, n, 1);
    store(f, RECORDING_OUTPUT, f->output);
    check_fails(f, "c", 1, AGENT_ERROR_PROTOCOL, "is damaged");
}

static void test_damaged(struct fixture *f, gconstpointer data)
{
    g_autoptr(GByteArray) whole = g_byte_array_new();

    log_instructions(f, 10);
    log_write(f, 0, "ab", 2);
    log_write(f, 1, "cd", 2);
    finish(f);
    put_head(f, f->icount);
    put_run(f, 0, 2);
    put_run(f, 2, 2);
    g_byte_array_append(whole, f->output->data, f->output->len);
    /* Cut off anywhere, or with something after it */
    for (unsigned n = 0; n < whole->len; n++) {
        g_byte_array_set_size(f->output, 0);
        g_byte_array_append(f->output, whole->data, n);
        store(f, RECORDING_OUTPUT, f->output);
        check_fails(f, "x", 1, AGENT_ERROR_PROTOCOL, "is damaged");
    }
    g_byte_array_set_size(f->output, 0);
    g_byte_array_append(f->output, whole->data, whole->len);
    put(f->output, 0, 1);
    store(f, RECORDING_OUTPUT, f->output);
    check_fails(f, "x", 1, AGENT_ERROR_PROTOCOL, "is damaged");
    /* Any byte of the head, but for those of its end */
    for (unsigned i = 0; i < HEAD; i++) {
        whole->data[i] ^= 1;
        store(f, RECORDING_OUTPUT, whole);
        if (i < 24 || i >= 32) {
            check_fails(f, "cd", 1, AGENT_ERROR_PROTOCOL, "is damaged");
        }
        whole->data[i] ^= 1;
    }
    /* A run of nothing, and a write that is in two ports */
    whole->data[HEAD + 1] = 0;
    store(f, RECORDING_OUTPUT, whole);
    check_fails(f, "ab", 1, AGENT_ERROR_PROTOCOL, "is damaged");
    put_head(f, f->icount);
    put_run(f, 0, 1);
    put_run(f, 1, 1);
    f->output->data[f->output->len - 4] = 1;
    put_run(f, 2, 2);
    store(f, RECORDING_OUTPUT, f->output);
    check_fails(f, "cd", 1, AGENT_ERROR_PROTOCOL, "is damaged");
}

/* What somebody else can have put there is not followed, and not waited for. */
static void test_hostile(struct fixture *f, gconstpointer data)
{
    g_autofree char *path = recording_path(f->r, RECORDING_OUTPUT);
    g_autofree char *other = recording_path(f->r, "other");

    log_write(f, 0, "a", 1);
    finish(f);
    check(f, "a", 1, false, BEGIN);
    g_assert_cmpint(rename(path, other), ==, 0);
    g_assert_false(guest_output_there(f->r));
    check_fails(f, "a", 1, AGENT_ERROR_COMMAND, "not known yet");

    g_assert_cmpint(symlink("other", path), ==, 0);
    g_assert_true(guest_output_there(f->r));
    check_fails(f, "a", 1, AGENT_ERROR_SYSTEM, path);
    g_unlink(path);
    g_assert_cmpint(mkfifo(path, 0600), ==, 0);
    check_fails(f, "a", 1, AGENT_ERROR_PROTOCOL, "is damaged");
    g_unlink(path);
    g_assert_cmpint(g_mkdir(path, 0700), ==, 0);
    check_fails(f, "a", 1, AGENT_ERROR_PROTOCOL, "is damaged");
}

static void test_log(struct fixture *f, gconstpointer data)
{
    log_write(f, 0, "a", 1);
    finish(f);
    /* An event that there is not */
    f->log->data[f->log->len - 1] = 99;
    store(f, "replay.log", f->log);
    check_fails(f, "b", 1, AGENT_ERROR_PROTOCOL, "is damaged");
}

static void test_no_port(struct fixture *f, gconstpointer data)
{
    finish(f);
    g_strfreev(f->r->arguments);
    f->r->arguments = g_strsplit("-serial none -parallel null -append -serial",
                                 " ", -1);
    check_fails(f, "a", 1, AGENT_ERROR_COMMAND, "no serial port");
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*test)(struct fixture *f, gconstpointer data);
    } tests[] = {
        { "/guest-output/split", test_split },
        { "/guest-output/overlap", test_overlap },
        { "/guest-output/random", test_random },
        { "/guest-output/end", test_end },
        { "/guest-output/damaged", test_damaged },
        { "/guest-output/hostile", test_hostile },
        { "/guest-output/log", test_log },
        { "/guest-output/no-port", test_no_port },
    };

    g_test_init(&argc, &argv, NULL);
    for (unsigned i = 0; i < G_N_ELEMENTS(tests); i++) {
        g_test_add(tests[i].name, struct fixture, NULL, set_up, tests[i].test,
                   tear_down);
    }
    return g_test_run();
}
