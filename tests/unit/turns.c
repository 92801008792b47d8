/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of turns.c: logs as QEMU writes them, random ones, and damaged ones
 */

#include <string.h>

#include "replay/turns.h"
#include "scratch.h"

#define VCPUS   3
#define LONGEST 300

struct fixture {
    char *folder;
    char *path;
    GByteArray *log;
    GArray *owners;             /* of uint32_t: the vCPU of each instruction */
    unsigned vcpu;
    struct log_start start;
};

static void put(struct fixture *f, uint64_t n, unsigned bytes)
{
    while (bytes--) {
        uint8_t byte = bytes < sizeof(n) ? n >> bytes * 8 : 0;

        g_byte_array_append(f->log, &byte, 1);
    }
}

/* An event that is no instruction, with what follows it */
static void put_other(struct fixture *f)
{
    unsigned n = g_test_rand_int_range(0, 5);

    switch (g_test_rand_int_range(0, 9)) {
    case 0:                     /* an interrupt */
        put(f, 1, 1);
        break;
    case 1:                     /* data of a disk */
        put(f, 8, 1);
        put(f, 0x2700000000000000, 8);
        break;
    case 2:                     /* a packet */
        put(f, 9, 1);
        put(f, 0, 5);
        put(f, n, 4);
        put(f, 0x2828282828, n);
        break;
    case 3:                     /* keys */
        put(f, 5, 1);
        put(f, 0, 4);
        put(f, n % 2, 4);
        put(f, 0, n % 2 ? 5 : 9);
        break;
    case 4:                     /* a pointer */
        put(f, 5, 1);
        put(f, 2, 4);
        put(f, 0, 12);
        break;
    case 5:                     /* a serial port */
        put(f, 7, 1);
        put(f, 0, 1);
        put(f, n, 4);
        put(f, 0, n);
        break;
    case 6:                     /* random numbers */
        put(f, 27, 1);
        put(f, 0, 4);
        put(f, n, 4);
        put(f, 0x2727272727, n);
        break;
    case 7:                     /* a clock */
        put(f, 29, 1);
        put(f, 0x0000000000000027, 8);
        break;
    default:                    /* a checkpoint */
        put(f, 38, 1);
    }
}

static void put_instructions(struct fixture *f, unsigned n)
{
    put(f, 0, 1);
    put(f, n, 4);
    for (; n; n--) {
        g_array_append_val(f->owners, f->vcpu);
    }
}

static void put_vcpu(struct fixture *f, unsigned vcpu)
{
    put(f, 39, 1);
    put(f, vcpu, 4);
    f->vcpu = vcpu;
}

static void setup(struct fixture *f, gconstpointer data)
{
    f->folder = scratch_new();
    f->path = g_build_filename(f->folder, "log", NULL);
    f->log = g_byte_array_new();
    f->owners = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    put(f, 0xe0200e, 4);
    put(f, 0, 8);
}

static void teardown(struct fixture *f, gconstpointer data)
{
    scratch_remove(f->folder);
    g_free(f->path);
    g_byte_array_unref(f->log);
    g_array_unref(f->owners);
}

static struct turns *load(struct fixture *f, GError **error)
{
    g_assert_true(g_file_set_contents(f->path, (char *)f->log->data,
                                      f->log->len, NULL));
    return turns_load(f->path, &f->start, error);
}

/* What turns say, against a list of all instructions */
static void check(struct fixture *f, const struct turns *t)
{
    const uint32_t *owners = (uint32_t *)f->owners->data;
    unsigned all = f->owners->len;

    for (unsigned vcpu = 0; vcpu < VCPUS; vcpu++) {
        uint64_t last = UINT64_MAX, next = UINT64_MAX, got;

        for (unsigned i = 0; i <= all; i++) {
            if (i && owners[i - 1] == vcpu) {
                last = i - 1;
            }
            g_assert_cmpint(turns_last(t, vcpu, i, &got), ==,
                            last != UINT64_MAX);
            g_assert_true(last == UINT64_MAX || got == last);
        }
        g_assert_cmpuint(turns_next(t, vcpu, all), ==, UINT64_MAX);
        g_assert_cmpuint(turns_next(t, vcpu, UINT64_MAX), ==, UINT64_MAX);
        for (unsigned i = all; i--;) {
            if (owners[i] == vcpu) {
                next = i;
            }
            g_assert_cmpuint(turns_next(t, vcpu, i), ==, next);
            g_assert_true((turns_vcpu(t, i) == vcpu) == (owners[i] == vcpu));
        }
    }
}

