/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Places: random spaces against a table of each address, and what is of a file
 * against the bytes of the file
 *
 * usage: places SAMPLE
 */

#include <elf.h>
#include <glib.h>
#include <stdlib.h>
#include <string.h>

#include "scratch.h"
#include "snapshot-samples.h"
#include "symbolize/places.h"

/* Three windows of addresses: a program's, which can be the code of a kernel of
 * 32 bits, and the kernel's */
#define WINDOWS     3
#define WIDTH       2048
#define LOW         UINT64_C(0x10000)
#define LOW_KERNEL  UINT64_C(0xc1000000)
#define KERNEL      UINT64_C(0xffffffff81000000)

#define SPACES      3           /* two programs', and the shared one */
#define SHARED      2
#define ROUNDS      20
#define STEPS       40
#define LOOKS       500

static const uint64_t windows[WINDOWS] = { LOW, LOW_KERNEL, KERNEL };
static const struct symbolizer_where nowhere;
static char *content;           /* of the sample */
static gsize content_size;

/* All that a symbolizer has, without a trace */
struct parts {
    struct elf_files *files;
    struct address_space *shared;
    struct kernel_names *kernel;
    struct processes *processes;
    struct places *places;
};

static void parts_init(struct parts *p, const struct btrail_names *names)
{
    p->files = elf_files_new(&(struct elf_files_options) { NULL });
    p->shared = address_space_new();
    p->kernel = kernel_names_new(p->shared, names);
    p->processes = processes_new(NULL, names, NULL);
    p->places = places_new(p->files, p->kernel, p->shared, names, p->processes,
                           NULL, false);
}

static void parts_clear(struct parts *p)
{
    places_free(p->places);
    processes_free(p->processes);
    kernel_names_free(p->kernel);
    address_space_free(p->shared);
    elf_files_free(p->files);
}

static void process_init(struct process *p, struct address_space *space)
{
    *p = (struct process) {
        .bits = 64, .space = space, .owner = p, .who = p, .comm = "program",
    };
}

/*
 * What is at each address of each space, written down as it is added
 */

struct cell {
    unsigned mapping;           /* number of what is mapped; 0: nothing */
    const char *path;
    uint64_t in_file;
    const char *symbol;         /* that begins here */
    bool code;                  /* it is no data */
};

struct table {
    struct cell cells[SPACES][WINDOWS][WIDTH];
    unsigned mappings;
    unsigned symbols;
    GHashTable *names;          /* that are kept */
    GHashTable *functions;      /* text -> struct function */
    struct parts p;
    struct address_space *spaces[SPACES];
    struct process processes[SPACES];
};

static void add_mapping(struct table *t, GRand *rand, unsigned s, unsigned w)
{
    static const char *const paths[] = { "", "/bin/a", "/lib/b.so", "[x]" };
    gint32 begin = g_rand_int_range(rand, 0, WIDTH);
    gint32 size = g_rand_int_range(rand, 1, 300);
    gint32 end = MIN(WIDTH, begin + size);
    struct mapping m = {
        .start = windows[w] + begin, .end = windows[w] + end,
        .offset = g_rand_int_range(rand, 0, 1 << 20),
        .path = paths[g_rand_int_range(rand, 0, G_N_ELEMENTS(paths))],
        .code = true,
    };

    address_space_map(t->spaces[s], &m);
    t->mappings++;
    for (gint32 i = begin; i < end; i++) {
        struct cell *c = &t->cells[s][w][i];

        c->mapping = t->mappings;
        c->path = m.path;
        c->in_file = m.offset + (i - begin);
    }
}

static void add_symbol(struct table *t, GRand *rand, unsigned s, unsigned w)
{
    gint32 i = g_rand_int_range(rand, 0, WIDTH);
    bool code = g_rand_int_range(rand, 0, 5);
    struct cell *c = &t->cells[s][w][i];
    char *name = g_strdup_printf("f%u", t->symbols++ % 8);
    g_autofree char *line = g_strdup_printf(
        "%" G_GINT64_MODIFIER "x %c %s", windows[w] + i, code ? 't' : 'd',
        name);

    g_hash_table_add(t->names, name);
    g_assert_true(address_space_kallsyms_line(t->spaces[s], line));
    /* Of several, the first one */
    if (!c->symbol) {
        c->symbol = name;
        c->code = code;
    }
}

