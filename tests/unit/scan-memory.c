/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of guest-linux/scan-memory.h: RAM that changes, and a guest's guest
 */

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fake-linux.h"
#include "guest-linux/scan-memory.h"

static int ram;

static struct guest_memory_files files_of(uint64_t size, uint64_t unshared)
{
    struct guest_memory_files files = {
        .reason = BTRAIL_MEMORY_SHARED,
        .head = { .ranges = 1, .files = 1, .unshared = unshared },
        .ranges[0] = { .size = size },
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(files.fds); i++) {
        files.fds[i] = -1;
    }
    files.fds[0] = ram;
    return files;
}

static void start(struct fake_linux *f)
{
    fake_linux_init(f, 0);
    ram = memfd_create("ram", MFD_CLOEXEC);
    g_assert_cmpint(ftruncate(ram, FAKE_MOVED + FAKE_NESTED_SIZE), ==, 0);
    g_assert_cmpint(pwrite(ram, f->memory, FAKE_SIZE, 0), ==, FAKE_SIZE);
}

static void end(struct fake_linux *f, struct scan_memory *m)
{
    scan_memory_clear(m);
    fake_linux_clear(f);
    close(ram);
}

static void test_changed(void)
{
    struct guest_memory_files files;
    struct linux_kernel *k;
    struct scan_memory m;
    struct fake_linux f;
    char *why;
    bool more;

    start(&f);
    files = files_of(GUEST_PAGE_SIZE, 0);
    scan_memory_init(&m, &files, 0);
    g_assert_false(scan_memory_take(&m, &more));
    g_assert_null(scan_memory_find(&m, 0, 0, &why));
    g_free(why);
    files = files_of(FAKE_SIZE, 0);
    scan_memory_change(&m, &files);
    g_assert_null(scan_memory_find(&m, 0, 0, &why));
    g_free(why);
    g_assert_true(scan_memory_take(&m, &more));
    g_assert_false(more);
    k = scan_memory_find(&m, 0, 0, &why);
    g_assert_nonnull(k);
    g_assert_cmphex(scan_memory_place(&m, k), ==, 0);

    /* Some of it cannot be read; the kernel can, as it could. */
    files = files_of(FAKE_SIZE, 1 << 20);
    scan_memory_change(&m, &files);
    g_assert_true(scan_memory_take(&m, &more));
    g_assert_true(more);
    g_assert_cmpuint(m.unread, ==, 1 << 20);
    g_assert_true(linux_kernel_remains(k));
    /* Then it is less: what was missing may be missing now. */
    files = files_of(FAKE_SIZE, 1 << 10);
    scan_memory_change(&m, &files);
    scan_memory_change(&m, &files);
    g_assert_true(scan_memory_take(&m, &more));
    g_assert_false(more);
    g_assert_cmpuint(m.unread, ==, 1 << 20);
    linux_kernel_free(k);
    end(&f, &m);
}

static void test_nested(void)
{
    g_autofree uint8_t *bytes = g_malloc(FAKE_NESTED_SIZE);
    struct guest_memory_files files;
    const unsigned levels[] = { 0, 4 };
    struct linux_kernel *k;
    struct scan_memory m;
    struct fake_linux f;
    uint64_t place;
    char *why;
    bool more;

    start(&f);
    fake_linux_nest(&f, bytes);
    memset(f.memory, 0, FAKE_SIZE);
    g_assert_cmpint(pwrite(ram, f.memory, FAKE_SIZE, 0), ==, FAKE_SIZE);
    g_assert_cmpint(pwrite(ram, bytes, FAKE_NESTED_SIZE, FAKE_MOVED), ==,
                    FAKE_NESTED_SIZE);
    files = files_of(FAKE_MOVED + FAKE_NESTED_SIZE, 1 << 20);
    scan_memory_init(&m, &files, FAKE_NESTED_ROOT);
    scan_memory_change(&m, &files);
    g_assert_true(scan_memory_take(&m, &more));
    /* What cannot be read is said by the scanner of the guest itself. */
    g_assert_false(more);
    g_assert_cmpuint(m.unread, ==, 0);
    for (unsigned i = 0; i < G_N_ELEMENTS(levels); i++) {
        k = scan_memory_find(&m, FAKE_ROOT, levels[i], &why);
        g_assert_nonnull(k);
        place = scan_memory_place(&m, k);
        g_assert_cmphex(place, >=, FAKE_MOVED);
        g_assert_cmphex(place, <, FAKE_MOVED + FAKE_SIZE);
        linux_kernel_free(k);
    }
    /* Page tables of five levels lead elsewhere, */
    g_assert_null(scan_memory_find(&m, FAKE_ROOT, 5, &why));
    g_free(why);
    /* and so do others than it runs with. */
    g_assert_null(scan_memory_find(&m, 0x800000, 4, &why));
    g_free(why);
    end(&f, &m);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/scan-memory/changed", test_changed);
    g_test_add_func("/scan-memory/nested", test_nested);
    return g_test_run();
}
