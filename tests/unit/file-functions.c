/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * usage: test-file-functions FILE...
 *
 * Functions of programs and libraries in the page cache of a fake guest,
 * against what nm says of the same files
 */

#include <elf.h>
#include <glib.h>
#include <glib/gstdio.h>
#include <string.h>
#include <unistd.h>

#include "fake-linux.h"
#include "guest-linux/file-functions.h"

#define BUDGET  10000

static const uint8_t id[] = { 0x12, 0xab, 0x56 };

struct fixture {
    struct fake_linux f;
    struct guest_memory *m;
    struct linux_kernel *k;
    uint8_t *bytes;
    size_t pages;
};

/* A guest that has the first @present pages of a file */
static void begin(struct fixture *x, const char *path, size_t present)
{
    g_autofree char *file = NULL;
    gsize size;

    g_assert_true(g_file_get_contents(path, &file, &size, NULL));
    x->pages = (size + GUEST_PAGE_SIZE - 1) / GUEST_PAGE_SIZE;
    x->bytes = g_malloc0(x->pages * GUEST_PAGE_SIZE);
    memcpy(x->bytes, file, size);
    x->k = fake_linux_begin(&x->f, 0, &x->m);
    fake_linux_file(&x->f, x->pages);
    present = MIN(present, x->pages);
    if (present) {
        g_assert_true(guest_memory_add_bytes(
            x->m, FAKE_FILE, present * GUEST_PAGE_SIZE, x->bytes));
    }
}

static void end(struct fixture *x)
{
    fake_linux_end(&x->f, x->m, x->k);
    g_free(x->bytes);
}

static struct linux_functions read_all(struct fixture *x, uint64_t budget)
{
    struct linux_file file = { .k = x->k, .mapping = x->f.mapping,
                               .budget = budget };
    struct linux_functions found;

    linux_kernel_begin(x->k);
    linux_file_functions(&file, id, sizeof(id), &found);
    g_assert_true(!found.n == !found.data);
    if (found.data) {
        g_assert_cmpuint(found.data->len, <=, LINUX_FUNCTIONS_MAX);
    }
    return found;
}

static char *output_of(const char *command)
{
    g_autofree char *out = NULL;
    int status;

    g_assert_true(g_spawn_command_line_sync(command, &out, NULL, &status,
                                            NULL));
    g_assert_cmpint(status, ==, 0);
    return g_steal_pointer(&out);
}

/* {"address name"} of functions in a file, as nm says */
static GHashTable *functions_of(const char *path, bool dynamic)
{
    g_autofree char *command = g_strdup_printf("nm %s --defined-only '%s'",
                                               dynamic ? "-D" : "", path);
    g_autofree char *out = output_of(command);
    g_auto(GStrv) lines = g_strsplit(out, "\n", -1);
    GHashTable *all = g_hash_table_new_full(g_str_hash, g_str_equal, g_free,
                                            NULL);

    for (unsigned i = 0; lines[i] && *lines[i]; i++) {
        g_auto(GStrv) words = g_strsplit(lines[i], " ", 3);

        if (strchr("TtWi", *words[1])) {
            words[2][strcspn(words[2], "@")] = '\0';
            g_hash_table_add(all, g_strdup_printf("%s %s", words[0],
                                                  words[2]));
        }
    }
    return all;
}

/* The same of what was found */
static GHashTable *functions_in(const struct linux_functions *found)
{
    g_autofree char *name = NULL, *command = NULL, *notes = NULL;
    GHashTable *all;
    int fd = g_file_open_tmp("backtrail-XXXXXX", &name, NULL);

    g_assert_cmpint(fd, >=, 0);
    close(fd);
    g_assert_nonnull(found->data);
    g_assert_true(g_file_set_contents(name, (char *)found->data->data,
                                      found->data->len, NULL));
    all = functions_of(name, false);
    command = g_strdup_printf("readelf -n '%s'", name);
    notes = output_of(command);
    g_assert_nonnull(strstr(notes, "Build ID: 12ab56\n"));
    unlink(name);
    return all;
}

static void require_in(GHashTable *a, GHashTable *all)
{
    GHashTableIter iter;
    gpointer key;

    g_hash_table_iter_init(&iter, a);
    while (g_hash_table_iter_next(&iter, &key, NULL)) {
        g_assert_true(g_hash_table_contains(all, key));
    }
}

static void require_equal(GHashTable *a, GHashTable *b)
{
    g_assert_cmpuint(g_hash_table_size(a), ==, g_hash_table_size(b));
    require_in(a, b);
}

static bool is_wide(const struct fixture *x)
{
    return x->bytes[EI_CLASS] == ELFCLASS64;
}