static void add_something(struct table *t, GRand *rand)
{
    unsigned s = (unsigned)g_rand_int_range(rand, 0, SPACES);
    /* The shared space maps the kernel; its symbols can be low, too. */
    bool symbol = g_rand_int_range(rand, 0, 2);
    unsigned w = s != SHARED ? (unsigned)g_rand_int_range(rand, 0, 2) :
                 symbol ? (unsigned)g_rand_int_range(rand, 1, 3) : 2;

    (symbol ? add_symbol : add_mapping)(t, rand, s, w);
    for (unsigned i = 0; i < SPACES; i++) {
        t->processes[i].changes += i == s || s == SHARED;
    }
}

/*
 * The last symbol up to an address, and where it begins; NULL if it is data.
 * It goes as far as the next one, or for 1 MiB.
 */
static const struct cell *symbol_at(const struct table *t, unsigned s,
                                    uint64_t address, uint64_t *start)
{
    const struct cell *last = NULL;
    bool next = false;

    for (unsigned w = 0; w < WINDOWS && !next; w++) {
        for (unsigned i = 0; i < WIDTH && !next; i++) {
            const struct cell *c = &t->cells[s][w][i];

            next = c->symbol && windows[w] + i > address;
            if (c->symbol && !next) {
                last = c;
                *start = windows[w] + i;
            }
        }
    }
    return last && last->code && (next || address - *start <= 1 << 20) ? last :
           NULL;
}

/* Where the piece of a mapping around a cell begins */
static uint64_t piece_at(const struct table *t, unsigned s, unsigned w,
                         unsigned i)
{
    const struct cell *row = t->cells[s][w];

    while (i && row[i].mapping == row[i - 1].mapping) {
        i--;
    }
    return windows[w] + i;
}

/* PATH NAME+OFFSET, or PATH ADDRESS */
static char *want_at(const struct table *t, unsigned process, unsigned w,
                     unsigned i)
{
    unsigned s = w == 2 ? SHARED : process;
    const struct cell *c = &t->cells[s][w][i];
    uint64_t address = windows[w] + i, start;
    const struct cell *symbol = symbol_at(t, s, address, &start);
    bool kernel = w == 2;

    if (!symbol && !c->mapping && w == 1) {
        symbol = symbol_at(t, SHARED, address, &start);
        kernel = symbol;
    }
    if (symbol && (!c->mapping || start >= piece_at(t, s, w, i))) {
        return g_strdup_printf("%s %s+%x", c->mapping && *c->path ? c->path :
                               kernel ? NAME_KERNEL : NAME_UNKNOWN,
                               symbol->symbol, (unsigned)(address - start));
    }
    if (c->mapping) {
        return g_strdup_printf("%s %" G_GINT64_MODIFIER "x",
                               *c->path ? c->path : NAME_UNKNOWN, c->in_file);
    }
    return g_strdup_printf("%s %" G_GINT64_MODIFIER "x", w == 2 &&
                           !t->processes[process].foreign ? NAME_KERNEL :
                           NAME_UNKNOWN, address);
}

static char *got_at(const struct place *place)
{
    const struct function *f = place->function;

    if (f->known) {
        return g_strdup_printf("%s %s+%x", f->module->path, f->name,
                               (unsigned)place->offset);
    }
    g_assert_cmpstr(f->name, ==, NAME_UNKNOWN);
    g_assert_cmphex(place->offset, ==, place->address);
    return g_strdup_printf("%s %" G_GINT64_MODIFIER "x", f->module->path,
                           place->address);
}

