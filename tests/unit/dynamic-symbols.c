/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * usage: test-dynamic-symbols LIBRARY...
 *
 * What is found is compared with what nm says of a library that nobody has
 * linked, and with what this process's dynamic linker says of its own.
 */

#include <dlfcn.h>
#include <elf.h>
#include <glib.h>
#include <gnu/lib-names.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "guest-linux/dynamic-symbols.h"
#include "fake-space.h"

#define PAGES   1024
#define BUDGET  10000

struct fixture {
    struct fake_space space;
    struct guest_memory *memory;
    uint64_t root;
    struct page_walk walk;
};

static void begin(struct fixture *f, size_t pages)
{
    fake_space_init(&f->space, pages);
    f->root = fake_space_root(&f->space);
    f->memory = fake_space_memory(&f->space);
}

static void end(struct fixture *f)
{
    guest_memory_free(f->memory);
    fake_space_clear(&f->space);
}

/* The address, 0 if there is none; one at most */
static uint64_t find(struct fixture *f, uint64_t base, const char *name,
                     enum linux_symbol want)
{
    uint64_t addresses[LINUX_SYMBOL_VERSIONS];
    enum linux_symbol s;
    unsigned n;

    page_walk_init(&f->walk, f->memory, f->root, FAKE_SPACE_LEVELS, BUDGET);
    s = linux_dynamic_symbol(&f->walk, base, name, addresses, &n);
    g_assert_cmpint(s, ==, want);
    g_assert_cmpuint(n, ==, want == LINUX_SYMBOL_FOUND);
    return n ? addresses[0] : 0;
}

/* A dynamic linker relocates some entries of the dynamic section. */
static void relocate(struct fixture *f, uint64_t bias, const Elf64_Ehdr *h)
{
    const Elf64_Phdr *p = (const Elf64_Phdr *)((const char *)h + h->e_phoff);
    Elf64_Dyn *d;

    while (p->p_type != PT_DYNAMIC) {
        p++;
    }
    d = (Elf64_Dyn *)(fake_space_page(&f->space, f->root, bias + p->p_vaddr) +
                      p->p_vaddr % GUEST_PAGE_SIZE);
    for (; d->d_tag; d++) {
        if (d->d_tag == DT_SYMTAB || d->d_tag == DT_STRTAB ||
            d->d_tag == DT_HASH || d->d_tag == DT_GNU_HASH) {
            d->d_un.d_ptr += bias;
        }
    }
}

/* Compare with nm: every function, and nothing that is none. */
static void check_library(const char *path, uint64_t bias, bool relocated)
{
    g_autofree char *command = g_strdup_printf("nm -D --defined-only '%s'",
                                               path);
    g_autofree char *out = NULL, *file = NULL;
    g_auto(GStrv) lines = NULL;
    struct fixture f;
    unsigned functions = 0, i;
    gsize size;
    int status;

    g_assert_true(g_file_get_contents(path, &file, &size, NULL));
    g_assert_true(g_spawn_command_line_sync(command, &out, NULL, &status,
                                            NULL));
    g_assert_cmpint(status, ==, 0);
    begin(&f, PAGES);
    g_assert_true(fake_space_load(&f.space, f.root, bias, file, size));
    if (relocated && file[EI_CLASS] == ELFCLASS64) {
        relocate(&f, bias, (Elf64_Ehdr *)file);
    }
    lines = g_strsplit(out, "\n", -1);
    for (i = 0; lines[i] && *lines[i]; i++) {
        g_auto(GStrv) words = g_strsplit(lines[i], " ", 3);
        bool function = *words[1] == 'T';
        uint64_t found = find(&f, bias, words[2], function ?
                              LINUX_SYMBOL_FOUND : LINUX_SYMBOL_NONE);

        if (function) {
            g_assert_cmphex(found, ==,
                            bias + g_ascii_strtoull(words[0], NULL, 16));
            functions++;
        }
    }
    g_assert_cmpuint(functions, >=, 33);
    find(&f, bias, "sample_hidden", LINUX_SYMBOL_NONE);
    find(&f, bias, "sample_missing", LINUX_SYMBOL_NONE);
    find(&f, bias, "sample_", LINUX_SYMBOL_NONE);
    find(&f, bias, "", LINUX_SYMBOL_NONE);
    /* Not the beginning of an image, and nothing at all */
    find(&f, bias + GUEST_PAGE_SIZE, "sample_a", LINUX_SYMBOL_NONE);
    find(&f, bias - GUEST_PAGE_SIZE, "sample_a", LINUX_SYMBOL_ABSENT);
    find(&f, -bias, "sample_a", LINUX_SYMBOL_ABSENT);
    end(&f);
}

