/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Files that a trace has mapped and the host does not have: which are listed,
 * where they go, and which are kept
 *
 * usage: missing-files SAMPLE
 */

#include <glib/gstdio.h>
#include <stdlib.h>
#include <string.h>

#include "backtrail/names.h"
#include "cli/missing-files.h"
#include "scratch.h"
#include "trace-samples.h"

static const char *sample;
static char *folder;

#define CODE    (BTRAIL_MAPPING_EXEC | BTRAIL_MAPPING_FILE)

/* The build-id of the sample, as digits and as bytes */
static char *sample_id(uint8_t bytes[BTRAIL_BUILD_ID_MAX], size_t *n)
{
    struct elf_file *f = elf_file_open(sample);
    char *id = g_strdup(elf_file_info(f)->build_id);

    g_assert_nonnull(id);
    *n = strlen(id) / 2;
    for (size_t i = 0; i < *n; i++) {
        bytes[i] = g_ascii_xdigit_value(id[2 * i]) << 4 |
                   g_ascii_xdigit_value(id[2 * i + 1]);
    }
    elf_file_close(f);
    return id;
}

static struct btrail_writer *begin(const char *path)
{
    struct btrail_writer *w;

    g_assert_cmpint(btrail_writer_open(&w, path, BTRAIL_WRITER_REPLACE), ==,
                    0);
    return w;
}

/* Adds a snapshot of one process, with mappings anywhere.  @told: a program in
 * the guest says so */
static void add(struct btrail_writer *w, bool told, uint32_t pid,
                struct btrail_mapping *mappings, unsigned n)
{
    struct btrail_sideband_info info = {
        .kind = told ? BTRAIL_SIDEBAND_TOLD_PROCESSES :
                BTRAIL_SIDEBAND_PROCESSES, .time = 2000,
    };
    size_t size;
    void *data;
    struct btrail_thread thread = { .tid = pid, .vcpu = -1, .comm = "sh" };
    struct btrail_process process = {
        .pgd = 0x1000, .pid = pid, .comm = "sh", .exe = "", .command_line = "",
        .n_threads = 1, .threads = &thread, .n_mappings = n,
        .mappings = mappings,
    };
    const struct btrail_snapshot snapshot = {
        .begin = 1000, .end = 2000, .n = 1, .processes = &process,
    };

    for (unsigned i = 0; i < n; i++) {
        mappings[i].start = 0x400000 + i * UINT64_C(0x2000);
        mappings[i].end = mappings[i].start + 0x1000;
    }
    g_assert_cmpint(btrail_snapshot_encode(&snapshot, &data, &size), ==, 0);
    info.size = size;
    g_assert_cmpint(btrail_writer_sideband(w, &info, data), ==, 0);
    free(data);
}

static struct btrail_mapping mapping(const char *path, const void *id,
                                     uint32_t size, uint32_t flags)
{
    return (struct btrail_mapping) {
        .flags = flags, .path = path, .build_id = id, .build_id_size = size,
    };
}

static struct elf_files *files_new(const char *debug_dir)
{
    char *dirs[] = { (char *)debug_dir, NULL };

    return elf_files_new(&(struct elf_files_options) { .debug_dirs = dirs });
}

static GHashTable *end(struct btrail_writer *w, const char *path,
                       const char *debug_dir)
{
    struct elf_files *files = files_new(debug_dir);
    struct btrail_trace *trace;
    GHashTable *missing;

    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    missing = missing_files_new(trace, files);
    btrail_trace_close(trace);
    elf_files_free(files);
    return missing;
}

static void check(GHashTable *missing, const char *id, const char *path,
                  uint32_t pid)
{
    const struct missing_file *file = g_hash_table_lookup(missing, id);

    g_assert_nonnull(file);
    g_assert_cmpstr(file->path, ==, path);
    g_assert_cmpuint(file->pid, ==, pid);
}

/* Code of files with a build-id, each once; a piece that is damaged is not. */
static void test_which(void)
{
    struct btrail_mapping first[] = {
        mapping("/bin/a", "\x01\x02\xff", 3, CODE),
        mapping("/bin/data", "\x01\x03", 2, BTRAIL_MAPPING_FILE),
        mapping("/memfd", "\x01\x04", 2, BTRAIL_MAPPING_EXEC),
        mapping("[vdso]", "\x01\x05", 2, CODE),
        mapping("/bin/short", "\x01", 1, CODE),
        mapping("/bin/none", NULL, 0, CODE),
        mapping("/bin/two", "\x02\x00", 2, CODE),
    };
    struct btrail_mapping second[] = {
        mapping("/other/a", "\x01\x02\xff", 3, CODE),
        mapping("/bin/a", "\x03\x02\xff", 3, CODE),
    };
    const struct btrail_sideband_info bad = {
        .kind = BTRAIL_SIDEBAND_PROCESSES, .size = 5,
    };
    char *path = sample_path();
    struct btrail_writer *w = begin(path);
    g_autoptr(GHashTable) missing = NULL;

    add(w, false, 10, first, G_N_ELEMENTS(first));
    g_assert_cmpint(btrail_writer_sideband(w, &bad, "wrong"), ==, 0);
    add(w, true, 20, second, G_N_ELEMENTS(second));
    missing = end(w, path, NULL);
    g_assert_cmpuint(g_hash_table_size(missing), ==, 3);
    check(missing, "0102ff", "/bin/a", 10);
    check(missing, "0200", "/bin/two", 10);
    check(missing, "0302ff", "/bin/a", 20);
    sample_remove(path);
}