/* Equal functions are one, and others are not. */
static void check_identity(struct table *t, const struct function *f,
                           uint64_t start)
{
    g_autofree char *text = f->known ?
        g_strdup_printf("%s %s %" G_GINT64_MODIFIER "x", f->module->path,
                        f->name, start) : g_strdup(f->module->path);
    const struct function *known = g_hash_table_lookup(t->functions, text);

    if (known) {
        g_assert_true(known == f);
    } else {
        g_hash_table_insert(t->functions, g_steal_pointer(&text),
                            (gpointer)f);
    }
}

static void look(struct table *t, unsigned process, unsigned w, unsigned i)
{
    g_autofree char *want = want_at(t, process, w, i), *got = NULL;
    struct place place;

    places_find(t->p.places, &t->processes[process], &nowhere, windows[w] + i,
                &place);
    got = got_at(&place);
    g_assert_cmpstr(got, ==, want);
    g_assert_true(!place.function->known ||
                  place.function->end > windows[w] + i);
    check_identity(t, place.function, windows[w] + i - place.offset);
}

/* The space of no process is a foreign one's, which has none of its own. */
static struct table *table_new(void)
{
    struct table *t = g_new0(struct table, 1);

    parts_init(&t->p, NULL);
    t->names = g_hash_table_new_full(NULL, NULL, g_free, NULL);
    t->functions = g_hash_table_new_full(g_str_hash, g_str_equal, g_free,
                                         NULL);
    for (unsigned s = 0; s < SPACES; s++) {
        t->spaces[s] = s == SHARED ? t->p.shared : address_space_new();
        process_init(&t->processes[s], t->spaces[s]);
    }
    return t;
}

static void table_free(struct table *t)
{
    parts_clear(&t->p);
    for (unsigned s = 0; s < SHARED; s++) {
        address_space_free(t->spaces[s]);
    }
    g_hash_table_unref(t->functions);
    g_hash_table_unref(t->names);
    g_free(t);
}

/* Spaces change between questions, whose answers are kept. */
static void test_random(void)
{
    GRand *rand = g_rand_new_with_seed(1);

    for (unsigned round = 0; round < ROUNDS; round++) {
        struct table *t = table_new();

        t->processes[1].foreign = round % 2;
        for (unsigned step = 0; step < STEPS; step++) {
            add_something(t, rand);
            for (unsigned n = 0; n < LOOKS; n++) {
                look(t, (unsigned)g_rand_int_range(rand, 0, SHARED),
                     (unsigned)g_rand_int_range(rand, 0, WINDOWS),
                     (unsigned)g_rand_int_range(rand, 0, WIDTH));
            }
        }
        table_free(t);
    }
    g_rand_free(rand);
}

static void check_place(struct parts *p, const struct process *process,
                        uint64_t time, uint64_t address, const char *want)
{
    const struct symbolizer_where where = { .time = time };
    g_autofree char *got = NULL;
    struct place place;

    places_find(p->places, process, &where, address, &place);
    got = got_at(&place);
    g_assert_cmpstr(got, ==, want);
}

/* The last symbol of all is 1 MiB at most; a pseudo-address is none of it. */
static void test_last(void)
{
    struct process program;
    struct parts p;

    parts_init(&p, NULL);
    process_init(&program, address_space_new());
    address_space_kallsyms_line(program.space, "500000 t jit");
    address_space_kallsyms_line(p.shared, "ffffffff81000000 T _text");
    check_place(&p, &program, 0, 0x500000 + (1 << 20),
                "[unknown] jit+100000");
    check_place(&p, &program, 0, 0x500001 + (1 << 20), "[unknown] 600001");
    check_place(&p, &program, 0, KERNEL + (1 << 20),
                "[kernel.kallsyms] _text+100000");
    check_place(&p, &program, 0, KERNEL + (1 << 20) + 1,
                "[kernel.kallsyms] ffffffff81100001");
    check_place(&p, &program, 0, BTRAIL_PSEUDO_SYSCALL,
                "[kernel.kallsyms] [syscall]+0");
    address_space_free(program.space);
    parts_clear(&p);
}

/*
 * What is of a file
 */

#define BASE        UINT64_C(0x555500000000)
#define MAPPINGS    6

