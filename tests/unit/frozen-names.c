/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Names of a guest that stands still: all are written, once it was looked for
 * them
 */

#include <sys/mman.h>
#include <unistd.h>

#include "backtrail/names.h"
#include "fake-linux.h"
#include "pt/frozen-names.h"
#include "trace-samples.h"

/* How many pieces of each kind a trace of these names has */
static void scan(const struct guest_memory_files *files,
                 struct scanner_result *result,
                 unsigned pieces[BTRAIL_SIDEBAND_ENDED + 1])
{
    char *path = sample_path();
    const struct btrail_store_options options = { .path = path };
    struct btrail_sideband_info info;
    struct btrail_store *store;
    struct btrail_trace *trace;
    struct output *output;

    g_assert_cmpint(btrail_store_open(&store, &options), ==, 0);
    output = output_new(store, NULL, 1);
    g_assert_cmpuint(frozen_names_write(output, files, result), ==, 0);
    output_finish(output);
    output_free(output);
    g_assert_cmpint(btrail_store_close(store, NULL), ==, 0);
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    for (unsigned i = 0; !btrail_trace_sideband(trace, i, &info, NULL); i++) {
        g_assert_cmpuint(info.kind, <=, BTRAIL_SIDEBAND_ENDED);
        pieces[info.kind]++;
    }
    btrail_trace_close(trace);
    sample_remove(path);
}

static struct guest_memory_files *files_of(const uint8_t *bytes)
{
    struct guest_memory_files *files = g_new0(struct guest_memory_files, 1);
    int fd = memfd_create("ram", MFD_CLOEXEC);

    g_assert_cmpint(fd, >=, 0);
    g_assert_cmpint(write(fd, bytes, FAKE_SIZE), ==, FAKE_SIZE);
    files->reason = BTRAIL_MEMORY_SHARED;
    files->head.ranges = files->head.files = 1;
    files->ranges[0].size = FAKE_SIZE;
    for (unsigned i = 0; i < BTRAIL_MEMORY_MAX_FILES; i++) {
        files->fds[i] = i ? -1 : fd;
    }
    return files;
}

static void test_linux(void)
{
    unsigned pieces[BTRAIL_SIDEBAND_ENDED + 1] = { 0 };
    struct scanner_result result;
    struct fake_linux guest;
    struct guest_memory_files *files;

    fake_linux_init(&guest, 0);
    files = files_of(guest.memory);
    scan(files, &result, pieces);
    g_assert_cmpstr(result.release, ==, "6.0-fake");
    g_assert_cmpstr(result.kernels[0], ==, "6.0-fake");
    g_assert_cmpuint(result.snapshots, >=, 1);
    g_assert_cmpuint(pieces[BTRAIL_SIDEBAND_PROCESSES], >=, 1);
    /* Of the kernel, and of its modules */
    g_assert_cmpuint(pieces[BTRAIL_SIDEBAND_SYMBOLS], ==, 2);
    g_assert_cmpuint(pieces[BTRAIL_SIDEBAND_HELD], ==, 1);
    scanner_result_clear(&result);
    guest_memory_files_free(files);
    fake_linux_clear(&guest);
}

static void test_none(void)
{
    static const uint8_t zero[FAKE_SIZE];
    unsigned pieces[BTRAIL_SIDEBAND_ENDED + 1] = { 0 };
    struct guest_memory_files *files = files_of(zero);
    struct scanner_result result;

    scan(files, &result, pieces);
    g_assert_null(result.release);
    g_assert_nonnull(result.why);
    scanner_result_clear(&result);
    guest_memory_files_free(files);

    /* Memory that nobody can read */
    files = files_of(zero);
    files->reason = BTRAIL_MEMORY_PRIVATE;
    scan(files, &result, pieces);
    g_assert_nonnull(result.why);
    scanner_result_clear(&result);
    guest_memory_files_free(files);
    for (unsigned i = 0; i < G_N_ELEMENTS(pieces); i++) {
        g_assert_cmpuint(pieces[i], ==, 0);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/frozen-names/linux", test_linux);
    g_test_add_func("/frozen-names/none", test_none);
    return g_test_run();
}