static void test_random(struct fixture *f, gconstpointer data)
{
    g_autoptr(GError) error = NULL;
    struct turns *t;

    for (unsigned i = 0; i < LONGEST; i++) {
        if (g_test_rand_int_range(0, 3) == 0) {
            put_vcpu(f, g_test_rand_int_range(0, VCPUS));
        } else if (g_test_rand_bit()) {
            put_other(f);
        } else {
            put_instructions(f, g_test_rand_int_range(1, 6));
        }
    }
    put(f, 40, 1);
    put(f, 0xff, 1);
    t = load(f, &error);
    g_assert_no_error(error);
    check(f, t);
    turns_free(t);
}

/* One vCPU has no turns in its log. */
static void test_one(struct fixture *f, gconstpointer data)
{
    struct turns *t;
    uint64_t got;

    t = load(f, NULL);
    g_assert_cmpuint(turns_vcpu(t, 0), ==, 0);
    g_assert_false(turns_last(t, 0, 5, &got));
    turns_free(t);
    put_instructions(f, 100);
    t = load(f, NULL);
    check(f, t);
    turns_free(t);
    g_assert_cmpuint(turns_vcpu(NULL, 7), ==, 0);
    g_assert_cmpuint(turns_next(NULL, 0, 7), ==, 7);
    g_assert_true(turns_last(NULL, 0, 7, &got));
    g_assert_cmpuint(got, ==, 6);
    g_assert_false(turns_last(NULL, 0, 0, &got));
}

/* The log of a recorder that was killed ends anywhere. */
static void test_cut(struct fixture *f, gconstpointer data)
{
    struct turns *t;

    put_instructions(f, 5);
    put_vcpu(f, 1);
    put_instructions(f, 5);
    put(f, 9, 1);
    put(f, 0, 5);
    put(f, UINT32_MAX, 4);
    put(f, 0, 2);
    t = load(f, NULL);
    g_assert_nonnull(t);
    check(f, t);
    turns_free(t);
}

static void test_damaged(struct fixture *f, gconstpointer data)
{
    static const struct {
        const char *bytes;
        unsigned n;
    } cases[] = {
        { "\x29", 1 },                          /* no event */
        { "\xff", 1 },
        { "\x1a", 1 },                          /* sound */
        { "\x27\0\0\0\x20", 5 },                /* vCPU 32 */
        { "\x27\xff\xff\xff\xff", 5 },
        { "\x05\0\0\0\x09", 5 },                /* no input */
    };
    unsigned head = f->log->len;

    for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(GError) error = NULL;

        g_byte_array_set_size(f->log, head);
        g_byte_array_append(f->log, (const uint8_t *)cases[i].bytes,
                            cases[i].n);
        g_assert_null(load(f, &error));
        g_assert_error(error, AGENT_ERROR,
                       AGENT_ERROR_PROTOCOL);
    }
    for (unsigned i = 0; i < 2; i++) {
        g_autoptr(GError) error = NULL;

        g_byte_array_set_size(f->log, i ? 3 : head);
        f->log->data[3] = 'x';
        g_assert_null(load(f, &error));
        g_assert_error(error, AGENT_ERROR,
                       AGENT_ERROR_PROTOCOL);
    }
}

/* What is before it is not read, and may be anything. */
static void test_start(struct fixture *f, gconstpointer data)
{
    g_autoptr(GError) error = NULL;
    struct turns *t;
    uint64_t got;

    put(f, 0xff, 1);
    f->start = (struct log_start) { f->log->len, 1000, 1 };
    put_instructions(f, 10);
    put_vcpu(f, 0);
    put_instructions(f, 5);
    t = load(f, &error);
    g_assert_no_error(error);
    g_assert_cmpuint(turns_vcpu(t, 1000), ==, 1);
    g_assert_cmpuint(turns_vcpu(t, 1009), ==, 1);
    g_assert_cmpuint(turns_vcpu(t, 1010), ==, 0);
    g_assert_cmpuint(turns_next(t, 0, 0), ==, 1010);
    g_assert_cmpuint(turns_next(t, 1, 0), ==, 1000);
    g_assert_cmpuint(turns_next(t, 0, 1015), ==, UINT64_MAX);
    g_assert_true(turns_last(t, 1, UINT64_MAX, &got));
    g_assert_cmpuint(got, ==, 1009);
    g_assert_false(turns_last(t, 1, 1000, &got));
    g_assert_false(turns_last(t, 1, 7, &got));
    turns_free(t);
}

static void test_missing(struct fixture *f, gconstpointer data)
{
    g_autoptr(GError) error = NULL;

    g_assert_null(turns_load(f->path, &f->start, &error));
    g_assert_error(error, AGENT_ERROR, AGENT_ERROR_SYSTEM);
}

#define ADD(name, test) \
    g_test_add("/turns/" name, struct fixture, NULL, setup, test, teardown)

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    ADD("random", test_random);
    ADD("one", test_one);
    ADD("cut", test_cut);
    ADD("damaged", test_damaged);
    ADD("start", test_start);
    ADD("missing", test_missing);
    return g_test_run();
}