/* Adds the sample with a build-id that begins with @first; @id: in digits */
static void add_sample(struct parts *p, const char *path, uint8_t first,
                       char id[41])
{
    static const char note[] = "\4\0\0\0\x14\0\0\0\3\0\0\0GNU";
    char *place = memmem(content, content_size, note, sizeof(note));

    g_assert_nonnull(place);
    place[sizeof(note)] = (char)first;
    for (unsigned i = 0; i < 20; i++) {
        g_snprintf(id + 2 * i, 3, "%02x", (uint8_t)place[sizeof(note) + i]);
    }
    g_assert_true(elf_files_add_image(p->files, path, content, content_size));
}

/* The segment whose pages have a byte of the file, or NULL */
static const Elf64_Phdr *segment_of(uint64_t offset)
{
    const Elf64_Ehdr *e = (const void *)content;
    const Elf64_Phdr *all = (const void *)(content + e->e_phoff);

    for (unsigned i = 0; i < e->e_phnum; i++) {
        if (all[i].p_type == PT_LOAD && offset >= (all[i].p_offset & ~4095u) &&
            offset < all[i].p_offset + all[i].p_filesz) {
            return &all[i];
        }
    }
    return NULL;
}

/* How many bytes can be read from @m at an address; those of its file */
static size_t want_bytes(const struct mapping *m, uint64_t address, size_t n,
                         bool constant)
{
    uint64_t offset = address - m->start + m->offset;
    const Elf64_Phdr *s = m->path ? segment_of(offset) : NULL;

    if (!s || offset < s->p_offset || (constant && s->p_flags & PF_W)) {
        return 0;
    }
    return MIN(MIN(n, m->end - address), s->p_offset + s->p_filesz - offset);
}

static void check_bytes(struct parts *p, const struct process *process,
                        const struct mapping *m, uint64_t address, size_t n)
{
    for (unsigned constant = 0; constant < 2; constant++) {
        uint8_t bytes[64];
        size_t got = (constant ? places_read_constant : places_read)(
            p->places, process, &nowhere, address, bytes, n);

        g_assert_cmpuint(got, ==, want_bytes(m, address, n, constant));
        g_assert_cmpint(memcmp(bytes, content + (address - m->start) +
                               m->offset, got), ==, 0);
    }
}

/* Pieces of a file anywhere: their bytes are those of the file there. */
static void test_read(void)
{
    GRand *rand = g_rand_new_with_seed(2);
    struct process program;
    struct parts p;
    char id[41];

    parts_init(&p, NULL);
    add_sample(&p, "/bin/sample", 1, id);
    for (unsigned round = 0; round < 200; round++) {
        struct mapping m[MAPPINGS];

        process_init(&program, address_space_new());
        program.changes = round;
        for (unsigned i = 0; i < MAPPINGS; i++) {
            uint64_t at = BASE + 0x100000 * i;

            m[i] = (struct mapping) {
                .start = at, .end = at + (uint64_t)g_rand_int_range(rand, 1,
                                                                    0x3000),
                .offset = 0x1000u * (uint64_t)g_rand_int_range(
                    rand, 0, (gint32)(content_size >> 12)),
                .path = "/bin/sample", .build_id = id, .code = true,
            };
            address_space_map(program.space, &m[i]);
        }
        for (unsigned n = 0; n < 300; n++) {
            const struct mapping *each = &m[g_rand_int_range(rand, 0,
                                                             MAPPINGS)];
            uint64_t size = each->end - each->start;

            check_bytes(&p, &program, each, each->start +
                        (uint64_t)g_rand_int_range(rand, 0, (gint32)size),
                        (size_t)g_rand_int_range(rand, 1, 65));
        }
        address_space_free(program.space);
    }
    parts_clear(&p);
    g_rand_free(rand);
}

