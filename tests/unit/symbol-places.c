/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * usage: test-symbol-places LIBRARY
 *
 * Processes that have the library mapped, each somewhere else; what it has
 * where is what nm says.
 */

#include <elf.h>
#include <string.h>

#include "fake-space.h"
#include "guest-linux/symbol-places.h"

#define PAGES       4096
#define SYMBOL      "sample_two_c"
#define PROCESSES   4

static const char *library;
static char *image;
static gsize image_size;
static uint64_t value;          /* of SYMBOL */

static struct {
    struct fake_space space;
    struct guest_memory *memory;
    struct btrail_process processes[PROCESSES];
    struct btrail_mapping mappings[PROCESSES][4];
    struct btrail_snapshot snapshot;
} f;

static uint64_t base_of(unsigned i)
{
    return UINT64_C(0x7f0000000000) + i * UINT64_C(0x10000000);
}

static uint64_t place_of(unsigned i)
{
    return base_of(i) + value;
}

/* As the dynamic linker maps it: by segments, what is executable apart */
static void map(unsigned i)
{
    const Elf64_Ehdr *h = (const Elf64_Ehdr *)image;
    const Elf64_Phdr *p = (const Elf64_Phdr *)(image + h->e_phoff);
    struct btrail_process *process = &f.processes[i];
    unsigned k;

    process->n_mappings = 0;
    process->mappings = f.mappings[i];
    for (k = 0; k < h->e_phnum; k++) {
        uint64_t low = p[k].p_vaddr & -4096ull;
        uint64_t high = (p[k].p_vaddr + p[k].p_filesz + 4095) & -4096ull;

        if (p[k].p_type == PT_LOAD) {
            g_assert_cmpuint(process->n_mappings, <, 4);
            f.mappings[i][process->n_mappings++] = (struct btrail_mapping) {
                .start = base_of(i) + low,
                .end = base_of(i) + high,
                .offset = p[k].p_offset & -4096ull,
                .flags = BTRAIL_MAPPING_FILE | BTRAIL_MAPPING_READ |
                         (p[k].p_flags & PF_X ? BTRAIL_MAPPING_EXEC : 0),
                .path = "/lib/sample.so",
            };
        }
    }
}

static void begin(void)
{
    unsigned i;

    memset(&f, 0, sizeof(f));
    fake_space_init(&f.space, PAGES);
    for (i = 0; i < PROCESSES; i++) {
        f.processes[i] = (struct btrail_process) {
            .pid = 100 + i, .start_time = i, .mm = 0x1000 + i,
            .pgd = fake_space_root(&f.space),
            .comm = i == 3 ? "other" : "web",
        };
        g_assert_true(fake_space_load(&f.space, f.processes[i].pgd,
                                      base_of(i), image, image_size));
        map(i);
    }
    f.processes[1].user_pgd = 0x700000;
    f.memory = fake_space_memory(&f.space);
    f.snapshot = (struct btrail_snapshot) {
        .flags = BTRAIL_SNAPSHOT_WHOLE, .n = PROCESSES,
        .processes = f.processes,
    };
}

static void end(struct symbol_places *p)
{
    symbol_places_free(p);
    guest_memory_free(f.memory);
    fake_space_clear(&f.space);
}

static struct symbol_places *places(const char *process, const char *symbol)
{
    static const struct symbol_files none;

    return symbol_places_new(process, symbol, &none);
}

static void add_snapshot(struct symbol_places *p)
{
    symbol_places_snapshot(p, &f.snapshot, f.memory, FAKE_SPACE_LEVELS);
}

static bool has(struct symbol_places *p, unsigned space, unsigned place)
{
    return symbol_places_has(p, f.processes[space].pgd | 0x123,
                             place_of(place));
}

/* In each process at its own address, and in no other process */
static void test_spaces(void)
{
    struct symbol_places *p;
    unsigned i, k;

    begin();
    p = places("web", SYMBOL);
    g_assert_cmpuint(symbol_places_count(p), ==, 0);
    add_snapshot(p);
    g_assert_cmpuint(symbol_places_count(p), ==, 3);
    for (i = 0; i < PROCESSES; i++) {
        for (k = 0; k < PROCESSES; k++) {
            g_assert_cmpint(has(p, i, k), ==, i == k && i != 3);
        }
        g_assert_false(symbol_places_has(p, f.processes[i].pgd,
                                         place_of(i) + 1));
    }
    /* With KPTI there are two tables. */
    g_assert_true(symbol_places_has(p, 0x700000, place_of(1)));
    g_assert_false(symbol_places_has(p, 0, place_of(0)));
    end(p);

    begin();
    p = places("102", SYMBOL);
    add_snapshot(p);
    g_assert_cmpuint(symbol_places_count(p), ==, 1);
    g_assert_true(has(p, 2, 2));
    end(p);

    begin();
    p = places("web", "sample_nowhere");
    add_snapshot(p);
    g_assert_cmpuint(symbol_places_count(p), ==, 0);
    end(p);
}