/* A copy of a file without .symtab */
static char *strip(const char *path)
{
    g_autofree char *name = NULL, *command = NULL;
    int fd = g_file_open_tmp("backtrail-XXXXXX", &name, NULL);

    g_assert_cmpint(fd, >=, 0);
    close(fd);
    command = g_strdup_printf("strip -o '%s' '%s'", name, path);
    g_free(output_of(command));
    return g_steal_pointer(&name);
}

static void test_all(gconstpointer path)
{
    g_autoptr(GHashTable) want = functions_of(path, false);
    g_autoptr(GHashTable) have = NULL;
    struct linux_functions found;
    struct fixture x;

    begin(&x, path, SIZE_MAX);
    found = read_all(&x, BUDGET);
    g_assert_true(found.whole);
    if (is_wide(&x)) {
        have = functions_in(&found);
        g_assert_cmpuint(g_hash_table_size(want), >=, 34);
        require_equal(want, have);
        g_byte_array_unref(found.data);
        /* Where nothing may be read, more may be found later. */
        found = read_all(&x, 0);
        g_assert_false(found.whole);
    }
    g_assert_null(found.data);
    end(&x);
}

static void test_stripped(gconstpointer path)
{
    g_autofree char *name = strip(path);
    g_autoptr(GHashTable) want = functions_of(name, true);
    g_autoptr(GHashTable) have = NULL;
    struct linux_functions found;
    struct fixture x;

    begin(&x, name, SIZE_MAX);
    found = read_all(&x, BUDGET);
    g_assert_true(found.whole);
    if (is_wide(&x) && g_hash_table_size(want)) {
        have = functions_in(&found);
        require_equal(want, have);
        g_byte_array_unref(found.data);
    } else {
        g_assert_null(found.data);
    }
    end(&x);
    unlink(name);
}

/* Without the pages from any on, only what is in the others is found. */
static void test_absent(gconstpointer path)
{
    g_autoptr(GHashTable) all = functions_of(path, false);
    struct linux_functions found;
    struct fixture x = { .pages = 1 };

    for (size_t present = 0; present < x.pages; present++) {
        begin(&x, path, present);
        found = read_all(&x, BUDGET);
        g_assert_true(found.whole == (present && !is_wide(&x)));
        if (found.data) {
            g_autoptr(GHashTable) have = functions_in(&found);

            require_in(have, all);
            g_byte_array_unref(found.data);
        }
        end(&x);
    }
}

/*
 * The last pages of a file, which are not mapped, are often missing: then there
 * is what the dynamic linker needs.
 */
static void test_dynamic(gconstpointer path)
{
    g_autoptr(GHashTable) want = functions_of(path, true);
    g_autoptr(GHashTable) have = NULL;
    struct linux_functions found;
    struct fixture x;

    begin(&x, path, SIZE_MAX);
    if (is_wide(&x)) {
        ((Elf64_Ehdr *)x.bytes)->e_shoff += x.pages * GUEST_PAGE_SIZE;
        found = read_all(&x, BUDGET);
        g_assert_false(found.whole);
        g_assert_true(!found.data == !g_hash_table_size(want));
        if (found.data) {
            have = functions_in(&found);
            require_equal(want, have);
            g_byte_array_unref(found.data);
        }
    }
    end(&x);
}

/* Anything may be there: what is read is bounded, and nothing else is. */
static void test_hostile(gconstpointer path)
{
    struct fixture x;
    g_autofree uint8_t *good = NULL;
    uint64_t sections;

    begin(&x, path, SIZE_MAX);
    good = g_memdup2(x.bytes, x.pages * GUEST_PAGE_SIZE);
    sections = is_wide(&x) ? ((Elf64_Ehdr *)good)->e_shoff : 0;
    for (unsigned round = 0; round < 3000; round++) {
        struct linux_functions found;

        memcpy(x.bytes, good, x.pages * GUEST_PAGE_SIZE);
        for (unsigned k = 0; k < 1 + round % 8; k++) {
            uint64_t at = round % 3 == 0 ? sections : 0;

            x.bytes[at + g_random_int_range(0, round % 3 == 2 ? 0x1000 : 64)] =
                g_random_boolean() ? 0xff : g_random_int();
        }
        found = read_all(&x, BUDGET);
        g_clear_pointer(&found.data, g_byte_array_unref);
    }
    end(&x);
}

static void add(const char *file, const char *what, const char *path,
                GTestDataFunc test)
{
    g_autofree char *name = g_strdup_printf("/file-functions/%s/%s", file,
                                            what);

    g_test_add_data_func(name, path, test);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    for (int i = 1; i < argc; i++) {
        g_autofree char *file = g_path_get_basename(argv[i]);

        add(file, "all", argv[i], test_all);
        add(file, "stripped", argv[i], test_stripped);
        add(file, "absent", argv[i], test_absent);
        add(file, "dynamic", argv[i], test_dynamic);
        add(file, "hostile", argv[i], test_hostile);
    }
    return g_test_run();
}
