/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Test rings of Intel PT: mock ones, which are filled byte by byte as the
 * driver does
 */

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pt/pt-ring.h"
#include "scratch.h"

#define SIZE    4096u

/* A ring, and what was ever written to it */
struct mock {
    struct perf_event_mmap_page page;
    uint8_t ring[SIZE];
    GByteArray *all;
};

static struct mock *mock_new(void)
{
    struct mock *m = g_new0(struct mock, 1);

    m->page.aux_size = SIZE;
    m->all = g_byte_array_new();
    return m;
}

static void mock_free(struct mock *m)
{
    g_byte_array_free(m->all, TRUE);
    g_free(m);
}

static void mock_write(struct mock *m, size_t n, bool zeros)
{
    for (size_t i = 0; i < n; i++) {
        uint8_t byte = zeros ? 0 : g_test_rand_int_range(1, 256);

        m->ring[m->page.aux_head] = byte;
        m->page.aux_head = (m->page.aux_head + 1) % SIZE;
        g_byte_array_append(m->all, &byte, 1);
    }
}

/* Both pieces are the last @n bytes that were written. */
static void check(const struct mock *m, size_t n, bool wrapped)
{
    struct pt_ring_bytes out;

    g_assert_true(pt_ring_freeze(&m->page, m->ring, SIZE, &out));
    g_assert_cmpuint(out.size[0] + out.size[1], ==, n);
    g_assert_cmpint(out.wrapped, ==, wrapped);
    for (size_t i = 0; i < n; i++) {
        uint8_t got = i < out.size[0] ? out.bytes[0][i] :
                      out.bytes[1][i - out.size[0]];

        g_assert_cmpuint(got, ==, m->all->data[m->all->len - n + i]);
    }
    g_assert_null(out.owned);
    pt_ring_clear(&out);
    g_assert_cmpuint(out.size[0] + out.size[1], ==, 0);
}

static void test_never_filled(void)
{
    struct mock *m = mock_new();

    check(m, 0, false);
    mock_write(m, 1, false);
    check(m, 1, false);
    mock_write(m, SIZE - 2, false);
    check(m, SIZE - 1, false);
    /* It is full: whether this is all is not known. */
    mock_write(m, 1, false);
    g_assert_cmpuint(m->page.aux_head, ==, 0);
    check(m, SIZE, true);
    mock_free(m);
}

static void test_wrapped(void)
{
    struct mock *m = mock_new();

    mock_write(m, SIZE + 1, false);
    check(m, SIZE, true);
    for (unsigned i = 0; i < 200; i++) {
        mock_write(m, (size_t)g_test_rand_int_range(0, 2 * SIZE), false);
        check(m, SIZE, true);
    }
    mock_free(m);
}

/* PAD packets are zeros, and are not taken for what was never written. */
static void test_pads(void)
{
    struct mock *m = mock_new();

    mock_write(m, 10, false);
    mock_write(m, 90, true);
    check(m, 100, false);
    mock_write(m, SIZE - 100, false);
    mock_write(m, 50, false);
    /* 50 zeros are the oldest, and others come after them. */
    check(m, SIZE, true);
    mock_free(m);

    /* Where nothing else is older, only they are lost. */
    m = mock_new();
    mock_write(m, SIZE - 9, false);
    mock_write(m, 9, true);
    mock_write(m, SIZE - 9, false);
    check(m, SIZE - 9, false);
    mock_free(m);
}

/* Drivers of other PMUs, and kernels to come, count on. */
static void test_head_goes_on(void)
{
    struct mock *m = mock_new();

    mock_write(m, 3 * SIZE + 17, false);
    m->page.aux_head = 3 * SIZE + 17;
    check(m, SIZE, true);
    m->page.aux_head = UINT64_MAX - SIZE + 1 + 17;
    check(m, SIZE, true);
    mock_free(m);
}

static void test_no_ring(void)
{
    struct mock *m = mock_new();
    struct pt_ring_bytes out;
    static const size_t sizes[] = {
        0, 1, SIZE - 1, SIZE + 1, SIZE / 2, 2 * SIZE, (size_t)PT_RING_MAX * 2,
        SIZE_MAX,
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(sizes); i++) {
        memset(&out, 0xff, sizeof(out));
        g_assert_false(pt_ring_freeze(&m->page, m->ring, sizes[i], &out));
        g_assert_cmpuint(out.size[0] + out.size[1], ==, 0);
        g_assert_null(out.owned);
    }
    /* The page says the same, and no kernel would. */
    m->page.aux_size = SIZE - 1;
    g_assert_false(pt_ring_freeze(&m->page, m->ring, SIZE - 1, &out));
    m->page.aux_size = 2 * PT_RING_MAX;
    g_assert_false(pt_ring_freeze(&m->page, m->ring, 2 * PT_RING_MAX, &out));
    m->page.aux_size = 0;
    g_assert_false(pt_ring_freeze(&m->page, m->ring, 0, &out));
    m->page.aux_size = SIZE;
    g_assert_false(pt_ring_freeze(&m->page, NULL, SIZE, &out));
    mock_free(m);
}

static void check_refused(const char *path, const char *why)
{
    g_autoptr(GError) error = NULL;
    struct pt_ring_bytes out;

    memset(&out, 0xff, sizeof(out));
    g_assert_false(pt_ring_from_file(path, &out, &error));
    g_assert_true(g_str_has_prefix(error->message, path));
    g_assert_nonnull(strstr(error->message, why));
    g_assert_cmpuint(out.size[0] + out.size[1], ==, 0);
    pt_ring_clear(&out);
}

static void test_file(void)
{
    char *folder = scratch_new();
    g_autofree char *path = g_build_filename(folder, "ring", NULL);
    g_autofree char *fifo = g_build_filename(folder, "fifo", NULL);
    struct pt_ring_bytes out;

    g_assert_true(g_file_set_contents(path, "\2\202\0\0x", 5, NULL));
    g_assert_true(pt_ring_from_file(path, &out, NULL));
    g_assert_cmpmem(out.bytes[0], out.size[0], "\2\202\0\0x", 5);
    g_assert_cmpuint(out.size[1], ==, 0);
    g_assert_false(out.wrapped);
    /* It was read. */
    g_assert_cmpint(truncate(path, 0), ==, 0);
    g_assert_cmpuint(out.bytes[0][4], ==, 'x');
    pt_ring_clear(&out);
    g_assert_null(out.bytes[0]);
    pt_ring_clear(&out);

    g_assert_true(pt_ring_from_file(path, &out, NULL));
    g_assert_cmpuint(out.size[0] + out.size[1], ==, 0);
    pt_ring_clear(&out);

    g_assert_cmpint(truncate(path, (off_t)PT_RING_MAX + 1), ==, 0);
    check_refused(path, "larger than 2048 MiB");
    g_assert_cmpint(unlink(path), ==, 0);
    check_refused(path, g_strerror(ENOENT));
    g_assert_cmpint(mkfifo(fifo, 0600), ==, 0);
    check_refused(fifo, "regular");
    check_refused(folder, "regular");
    scratch_remove(folder);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/pt-ring/never-filled", test_never_filled);
    g_test_add_func("/pt-ring/wrapped", test_wrapped);
    g_test_add_func("/pt-ring/pads", test_pads);
    g_test_add_func("/pt-ring/head-goes-on", test_head_goes_on);
    g_test_add_func("/pt-ring/no-ring", test_no_ring);
    g_test_add_func("/pt-ring/file", test_file);
    return g_test_run();
}