/* Those that are gone, are another one now, or were only seen */
static void test_changes(void)
{
    struct symbol_places *p;
    unsigned i;

    begin();
    p = places("web", SYMBOL);
    add_snapshot(p);
    for (i = 0; i < PROCESSES; i++) {
        f.processes[i].flags = BTRAIL_PROCESS_SEEN;
        f.processes[i].n_mappings = 0;
    }
    add_snapshot(p);
    g_assert_cmpuint(symbol_places_count(p), ==, 3);
    /* A snapshot that is not whole removes no process, */
    f.snapshot.n = 2;
    f.snapshot.flags = 0;
    add_snapshot(p);
    g_assert_true(has(p, 2, 2));
    /* one that has does. */
    f.snapshot.flags = BTRAIL_SNAPSHOT_WHOLE;
    add_snapshot(p);
    g_assert_false(has(p, 2, 2));
    g_assert_cmpuint(symbol_places_count(p), ==, 2);
    /* Its page tables are another process's now, of which only that is seen */
    f.processes[0].pid = 7;
    add_snapshot(p);
    g_assert_false(has(p, 0, 0));
    /* It has another name now. */
    f.processes[1].flags = 0;
    f.processes[1].comm = "exec";
    add_snapshot(p);
    g_assert_cmpuint(symbol_places_count(p), ==, 0);
    g_assert_false(symbol_places_has(p, 0x700000, place_of(1)));
    /* And again, without the library, with it, and elsewhere */
    f.processes[1].comm = "web";
    add_snapshot(p);
    g_assert_false(has(p, 1, 1));
    map(1);
    add_snapshot(p);
    g_assert_true(has(p, 1, 1));
    fake_space_load(&f.space, f.processes[1].pgd, base_of(3), image,
                    image_size);
    for (i = 0; i < f.processes[1].n_mappings; i++) {
        f.mappings[1][i].start += base_of(3) - base_of(1);
        f.mappings[1][i].end += base_of(3) - base_of(1);
    }
    add_snapshot(p);
    g_assert_false(has(p, 1, 1));
    g_assert_true(has(p, 1, 3));
    end(p);
}

/* What is not in memory at one snapshot is found later. */
static void test_absent(void)
{
    struct symbol_places *p;
    uint64_t *root, entry;
    unsigned i;

    begin();
    p = places("web", SYMBOL);
    root = (uint64_t *)(f.space.memory + f.processes[0].pgd) +
           (base_of(0) >> 39 & 511);
    entry = *root;
    *root = 0;
    add_snapshot(p);
    g_assert_cmpuint(symbol_places_count(p), ==, 2);
    for (i = 0; i < PROCESSES; i++) {
        f.processes[i].flags = BTRAIL_PROCESS_SEEN;
        f.processes[i].n_mappings = 0;
    }
    add_snapshot(p);
    g_assert_false(has(p, 0, 0));
    *root = entry;
    add_snapshot(p);
    g_assert_true(has(p, 0, 0));
    g_assert_cmpuint(symbol_places_count(p), ==, 3);
    end(p);
}

/* What is executable in several pieces, as mprotect() leaves it */
static void test_split(void)
{
    struct symbol_places *p;
    struct btrail_mapping pieces[16];
    unsigned n = 0, i;

    begin();
    for (i = 0; i < f.processes[0].n_mappings; i++) {
        struct btrail_mapping m = f.mappings[0][i];

        for (; m.start < m.end; m.start += 4096, m.offset += 4096) {
            g_assert_cmpuint(n, <, G_N_ELEMENTS(pieces));
            pieces[n] = m;
            pieces[n++].end = m.start + 4096;
        }
    }
    f.processes[0].mappings = pieces;
    f.processes[0].n_mappings = n;
    p = places("web", SYMBOL);
    add_snapshot(p);
    g_assert_true(has(p, 0, 0));
    /* If it may not be executed it is no place. */
    for (i = 0; i < n; i++) {
        if (place_of(0) >= pieces[i].start && place_of(0) < pieces[i].end) {
            pieces[i].flags &= ~BTRAIL_MAPPING_EXEC;
        }
    }
    add_snapshot(p);
    g_assert_false(has(p, 0, 0));
    end(p);
}