static void test_none(void)
{
    char *path = sample_path();
    struct btrail_writer *w = begin(path);
    g_autoptr(GHashTable) missing = end(w, path, NULL);

    g_assert_cmpuint(g_hash_table_size(missing), ==, 0);
    sample_remove(path);
}

/* A guest can map any number. */
static void test_many(void)
{
    enum { N = 5000 };
    g_autofree struct btrail_mapping *many = g_new(struct btrail_mapping, N);
    g_autofree uint8_t *ids = g_malloc(4 * N);
    char *path = sample_path();
    struct btrail_writer *w = begin(path);
    g_autoptr(GHashTable) missing = NULL;

    for (unsigned i = 0; i < N; i++) {
        memcpy(ids + 4 * i, &i, 4);
        many[i] = mapping("/bin/a", ids + 4 * i, 4, CODE);
    }
    add(w, false, 10, many, N);
    missing = end(w, path, NULL);
    g_assert_cmpuint(g_hash_table_size(missing), ==, 4096);
    sample_remove(path);
}

/* Puts a copy of the sample where a file goes. */
static char *place(const char *id)
{
    char *path = missing_file_place(folder, id);
    g_autofree char *content = NULL;
    gsize size;

    g_assert_nonnull(path);
    g_assert_true(g_file_get_contents(sample, &content, &size, NULL));
    g_assert_true(g_file_set_contents(path, content, size, NULL));
    return path;
}

/* What is brought to its place is not missing any more. */
static void test_brought(void)
{
    uint8_t bytes[BTRAIL_BUILD_ID_MAX];
    size_t n;
    g_autofree char *id = sample_id(bytes, &n), *placed = NULL;
    char *path = sample_path();

    for (unsigned i = 0; i < 2; i++) {
        struct btrail_mapping m[] = {
            mapping("/bin/sample", bytes, n, CODE),
            mapping("/bin/other", "\x01\x02", 2, CODE),
        };
        struct btrail_writer *w = begin(path);
        g_autoptr(GHashTable) missing = NULL;

        add(w, false, 10, m, 2);
        missing = end(w, path, folder);
        check(missing, "0102", "/bin/other", 10);
        g_assert_cmpint(g_hash_table_contains(missing, id), ==, !i);
        g_assert_cmpuint(g_hash_table_size(missing), ==, 2 - i);
        placed = i ? placed : place(id);
    }
    g_assert_true(missing_file_keep(placed, id));
    g_assert_true(g_file_test(placed, G_FILE_TEST_EXISTS));
    sample_remove(path);
}

/* Another file than was wanted goes, and so does what is no file of code. */
static void test_keep(void)
{
    g_autofree char *other = place("0102"), *text = place("0304");

    g_assert_false(missing_file_keep(other, "0102"));
    g_assert_false(g_file_test(other, G_FILE_TEST_EXISTS));
    g_assert_true(g_file_set_contents(text, "no ELF", -1, NULL));
    g_assert_false(missing_file_keep(text, "0304"));
    g_assert_false(g_file_test(text, G_FILE_TEST_EXISTS));
    g_assert_false(missing_file_keep(text, "0304"));
}

/* A folder that cannot be made has no place. */
static void test_place(void)
{
    g_autofree char *file = g_build_filename(folder, "file", NULL);
    g_autofree char *none = NULL, *path = NULL, *want = NULL;

    g_assert_true(g_file_set_contents(file, "", -1, NULL));
    none = missing_file_place(file, "abcdef");
    g_assert_null(none);
    path = missing_file_place(folder, "abcdef");
    want = g_build_filename(folder, ".build-id", "ab", "cdef", NULL);
    g_assert_cmpstr(path, ==, want);
}

int main(int argc, char **argv)
{
    int ret;

    g_test_init(&argc, &argv, NULL);
    g_assert_cmpint(argc, ==, 2);
    sample = argv[1];
    folder = scratch_new();
    g_setenv("XDG_CACHE_HOME", folder, TRUE);
    g_setenv("DEBUGINFOD_CACHE_PATH", folder, TRUE);
    g_test_add_func("/missing-files/which", test_which);
    g_test_add_func("/missing-files/none", test_none);
    g_test_add_func("/missing-files/many", test_many);
    g_test_add_func("/missing-files/brought", test_brought);
    g_test_add_func("/missing-files/keep", test_keep);
    g_test_add_func("/missing-files/place", test_place);
    ret = g_test_run();
    scratch_remove(folder);
    return ret;
}
