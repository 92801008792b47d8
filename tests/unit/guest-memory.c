/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reads of a guest's RAM from files and from memory
 */

#include <fcntl.h>
#include <glib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "guest-linux/guest-memory.h"

#define PAGE    ((uint64_t)GUEST_PAGE_SIZE)

static int file(uint64_t size)
{
    int fd = memfd_create("guest", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    g_assert_cmpint(fd, >=, 0);
    g_assert_cmpint(ftruncate(fd, (off_t)size), ==, 0);
    return fd;
}

/* A file that cannot shrink is mapped. */
static void read_file(bool sealed)
{
    struct guest_memory *m = guest_memory_new();
    int fd = file(4 * PAGE);
    char buf[2 * GUEST_PAGE_SIZE];
    char bytes[2 * GUEST_PAGE_SIZE];

    memset(bytes, 'b', sizeof(bytes));
    g_assert_cmpint(pwrite(fd, "12345678", 8, 2 * PAGE - 4), ==, 8);
    if (sealed) {
        g_assert_cmpint(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), ==, 0);
    }
    /* What is the second half of the file comes first. */
    g_assert_true(guest_memory_add_file(m, 5 * PAGE, 2 * PAGE, dup(fd), 0));
    g_assert_true(guest_memory_add_file(m, 3 * PAGE, 2 * PAGE, fd, 2 * PAGE));
    g_assert_true(guest_memory_add_bytes(m, 7 * PAGE, 2 * PAGE, bytes));
    g_assert_cmpuint(guest_memory_size(m), ==, 6 * PAGE);

    g_assert_true(guest_memory_read(m, 7 * PAGE - 4, buf, 8));
    g_assert_cmpmem(buf, 8, "1234bbbb", 8);
    g_assert_true(guest_memory_read(m, 5 * PAGE - 4, buf, 4));
    g_assert_true(guest_memory_read(m, 3 * PAGE, buf, 8));
    g_assert_cmpmem(buf, 8, "5678\0\0\0\0", 8);
    g_assert_false(guest_memory_read(m, 3 * PAGE - 1, buf, 2));
    g_assert_true(guest_memory_read(m, 9 * PAGE - 1, buf, 1));
    g_assert_false(guest_memory_read(m, 9 * PAGE - 1, buf, 2));
    g_assert_false(guest_memory_read(m, UINT64_MAX, buf, 2));
    g_assert_false(guest_memory_read(m, 0, buf, 1));
    g_assert_true(guest_memory_read(m, 0, buf, 0));
    /* What the guest writes later is seen. */
    g_assert_cmpint(pwrite(fd, "9", 1, 2 * PAGE), ==, 1);
    g_assert_true(guest_memory_read(m, 3 * PAGE, buf, 2));
    g_assert_cmpmem(buf, 2, "96", 2);
    /* A range that the file does not have */
    g_assert_true(guest_memory_add_file(m, 20 * PAGE, 2 * PAGE, dup(fd),
                                        3 * PAGE));
    g_assert_true(guest_memory_read(m, 20 * PAGE, buf, 8));
    g_assert_false(guest_memory_read(m, 21 * PAGE, buf, 8));

    /* Somebody cuts it off. */
    g_assert_cmpint(ftruncate(fd, PAGE), ==, sealed ? -1 : 0);
    g_assert_true(guest_memory_read(m, 5 * PAGE, buf, 8));
    g_assert_true(guest_memory_read(m, 6 * PAGE, buf, 8) == sealed);
    g_assert_cmphex(guest_memory_find_page(m, 0, "x", 1), ==, UINT64_MAX);
    guest_memory_free(m);
}

static void test_read(void)
{
    read_file(false);
    read_file(true);
}

static void test_add(void)
{
    static const char bytes[2 * GUEST_PAGE_SIZE];
    struct guest_memory *m = guest_memory_new();
    unsigned i;

    g_assert_true(guest_memory_add_bytes(m, 2 * PAGE, PAGE, bytes));
    g_assert_false(guest_memory_add_bytes(m, 2 * PAGE, PAGE, bytes));
    g_assert_false(guest_memory_add_bytes(m, PAGE, 2 * PAGE, bytes));
    g_assert_false(guest_memory_add_bytes(m, 0, 8 * PAGE, bytes));
    g_assert_false(guest_memory_add_bytes(m, 4 * PAGE, 0, bytes));
    g_assert_false(guest_memory_add_bytes(m, 4 * PAGE, 1, bytes));
    g_assert_false(guest_memory_add_bytes(m, 4 * PAGE + 1, PAGE, bytes));
    g_assert_false(guest_memory_add_bytes(m, -2 * PAGE, 2 * PAGE, bytes));
    g_assert_false(guest_memory_add_file(m, 4 * PAGE, PAGE, -1, 0));
    g_assert_false(guest_memory_add_file(m, 4 * PAGE, PAGE, 0, -PAGE));
    for (i = 1; i < GUEST_RANGES_MAX; i++) {
        g_assert_true(guest_memory_add_bytes(m, (2 + 2 * i) * PAGE, PAGE,
                                             bytes));
    }
    g_assert_false(guest_memory_add_bytes(m, 0, PAGE, bytes));
    guest_memory_free(m);
    guest_memory_free(NULL);
}

static void test_find(void)
{
    struct guest_memory *m = guest_memory_new();
    /* Most of it is a hole: to read it all would take long. */
    int fd = file(64ull << 30);

    g_assert_cmpint(pwrite(fd, "needle", 6, 3ll << 30), ==, 6);
    g_assert_cmpint(pwrite(fd, "needle", 6, (40ll << 30) + 5), ==, 6);
    g_assert_cmpint(pwrite(fd, "needle", 6, 50ll << 30), ==, 6);
    g_assert_true(guest_memory_add_file(m, 1ull << 40, 63ull << 30, fd,
                                        1ull << 30));
    g_assert_cmphex(guest_memory_find_page(m, 0, "needle", 6), ==,
                    (1ull << 40) + (2ull << 30));
    g_assert_cmphex(guest_memory_find_page(m, (1ull << 40) + (2ull << 30) + 1,
                                           "needle", 6), ==,
                    (1ull << 40) + (49ull << 30));
    g_assert_cmphex(guest_memory_find_page(m, (1ull << 40) + (50ull << 30),
                                           "needle", 6), ==, UINT64_MAX);
    g_assert_cmphex(guest_memory_find_page(m, UINT64_MAX, "n", 1), ==,
                    UINT64_MAX);
    guest_memory_free(m);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/guest-memory/read", test_read);
    g_test_add_func("/guest-memory/add", test_add);
    g_test_add_func("/guest-memory/find", test_find);
    return g_test_run();
}