struct files {
    enum symbol_answer answer;
    uint64_t offset;
    unsigned n;                 /* functions, each 4 bytes after the last one */
    unsigned asked;
};

static enum symbol_answer
find_file(void *opaque, const char *path, const uint8_t *build_id,
          size_t build_id_size, const char *symbol, GArray *offsets)
{
    struct files *files = opaque;

    g_assert_cmpstr(path, ==, "/lib/sample.so");
    g_assert_cmpstr(symbol, ==, SYMBOL);
    g_assert_null(build_id);
    files->asked++;
    for (unsigned i = 0; i < files->n; i++) {
        uint64_t offset = files->offset + 4 * i;

        g_array_append_val(offsets, offset);
    }
    return files->answer;
}

/* A file that is known is what counts, whatever is in memory. */
static void test_files(void)
{
    struct files files = { SYMBOL_FOUND, 0, 1, 0 };
    const struct symbol_files finder = { find_file, &files };
    struct symbol_places *p;
    unsigned i;

    begin();
    for (i = 0; i < f.processes[0].n_mappings; i++) {
        if (f.mappings[0][i].flags & BTRAIL_MAPPING_EXEC) {
            files.offset = f.mappings[0][i].offset + 4;
            break;
        }
    }
    p = symbol_places_new("web", SYMBOL, &finder);
    add_snapshot(p);
    g_assert_cmpuint(symbol_places_count(p), ==, 3);
    g_assert_true(symbol_places_has(p, f.processes[0].pgd,
                                    f.mappings[0][i].start + 4));
    /* Whoever is known is not asked for again, even in a new snapshot. */
    g_assert_cmpuint(files.asked, ==, 3);
    add_snapshot(p);
    g_assert_cmpuint(files.asked, ==, 3);
    end(p);

    begin();
    files.answer = SYMBOL_NONE;
    p = symbol_places_new("web", SYMBOL, &finder);
    add_snapshot(p);
    g_assert_cmpuint(symbol_places_count(p), ==, 0);
    end(p);

    begin();
    files.answer = SYMBOL_NO_FILE;
    p = symbol_places_new("web", SYMBOL, &finder);
    add_snapshot(p);
    g_assert_true(has(p, 0, 0));
    end(p);

    /* What was deleted is not what is at its path now. */
    begin();
    files = (struct files) { SYMBOL_NONE };
    for (i = 0; i < PROCESSES * 4; i++) {
        f.mappings[i / 4][i % 4].flags |= BTRAIL_MAPPING_DELETED;
    }
    p = symbol_places_new("web", SYMBOL, &finder);
    add_snapshot(p);
    g_assert_cmpuint(files.asked, ==, 0);
    g_assert_true(has(p, 0, 0));
    end(p);
}

/*
 * A name can be that of several functions: each is a place, in each process,
 * and a new snapshot of a process that is as it was keeps them.
 */
static void test_several(void)
{
    struct files files = { SYMBOL_FOUND, 0, 3, 0 };
    const struct symbol_files finder = { find_file, &files };
    const struct btrail_mapping *code = NULL;
    struct symbol_places *p;
    uint64_t start;

    begin();
    for (unsigned i = 0; i < f.processes[0].n_mappings; i++) {
        if (f.mappings[0][i].flags & BTRAIL_MAPPING_EXEC) {
            code = &f.mappings[0][i];
            break;
        }
    }
    g_assert_nonnull(code);
    start = code->start;
    files.offset = code->offset;
    p = symbol_places_new("web", SYMBOL, &finder);
    add_snapshot(p);
    add_snapshot(p);
    g_assert_cmpuint(symbol_places_count(p), ==, 9);
    g_assert_false(symbol_places_capped(p));
    for (unsigned i = 0; i < 5; i++) {
        g_assert_cmpint(symbol_places_has(p, f.processes[0].pgd,
                                          start + 4 * i), ==, i < 3);
    }
    /* The address of one process is none of another one's. */
    g_assert_false(symbol_places_has(p, f.processes[1].pgd, start + 4));
    g_assert_true(symbol_places_has(p, 0x700000,
                                    start + base_of(1) - base_of(0) + 4));
    end(p);

    /* What is in no code is left out. */
    begin();
    files.offset = code->offset - 4;
    p = symbol_places_new("102", SYMBOL, &finder);
    add_snapshot(p);
    g_assert_cmpuint(symbol_places_count(p), ==, 2);
    end(p);
}