/* What all spaces share is nothing that a process cannot have changed. */
static void test_read_shared(void)
{
    struct process program;
    struct parts p;
    uint8_t bytes[4];
    char id[41];

    parts_init(&p, NULL);
    process_init(&program, address_space_new());
    add_sample(&p, "/boot/sample", 1, id);
    address_space_map(p.shared, &(struct mapping) {
        .start = KERNEL, .end = KERNEL + 0x1000, .path = "/boot/sample",
        .build_id = id, .code = true,
    });
    g_assert_cmpuint(places_read(p.places, &program, &nowhere, KERNEL, bytes,
                                 4), ==, 4);
    g_assert_cmpint(memcmp(bytes, ELFMAG, 4), ==, 0);
    g_assert_cmpuint(places_read_constant(p.places, &program, &nowhere, KERNEL,
                                          bytes, 4), ==, 0);
    address_space_free(program.space);
    parts_clear(&p);
}

/* Nothing is read where no file is. */
static void test_read_nothing(void)
{
    struct process program;
    struct parts p;
    uint8_t byte;

    parts_init(&p, NULL);
    process_init(&program, address_space_new());
    address_space_map(program.space, &(struct mapping) {
        .start = BASE, .end = BASE + 0x1000, .path = "/bin/lost", .code = true,
    });
    g_assert_cmpuint(places_read(p.places, &program, &nowhere, BASE, &byte, 1),
                     ==, 0);
    g_assert_cmpuint(places_read(p.places, &program, &nowhere, BASE + 0x1000,
                                 &byte, 1), ==, 0);
    g_assert_cmpuint(places_read(p.places, &program, &nowhere, KERNEL, &byte,
                                 1), ==, 0);
    g_assert_cmpuint(places_read_constant(p.places, &program, &nowhere, KERNEL,
                                          &byte, 1), ==, 0);
    address_space_free(program.space);
    parts_clear(&p);
}

/* Two files, such as those of two containers, have one path. */
static void test_same_path(void)
{
    struct process programs[2];
    struct place places[2];
    struct parts p;
    char ids[2][41];

    parts_init(&p, NULL);
    for (unsigned i = 0; i < 2; i++) {
        add_sample(&p, "/bin/sample", (uint8_t)(i + 1), ids[i]);
        process_init(&programs[i], address_space_new());
        address_space_map(programs[i].space, &(struct mapping) {
            .start = BASE, .end = BASE + 0x100000, .path = "/bin/sample",
            .build_id = ids[i], .code = true,
        });
    }
    for (unsigned i = 0; i < 4; i++) {
        const struct module *m;

        places_find(p.places, &programs[i % 2], &nowhere, BASE + 0x1000,
                    &places[i % 2]);
        m = places[i % 2].function->module;
        g_assert_cmpstr(m->path, ==, "/bin/sample");
        g_assert_cmpstr(m->name, ==, "sample");
        g_assert_cmpstr(m->build_id, ==, ids[i % 2]);
        g_assert_cmpstr(elf_file_info(m->elf)->build_id, ==, ids[i % 2]);
    }
    g_assert_true(places[0].function != places[1].function);
    /* One that is not there has no lines of the others. */
    address_space_map(programs[1].space, &(struct mapping) {
        .start = BASE, .end = BASE + 0x100000, .path = "/bin/sample",
        .build_id = "abcd", .code = true,
    });
    programs[1].changes++;
    places_find(p.places, &programs[1], &nowhere, BASE + 0x1000, &places[1]);
    g_assert_false(places[1].function->known);
    g_assert_null(places[1].function->module->elf);
    g_assert_cmpstr(places[1].function->module->build_id, ==, "abcd");
    for (unsigned i = 0; i < 2; i++) {
        address_space_free(programs[i].space);
    }
    parts_clear(&p);
}

struct seen_files {
    unsigned n;
    uint64_t starts[MAPPINGS];
    uint64_t biases[MAPPINGS];
};

static void see_file(void *opaque, const struct mapping *mapping, uint64_t bias)
{
    struct seen_files *seen = opaque;

    seen->starts[seen->n] = mapping->start;
    seen->biases[seen->n++] = bias;
}