static void test_library(gconstpointer path)
{
    check_library(path, UINT64_C(0x10000000), false);
    check_library(path, UINT64_C(0x10000000), true);
    check_library(path, UINT64_C(0x56780000), false);
}

/* Without each page in turn: the result is the same, or ABSENT. */
static void test_absent(gconstpointer path)
{
    g_autofree char *file = NULL;
    uint64_t bias = UINT64_C(0x10000000), at, want;
    struct fixture f;
    unsigned absent = 0;
    gsize size;

    g_assert_true(g_file_get_contents(path, &file, &size, NULL));
    begin(&f, PAGES);
    fake_space_load(&f.space, f.root, bias, file, size);
    want = find(&f, bias, "sample_two_c", LINUX_SYMBOL_FOUND);
    for (at = 0; at < size; at += GUEST_PAGE_SIZE) {
        uint64_t addresses[LINUX_SYMBOL_VERSIONS], table = f.root;
        uint64_t *entry = NULL, old;
        enum linux_symbol s;
        unsigned shift, n;

        fake_space_page(&f.space, f.root, bias + at);
        for (shift = 39; shift >= 12; shift -= 9) {
            entry = (uint64_t *)(f.space.memory + table) +
                    ((bias + at) >> shift & 511);
            table = *entry & ~UINT64_C(4095);
        }
        old = *entry;
        *entry = 0;
        page_walk_init(&f.walk, f.memory, f.root, FAKE_SPACE_LEVELS, BUDGET);
        s = linux_dynamic_symbol(&f.walk, bias, "sample_two_c", addresses,
                                 &n);
        if (s == LINUX_SYMBOL_FOUND) {
            g_assert_cmphex(addresses[0], ==, want);
        } else {
            g_assert_cmpint(s, ==, LINUX_SYMBOL_ABSENT);
            absent++;
        }
        *entry = old;
    }
    g_assert_cmpuint(absent, >=, 1);
    /* A walk that may not continue says so, too. */
    page_walk_init(&f.walk, f.memory, f.root, FAKE_SPACE_LEVELS, 3);
    {
        uint64_t addresses[LINUX_SYMBOL_VERSIONS];
        unsigned n;

        g_assert_cmpint(linux_dynamic_symbol(&f.walk, bias, "sample_two_c",
                                             addresses, &n), ==,
                        LINUX_SYMBOL_ABSENT);
    }
    end(&f);
}

/* Anything may be there: what is read is bounded, and nothing else is. */
static void test_hostile(gconstpointer path)
{
    uint64_t bias = UINT64_C(0x10000000);
    g_autofree char *file = NULL;
    unsigned round, k;
    gsize size;

    g_assert_true(g_file_get_contents(path, &file, &size, NULL));
    for (round = 0; round < 3000; round++) {
        g_autofree uint8_t *copy = g_memdup2(file, size);
        uint64_t addresses[LINUX_SYMBOL_VERSIONS];
        struct fixture f;
        unsigned n;

        begin(&f, 64);
        fake_space_load(&f.space, f.root, bias, copy, size);
        for (k = 0; k < 1 + round % 8; k++) {
            uint32_t at = g_random_int_range(0, MIN(size, 0x1000));
            uint8_t *page = fake_space_page(&f.space, f.root, bias);

            page[at] = g_random_boolean() ? 0xff : g_random_int();
        }
        page_walk_init(&f.walk, f.memory, f.root, FAKE_SPACE_LEVELS, BUDGET);
        linux_dynamic_symbol(&f.walk, bias, "sample_two_c", addresses, &n);
        g_assert_cmpuint(n, <=, LINUX_SYMBOL_VERSIONS);
        end(&f);
    }
}