/* There is a limit, of each file and of all, and it says so. */
static void test_capped(void)
{
    struct files files = { SYMBOL_FOUND, 0, PLACES_OF_FILE, 0 };
    const struct symbol_files finder = { find_file, &files };
    struct btrail_process many[PLACES_MAX / PLACES_OF_FILE + 1];
    struct btrail_mapping code = {
        .start = UINT64_C(0x7f0000001000), .end = UINT64_C(0x7f0000009000),
        .offset = 0x1000, .flags = BTRAIL_MAPPING_FILE | BTRAIL_MAPPING_EXEC,
        .path = "/lib/sample.so",
    };
    struct symbol_places *p;

    begin();
    files.offset = code.offset;
    for (unsigned i = 0; i < G_N_ELEMENTS(many); i++) {
        many[i] = f.processes[0];
        many[i].pid = 1000 + i;
        many[i].mm = 0x100000 + i;
        many[i].pgd = UINT64_C(0x1000000) + i * UINT64_C(0x1000);
        many[i].n_mappings = 1;
        many[i].mappings = &code;
    }
    f.snapshot.processes = many;
    f.snapshot.n = G_N_ELEMENTS(many) - 1;
    p = symbol_places_new("web", SYMBOL, &finder);
    add_snapshot(p);
    g_assert_cmpuint(symbol_places_count(p), ==, PLACES_MAX);
    g_assert_false(symbol_places_capped(p));
    f.snapshot.n++;
    add_snapshot(p);
    g_assert_cmpuint(symbol_places_count(p), ==, PLACES_MAX);
    g_assert_true(symbol_places_capped(p));
    /* Those that are left have room. */
    f.snapshot.n = 1;
    f.snapshot.processes = &many[G_N_ELEMENTS(many) - 1];
    add_snapshot(p);
    g_assert_cmpuint(symbol_places_count(p), ==, PLACES_OF_FILE);
    g_assert_false(symbol_places_capped(p));
    end(p);

    begin();
    files.n++;
    f.snapshot.processes = many;
    f.snapshot.n = 1;
    p = symbol_places_new("web", SYMBOL, &finder);
    add_snapshot(p);
    g_assert_cmpuint(symbol_places_count(p), ==, PLACES_OF_FILE);
    g_assert_true(symbol_places_capped(p));
    end(p);
}

/* However many a guest has, there is a limit, and it makes no place wrong. */
static void test_many(void)
{
    const unsigned n = 3 * PLACES_PROCESSES;
    g_autofree struct btrail_process *many = g_new(struct btrail_process, n);
    struct symbol_places *p;
    unsigned i, found = 0, round;

    begin();
    for (i = 0; i < n; i++) {
        many[i] = f.processes[0];
        many[i].pid = 1000 + i;
        many[i].mm = 0x100000 + i;
        many[i].pgd = UINT64_C(0x1000000) + i * UINT64_C(0x1000);
    }
    /* The last ones are real ones. */
    for (i = 0; i < 3; i++) {
        many[i] = f.processes[i];
    }
    f.snapshot.processes = many;
    f.snapshot.n = n;
    p = places("web", SYMBOL);
    for (round = 0; round < 50; round++) {
        add_snapshot(p);
    }
    g_assert_cmpuint(symbol_places_count(p), ==, 3);
    for (i = 0; i < 3; i++) {
        found += has(p, i, i);
    }
    g_assert_cmpuint(found, ==, 3);
    end(p);
}

static void read_library(void)
{
    g_autofree char *command = g_strdup_printf("nm -D '%s'", library);
    g_autofree char *out = NULL;
    g_auto(GStrv) lines = NULL;
    unsigned i;

    g_assert_true(g_file_get_contents(library, &image, &image_size, NULL));
    g_assert_true(g_spawn_command_line_sync(command, &out, NULL, NULL, NULL));
    lines = g_strsplit(out, "\n", -1);
    for (i = 0; lines[i]; i++) {
        if (g_str_has_suffix(lines[i], " T " SYMBOL)) {
            value = g_ascii_strtoull(lines[i], NULL, 16);
        }
    }
    g_assert_cmpuint(value, !=, 0);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    library = argv[1];
    read_library();
    g_test_add_func("/symbol-places/spaces", test_spaces);
    g_test_add_func("/symbol-places/changes", test_changes);
    g_test_add_func("/symbol-places/absent", test_absent);
    g_test_add_func("/symbol-places/split", test_split);
    g_test_add_func("/symbol-places/files", test_files);
    g_test_add_func("/symbol-places/several", test_several);
    g_test_add_func("/symbol-places/capped", test_capped);
    g_test_add_func("/symbol-places/many", test_many);
    return g_test_run();
}