/* Files that are mapped, and how far from the addresses that they have */
static void test_files(void)
{
    const Elf64_Ehdr *e = (const void *)content;
    const Elf64_Phdr *s = (const void *)(content + e->e_phoff);
    struct seen_files seen = { 0 };
    struct process program;
    struct parts p;
    char id[41];

    while (s->p_type != PT_LOAD || !(s->p_flags & PF_X)) {
        s++;
    }
    parts_init(&p, NULL);
    process_init(&program, address_space_new());
    add_sample(&p, "/bin/sample", 1, id);
    for (unsigned i = 0; i < 5; i++) {
        /* Code, data, code without a name, of a file that is not there, and
         * again */
        address_space_map(program.space, &(struct mapping) {
            .start = BASE * (i + 1), .end = BASE * (i + 1) + 0x1000,
            .offset = s->p_offset, .code = i != 1,
            .path = i == 2 ? "" : i == 3 ? "/bin/lost" : "/bin/sample",
            .build_id = id,
        });
    }
    address_space_map(program.space, &(struct mapping) {
        .start = BASE * 4, .end = BASE * 4 + 0x1000, .path = "/bin/lost",
        .code = true,
    });
    places_files(p.places, &program, &nowhere, 1, see_file, &seen);
    g_assert_cmpuint(seen.n, ==, 2);
    for (unsigned i = 0; i < 2; i++) {
        g_assert_cmphex(seen.starts[i], ==, BASE * (i ? 5 : 1));
        g_assert_cmphex(seen.biases[i], ==, seen.starts[i] - s->p_vaddr);
    }
    /* That of an address counts once, and first or last. */
    seen.n = 0;
    places_files(p.places, &program, &nowhere, BASE + 1, see_file, &seen);
    g_assert_cmpuint(seen.n, ==, 2);
    address_space_free(program.space);
    parts_clear(&p);
}

/* A program of 32 bits has an image of its own, whoever asks first. */
static void test_vdso(void)
{
    for (unsigned first = 0; first < 2; first++) {
        struct seen_files seen = { 0 };
        struct process program;
        struct place place;
        struct parts p;
        char id[41];

        parts_init(&p, NULL);
        process_init(&program, address_space_new());
        program.bits = 32;
        add_sample(&p, MAPPING_VDSO32, 1, id);
        add_sample(&p, MAPPING_VDSO, 2, id);
        address_space_map(program.space, &(struct mapping) {
            .start = 0xf7000000, .end = 0xf7100000, .path = MAPPING_VDSO,
            .code = true,
        });
        if (first) {
            places_files(p.places, &program, &nowhere, 1, see_file, &seen);
            g_assert_cmpuint(seen.n, ==, 1);
        }
        places_find(p.places, &program, &nowhere, 0xf7001000, &place);
        g_assert_cmpstr(place.function->module->path, ==, MAPPING_VDSO32);
        g_assert_nonnull(place.function->module->elf);
        g_assert_true(g_str_has_prefix(
            elf_file_info(place.function->module->elf)->build_id, "01"));
        address_space_free(program.space);
        parts_clear(&p);
    }
}

/*
 * What snapshots say of later, and of what changes too often
 */

static struct btrail_names *write_names(const char *path)
{
    struct btrail_mapping mappings[] = {
        { .start = BASE, .end = BASE + 0x1000, .path = "/bin/old",
          .flags = BTRAIL_MAPPING_EXEC },
        { .start = BASE + 0x2000, .end = BASE + 0x3000, .path = "/lib/new.so",
          .offset = 0x5000, .flags = BTRAIL_MAPPING_EXEC },
        { .start = BASE + 0x4000, .end = BASE + 0x5000, .path = "/lib/data",
          .flags = BTRAIL_MAPPING_READ },
    };
    struct btrail_process process = {
        .pgd = 0x5000, .mm = 1, .pid = 7, .first = 100, .comm = "program",
        .exe = "", .command_line = "", .mappings = mappings,
    };
    struct btrail_snapshot snapshot = {
        .flags = BTRAIL_SNAPSHOT_WHOLE, .n = 1, .processes = &process,
    };
    struct btrail_names *names;
    struct btrail_writer *w;
    struct btrail_trace *t;