/*
 * The C library of this process, as its dynamic linker has left it in memory,
 * is where that says.
 */
static int copy_libc(struct dl_phdr_info *info, size_t size, void *opaque)
{
    struct fixture *f = opaque;
    unsigned i;

    if (!strstr(info->dlpi_name, "libc.so")) {
        return 0;
    }
    for (i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uint64_t at = (info->dlpi_addr + p->p_vaddr) & -4096ull;
        uint64_t last = info->dlpi_addr + p->p_vaddr + p->p_memsz;

        for (; p->p_type == PT_LOAD && at < last; at += GUEST_PAGE_SIZE) {
            uint8_t *page = fake_space_page(&f->space, f->root, at);
            struct iovec to = { page, GUEST_PAGE_SIZE };
            struct iovec from = { (void *)(uintptr_t)at, GUEST_PAGE_SIZE };

            /* Some of it is not to be read, and some not there. */
            if (process_vm_readv(getpid(), &to, 1, &from, 1, 0) < 0) {
                memset(page, 0, GUEST_PAGE_SIZE);
            }
        }
    }
    return info->dlpi_addr != 0;
}

static void test_process(void)
{
    static const char *const names[] = {
        "puts", "malloc", "nanosleep", "qsort", "getpid", "pthread_create",
    };
    void *libc = dlopen(LIBC_SO, RTLD_NOW);
    struct link_map *map;
    struct fixture f;
    unsigned i;

    g_assert_nonnull(libc);
    g_assert_cmpint(dlinfo(libc, RTLD_DI_LINKMAP, &map), ==, 0);
    begin(&f, 4096);
    if (!dl_iterate_phdr(copy_libc, &f)) {
        g_test_skip("no libc.so is loaded");
    } else {
        for (i = 0; i < G_N_ELEMENTS(names); i++) {
            uint64_t addresses[LINUX_SYMBOL_VERSIONS];
            uint64_t want = (uint64_t)(uintptr_t)dlsym(libc, names[i]);
            bool found = false;
            unsigned n, k;

            page_walk_init(&f.walk, f.memory, f.root, FAKE_SPACE_LEVELS,
                           BUDGET);
            g_assert_cmpint(linux_dynamic_symbol(&f.walk, map->l_addr,
                                                 names[i], addresses, &n), ==,
                            LINUX_SYMBOL_FOUND);
            for (k = 0; k < n; k++) {
                found |= addresses[k] == want;
            }
            g_assert_true(found);
        }
    }
    end(&f);
    dlclose(libc);
}

int main(int argc, char **argv)
{
    int i;

    g_test_init(&argc, &argv, NULL);
    for (i = 1; i < argc; i++) {
        g_autofree char *name = g_path_get_basename(argv[i]);
        g_autofree char *library = g_strconcat("/dynamic-symbols/", name,
                                               NULL);
        g_autofree char *absent = g_strconcat(library, "/absent", NULL);
        g_autofree char *hostile = g_strconcat(library, "/hostile", NULL);

        g_test_add_data_func(library, argv[i], test_library);
        g_test_add_data_func(absent, argv[i], test_absent);
        g_test_add_data_func(hostile, argv[i], test_hostile);
    }
    g_test_add_func("/dynamic-symbols/process", test_process);
    return g_test_run();
}