    g_assert_cmpint(btrail_writer_open(&w, path, BTRAIL_WRITER_REPLACE), ==, 0);
    for (unsigned i = 1; i <= 3; i++) {
        snapshot.begin = snapshot.end = process.last = 100 * i;
        process.n_mappings = i < 3 ? 1 : 3;
        sample_snapshot(w, &snapshot);
    }
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    g_assert_cmpint(btrail_trace_open(&t, path), ==, 0);
    g_assert_cmpint(btrail_names_open(&names, t), ==, 0);
    btrail_trace_close(t);
    return names;
}

/* Two kernels, whose symbols these are */
static struct btrail_names *write_kernels(const char *path,
                                          char *const symbols[2])
{
    struct btrail_names *names;
    struct btrail_writer *w;
    struct btrail_trace *t;

    g_assert_cmpint(btrail_writer_open(&w, path, BTRAIL_WRITER_REPLACE), ==, 0);
    for (unsigned i = 0; i < 2; i++) {
        const struct btrail_sideband_info info = {
            .kind = BTRAIL_SIDEBAND_SYMBOLS, .kernel = (uint16_t)(i + 1),
            .time = 100 * (i + 1), .size = strlen(symbols[i]),
        };

        g_assert_cmpint(btrail_writer_sideband(w, &info, symbols[i]), ==, 0);
    }
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    g_assert_cmpint(btrail_trace_open(&t, path), ==, 0);
    g_assert_cmpint(btrail_names_open(&names, t), ==, 0);
    btrail_trace_close(t);
    return names;
}

/* The file of a kernel says nothing of another one. */
static void test_kernels(void)
{
    char *folder = scratch_new();
    g_autofree char *path = g_build_filename(folder, "t.btrail", NULL);
    char id[41], *symbols[2];
    struct process program;
    struct btrail_names *names;
    struct elf_file *elf;
    uint64_t bias, leaf;
    struct parts p;

    parts_init(&p, NULL);
    add_sample(&p, "/boot/vmlinux", 1, id);
    elf = elf_files_get(p.files, "/boot/vmlinux", id);
    leaf = elf_file_find(elf, "sample_leaf")->start;
    bias = KERNEL - elf_file_find(elf, "_text")->start;
    for (unsigned i = 0; i < 2; i++) {
        symbols[i] = g_strdup_printf(
            "%" G_GINT64_MODIFIER "x T _text\n%" G_GINT64_MODIFIER
            "x T schedule\n", KERNEL,
            bias + elf_file_find(elf, "schedule")->start + i);
    }
    names = write_kernels(path, symbols);
    kernel_names_free(p.kernel);
    places_free(p.places);
    p.kernel = kernel_names_new(p.shared, names);
    g_assert_true(kernel_names_set_vmlinux(p.kernel, elf, "vmlinux", NULL));
    p.places = places_new(p.files, p.kernel, p.shared, names, p.processes,
                          NULL, false);
    process_init(&program, address_space_new());
    for (unsigned i = 0; i < 4; i++) {
        const struct symbolizer_where where = {
            .kernel = i % 2 + 1, .time = 250,
        };
        struct place place;

        places_find(p.places, &program, &where, bias + leaf, &place);
        g_assert_true(place.function->module->elf == (i % 2 ? NULL : elf));
        g_assert_true(!strcmp(place.function->name, "sample_leaf") == !(i % 2));
        g_assert_cmphex(place.address, ==, i % 2 ? bias + leaf : leaf);
        g_assert_cmpstr(place.function->module->name, ==, NAME_KERNEL);
    }
    address_space_free(program.space);
    parts_clear(&p);
    btrail_names_close(names);
    for (unsigned i = 0; i < 2; i++) {
        g_free(symbols[i]);
    }
    scratch_remove(folder);
}

/* A process uses a mapping before a snapshot finds it. */
static void test_coming(void)
{
    char *folder = scratch_new();
    g_autofree char *path = g_build_filename(folder, "t.btrail", NULL);
    struct btrail_names *names = write_names(path);
    struct process program;
    struct parts p;

    parts_init(&p, names);
    process_init(&program, address_space_new());
    g_assert_cmpint(btrail_names_process(names, 250, 0x5000, &program.seen), !=,
                    BTRAIL_UNKNOWN);
    /* Up to the second snapshot it is not there, whatever was asked before. */
    for (unsigned i = 0; i < 2; i++) {
        check_place(&p, &program, 250, BASE + 0x2010, "/lib/new.so 5010");
        check_place(&p, &program, 150, BASE + 0x2010, "[unknown] 555500002010");
    }
    check_place(&p, &program, 250, BASE + 0x4010, "[unknown] 555500004010");
    /* What was mapped last hides it. */
    address_space_map(program.space, &(struct mapping) {
        .start = BASE + 0x2000, .end = BASE + 0x3000, .path = "/lib/last",
        .code = true,
    });
    program.changes++;
    check_place(&p, &program, 250, BASE + 0x2010, "/lib/last 10");
    /* If that is late, it does not. */
    program.late = true;
    program.changes++;
    check_place(&p, &program, 250, BASE + 0x2010, "/lib/new.so 5010");
    address_space_free(program.space);
    parts_clear(&p);
    btrail_names_close(names);
    scratch_remove(folder);
}

/* Functions of a name in what a version of a process has mapped */
static void test_starts(void)
{
    g_autoptr(GArray) starts = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    uint8_t id[20];
    struct btrail_mapping mappings[3];
    const struct btrail_process version = {
        .n_mappings = 3, .mappings = mappings,
    };
    struct elf_file *elf;
    struct parts p;
    char digits[41];
    uint64_t leaf;

    parts_init(&p, NULL);
    add_sample(&p, "/bin/sample", 7, digits);
    elf = elf_files_get(p.files, "/bin/sample", digits);
    leaf = elf_file_find(elf, "sample_leaf")->start;
    for (unsigned i = 0; i < 20; i++) {
        char pair[] = { digits[2 * i], digits[2 * i + 1], 0 };

        id[i] = (uint8_t)strtoul(pair, NULL, 16);
    }
    for (unsigned i = 0; i < 3; i++) {
        mappings[i] = (struct btrail_mapping) {
            .start = BASE * (i + 1), .end = BASE * (i + 1) + 0x100000,
            .flags = i == 1 ? BTRAIL_MAPPING_READ : BTRAIL_MAPPING_EXEC,
            .path = "/bin/sample", .build_id = id, .build_id_size = 20,
        };
    }
    places_starts_in(p.places, &version, "sample_leaf", starts);
    g_assert_cmpuint(starts->len, ==, 2);
    g_assert_cmphex(g_array_index(starts, uint64_t, 0), ==, BASE + leaf);
    g_assert_cmphex(g_array_index(starts, uint64_t, 1), ==, BASE * 3 + leaf);
    places_starts_in(p.places, &version, "nothing", starts);
    g_assert_cmpuint(starts->len, ==, 2);
    parts_clear(&p);
}

int main(int argc, char **argv)
{
    int ret;

    g_test_init(&argc, &argv, NULL);
    g_assert_cmpint(argc, ==, 2);
    g_assert_true(g_file_get_contents(argv[1], &content, &content_size, NULL));
    g_test_add_func("/places/random", test_random);
    g_test_add_func("/places/last", test_last);
    g_test_add_func("/places/read", test_read);
    g_test_add_func("/places/read-shared", test_read_shared);
    g_test_add_func("/places/read-nothing", test_read_nothing);
    g_test_add_func("/places/same-path", test_same_path);
    g_test_add_func("/places/files", test_files);
    g_test_add_func("/places/vdso", test_vdso);
    g_test_add_func("/places/kernels", test_kernels);
    g_test_add_func("/places/coming", test_coming);
    g_test_add_func("/places/starts", test_starts);
    ret = g_test_run();
    g_free(content);
    return ret;
}
