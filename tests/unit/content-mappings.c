/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Mappings that contents show: what is found is true, and what leaves any
 * doubt is not found.
 */

#include <glib.h>
#include <string.h>
#include <unistd.h>

#include "lib/agent/code-piece.h"
#include "scratch.h"
#include "snapshot-samples.h"
#include "symbolize/content-mappings.h"
#include "symbolize/symbolizer.h"

#define PAGE    UINT64_C(4096)
#define CODE    (BTRAIL_MAPPING_EXEC | BTRAIL_MAPPING_FILE)
#define KNOWN   0x10000         /* the page tables that snapshots find */
#define USER    0x11000
#define ONE     0x20000
#define TWO     0x30000
#define START   1000            /* times */
#define END     1000000

static char *folder;

/* A trace that is being made of one vCPU, and then what is read of it */
struct sample {
    char *path;
    struct btrail_writer *w;
    struct btrail_code_builder *builder;
    uint64_t index;
    uint64_t number;

    struct btrail_trace *trace;
    struct btrail_names *names;
    struct btrail_owners *owners;
    struct btrail_code *code;
    struct content_mappings *found;
};

static void begin(struct sample *s)
{
    const char meta[] = "{\"tick_ns\": 10, \"privilege\": \"all\"}";

    *s = (struct sample) {
        .path = g_build_filename(folder, "sample.btrail", NULL),
        .builder = btrail_code_builder_new(),
    };
    g_assert_cmpint(btrail_writer_open(&s->w, s->path, BTRAIL_WRITER_REPLACE),
                    ==, 0);
    g_assert_cmpint(btrail_writer_meta(s->w, meta, strlen(meta)), ==, 0);
}

/*
 * What runs next, after @lost records that are lost: some records of one page
 * table and, if not -1, one pid
 */
static void run_after(struct sample *s, uint64_t lost, uint64_t cr3,
                      int64_t pid)
{
    const struct btrail_record records[4] = { { 1, 2, 0 } };
    const struct btrail_event events[] = {
        { .index = s->index += lost, .type = BTRAIL_EVENT_GAP,
          .reason = BTRAIL_GAP_OVERFLOW, .data = { lost } },
        { .index = s->index, .type = BTRAIL_EVENT_TIME,
          .data = { START + 10 + s->index, 0, BTRAIL_NO_ICOUNT } },
        { .index = s->index, .type = BTRAIL_EVENT_TASK,
          .reason = pid < 0 ? BTRAIL_TASK_UNKNOWN : 0,
          .data = { pid < 0 ? 0 : (uint64_t)pid << 32 | pid } },
    };
    const struct btrail_slab slab = {
        .first_index = s->index, .cr3 = cr3, .records = records,
        .n_records = 4, .events = lost ? events : events + 1,
        .n_events = lost ? 3 : 2,
    };

    g_assert_cmpint(btrail_writer_append(s->w, 0, &slab), ==, 0);
    s->index += 4;
}

static void run(struct sample *s, uint64_t cr3, int64_t pid)
{
    run_after(s, 0, cr3, pid);
}

static void entry(struct sample *s, uint64_t cr3, uint64_t address,
                  uint64_t number)
{
    const struct btrail_code_entry e = {
        .index = s->index - 4, .cr3 = cr3, .linear = address,
        .number = number,
    };

    btrail_code_builder_entry(s->builder, &e);
}

/* What ran last has executed a page whose bytes follow from @seed. */
static void page(struct sample *s, uint64_t cr3, uint64_t address,
                 unsigned seed)
{
    uint32_t bytes[PAGE / 4] = { seed };

    entry(s, cr3, address, ++s->number);
    btrail_code_builder_content(s->builder, s->number, (uint8_t *)bytes);
}

static void add_snapshot(struct sample *s, uint64_t time,
                         struct btrail_mapping *mappings, unsigned n)
{
    struct btrail_process p = {
        .pid = 1, .pgd = KNOWN, .user_pgd = USER, .mm = 1, .first = time,
        .last = time, .comm = "known", .exe = "", .command_line = "",
        .n_mappings = n, .mappings = mappings,
    };
    const struct btrail_snapshot snapshot = {
        time - 1, time, BTRAIL_SNAPSHOT_WHOLE, 1, &p,
    };

    sample_snapshot(s->w, &snapshot);
}

static void end(struct sample *s, struct btrail_mapping *mappings, unsigned n)
{
    struct btrail_sideband_info info = { .kind = BTRAIL_SIDEBAND_CODE };
    g_autofree uint8_t *data = NULL;
    size_t size;

    data = btrail_code_builder_take(s->builder, &size);
    info.size = size;
    g_assert_cmpint(btrail_writer_sideband(s->w, &info, data), ==, 0);
    btrail_code_builder_free(s->builder);
    add_snapshot(s, START, mappings, n);
    add_snapshot(s, END, mappings, n);
    g_assert_cmpint(btrail_writer_close(s->w), ==, 0);
    g_assert_cmpint(btrail_trace_open(&s->trace, s->path), ==, 0);
    g_assert_cmpint(btrail_names_open(&s->names, s->trace), ==, 0);
    g_assert_cmpint(btrail_owners_open(&s->owners, s->trace, s->names), ==, 0);
    g_assert_cmpint(btrail_code_open(&s->code, s->trace), ==, 0);
    s->found = content_mappings_new(s->trace, s->code, s->names, s->owners);
}

static void clear(struct sample *s)
{
    content_mappings_free(s->found);
    btrail_code_close(s->code);
    btrail_owners_close(s->owners);
    btrail_names_close(s->names);
    btrail_trace_close(s->trace);
    g_free(s->path);
}

/* Checks which file is at an address, if any, and which offset it has there. */
static void check(struct sample *s, uint64_t cr3, uint64_t address,
                  const char *path, uint64_t offset)
{
    const struct process process = { .cr3 = cr3 };
    const struct mapping *m = content_mappings_find(s->found, &process,
                                                    address);

    g_assert_cmpstr(m ? m->path : NULL, ==, path);
    if (m) {
        g_assert_cmphex(m->start, <=, address);
        g_assert_cmphex(m->end, >, address);
        g_assert_cmphex(address - m->start + m->offset, ==, offset);
        g_assert_true(m->code);
    }
}

/* Two files, what is no file, and data */
static struct btrail_mapping two_files[] = {
    { .start = 0x500000, .end = 0x504000, .offset = 0x1000, .flags = CODE,
      .path = "/bin/a", .build_id = (const uint8_t *)"\x0a\xff",
      .build_id_size = 2 },
    { .start = 0x700000, .end = 0x703000, .flags = CODE, .path = "/lib/b" },
    { .start = 0x800000, .end = 0x801000, .path = "/lib/b",
      .flags = BTRAIL_MAPPING_FILE },
    { .start = 0x900000, .end = 0x901000, .flags = BTRAIL_MAPPING_EXEC,
      .path = "" },
    /* The build-id is not known everywhere. */
    { .start = 0xa00000, .end = 0xa01000, .offset = 0x2000, .flags = CODE,
      .path = "/bin/a" },
    /* Nor is the path. */
    { .start = 0xc00000, .end = 0xc01000, .flags = CODE, .path = "" },
};

/* Contents, by the file and page that have them */
enum { A0 = 1, A1, B0, B1, ANONYMOUS, BOTH, OTHER, MORE };

static void begin_two_files(struct sample *s)
{
    begin(s);
    run(s, USER, -1);
    page(s, USER, 0x500000, A0);
    page(s, USER, 0x501000, A1);
    page(s, USER, 0x502000, BOTH);
    page(s, USER, 0x700000, B0);
    page(s, USER, 0x701000, B1);
    page(s, USER, 0x702000, BOTH);
    page(s, USER, 0x800000, MORE);
    page(s, USER, 0x900000, ANONYMOUS);
    page(s, USER, 0xa00000, A1);
    page(s, USER, 0xc00000, B1);
    page(s, USER, 0xffffffff81000000, OTHER);
    run(s, ONE, -1);
}

static void end_two_files(struct sample *s)
{
    end(s, two_files, G_N_ELEMENTS(two_files));
}

/* One page shows the whole mapping. */
static void test_whole(void)
{
    struct sample s;
    struct process seen = { .cr3 = KNOWN };

    begin_two_files(&s);
    page(&s, ONE, 0x1501000, A1);
    page(&s, ONE, 0x1503000, OTHER);
    page(&s, ONE, 0x2702000, BOTH);
    page(&s, ONE, 0x2700000, B0);
    /* After the last record: nobody knows who it was. */
    s.index += 10;
    page(&s, USER, 0xb00000, B0);
    end_two_files(&s);
    check(&s, ONE, 0x1501000, "/bin/a", 0x2000);
    check(&s, ONE, 0x1500fff, "/bin/a", 0x1fff);
    check(&s, ONE, 0x1503123, "/bin/a", 0x4123);
    check(&s, ONE, 0x1504000, NULL, 0);
    check(&s, ONE, 0x14fffff, NULL, 0);
    check(&s, ONE, 0x2702000, "/lib/b", 0x2000);
    check(&s, TWO, 0x1501000, NULL, 0);
    check(&s, ONE, UINT64_MAX, NULL, 0);
    check(&s, ONE, 0, NULL, 0);

    g_assert_cmpint(btrail_names_process(s.names, START, KNOWN, &seen.seen),
                    ==, BTRAIL_SURE);
    g_assert_cmpstr(content_mappings_find(s.found, &seen, 0x500000)->build_id,
                    ==, "0aff");
    g_assert_null(content_mappings_find(s.found, &seen, 0x800000));
    g_assert_null(content_mappings_find(s.found, &seen, 0x900000));
    /* What another one may have executed first */
    g_assert_cmpstr(content_mappings_find(s.found, &seen, 0xb00000)->path, ==,
                    "/lib/b");
    clear(&s);
}

/* Contents that can be anywhere, or nowhere */
static void test_doubt(void)
{
    struct sample s;

    begin_two_files(&s);
    page(&s, ONE, 0x1502000, BOTH);
    page(&s, ONE, 0x1900000, ANONYMOUS);
    page(&s, ONE, 0x1a00000, MORE);
    page(&s, ONE, 0x1b00000, OTHER);
    /* Too low or too high for the rest of the mapping */
    page(&s, ONE, 0, A1);
    page(&s, ONE, (UINT64_C(1) << 63) - PAGE, B0);
    end_two_files(&s);
    check(&s, ONE, 0x1502000, NULL, 0);
    check(&s, ONE, 0x1900000, NULL, 0);
    check(&s, ONE, 0x1a00000, NULL, 0);
    check(&s, ONE, 0x1b00000, NULL, 0);
    check(&s, ONE, 5, "/bin/a", 0x2005);
    check(&s, ONE, 0x1000, NULL, 0);
    check(&s, ONE, (UINT64_C(1) << 63) - 1, "/lib/b", 0xfff);
    clear(&s);
}

/* If one page speaks against a mapping, only pages that agree are taken. */
static void test_contradiction(void)
{
    static const struct {
        uint64_t at;
        unsigned content;
    } against[] = {
        { 0x1500000, OTHER },   /* the file has something else there */
        { 0x1502000, B1 },      /* something else has it */
        { 0x1503000, B1 },
        { 0x1503000, BOTH },
        { 0x1503000, ANONYMOUS },
    };
    unsigned i;

    for (i = 0; i < G_N_ELEMENTS(against); i++) {
        uint64_t at = against[i].at;
        struct sample s;

        begin_two_files(&s);
        page(&s, ONE, 0x1501000, A1);
        page(&s, ONE, at, against[i].content);
        end_two_files(&s);
        check(&s, ONE, 0x1501fff, "/bin/a", 0x2fff);
        check(&s, ONE, 0x1500fff, NULL, 0);
        check(&s, ONE, at, against[i].content == B1 ? "/lib/b" : NULL,
              PAGE);
        clear(&s);
    }
}

/* A page that had several contents */
static void test_change(void)
{
    static const unsigned contents[] = { OTHER, BOTH, B1, ANONYMOUS };

    for (unsigned i = 0; i < G_N_ELEMENTS(contents); i++) {
        struct sample s;

        begin_two_files(&s);
        page(&s, ONE, 0x1501000, A1);
        page(&s, ONE, 0x1501000, contents[i]);
        page(&s, ONE, 0x2700000, B0);
        page(&s, ONE, 0x2702000, contents[i]);
        page(&s, ONE, 0x2702000, MORE);
        /* Two contents in a place of which nothing is known */
        page(&s, ONE, 0x3501000, A1);
        page(&s, ONE, 0x3503000, OTHER);
        page(&s, ONE, 0x3503000, MORE);
        end_two_files(&s);
        check(&s, ONE, 0x3501000, "/bin/a", 0x2000);
        check(&s, ONE, 0x3503000, NULL, 0);
        check(&s, ONE, 0x1501000, NULL, 0);
        check(&s, ONE, 0x2702000, NULL, 0);
        clear(&s);
    }
}

/* Processes that had one page table, one after the other */
static void test_users(void)
{
    struct sample s;

    begin_two_files(&s);
    page(&s, ONE, 0x1500000, A0);
    page(&s, ONE, 0x1600000, A1);
    page(&s, ONE, 0x1901000, A1);
    page(&s, ONE, 0x1903000, OTHER);
    run(&s, ONE, 7);
    page(&s, ONE, 0x1500000, B0);
    page(&s, ONE, 0x1602000, OTHER);
    page(&s, ONE, 0x1701000, A1);
    page(&s, ONE, 0x1702000, BOTH);
    page(&s, ONE, 0x1801000, A1);
    run(&s, ONE, 8);
    page(&s, ONE, 0x1701000, A1);
    page(&s, ONE, 0x1703000, OTHER);
    page(&s, ONE, 0x1803000, OTHER);
    run(&s, TWO, 9);
    page(&s, TWO, 0x1501000, A1);
    page(&s, TWO, 0x1503000, OTHER);
    end_two_files(&s);
    check(&s, ONE, 0x1500000, NULL, 0);
    check(&s, ONE, 0x1600000, "/bin/a", 0x2000);
    check(&s, ONE, 0x1701fff, "/bin/a", 0x2fff);
    check(&s, ONE, 0x1702000, "/bin/a", 0x3000);
    check(&s, ONE, 0x1703000, "/bin/a", 0x4000);
    /* What is near another one's page is not known to be of the same file. */
    check(&s, ONE, 0x1602000, NULL, 0);
    check(&s, ONE, 0x1803000, NULL, 0);
    check(&s, ONE, 0x1903000, NULL, 0);
    check(&s, TWO, 0x1503000, "/bin/a", 0x4000);
    clear(&s);
}

/*
 * Snapshots found mappings that have no code, or no file, where code was
 * executed: places are named by the contents all the same.
 */
static void test_places(void)
{
    struct btrail_mapping mappings[] = {
        { .start = 0x500000, .end = 0x501000, .offset = 0x1000, .flags = CODE,
          .path = "/bin/a" },
        { .start = 0x600000, .end = 0x604000, .flags = BTRAIL_MAPPING_FILE,
          .path = "/bin/b" },
        { .start = 0x700000, .end = 0x701000, .flags = CODE, .path = "" },
        { .start = 0x800000, .end = 0x801000, .flags = BTRAIL_MAPPING_FILE,
          .path = "/bin/c" },
    };
    static const struct {
        uint64_t address;
        const char *module;
        uint64_t offset;
    } places[] = {
        { 0x500004, "a", 0x1004 }, { 0x600004, "a", 0x1004 },
        { 0x601004, "b", 0x1004 }, { 0x700004, "a", 0x1004 },
        { 0x800004, "c", 4 }, { 0x900004, "a", 0x1004 },
        { 0xa00004, NAME_UNKNOWN, 0xa00004 },
    };
    const struct symbolizer_options options = { 0 };
    const struct symbolizer_where where = { .cr3 = USER, .time = START + 10 };
    enum btrail_certainty certainty;
    const struct process *process;
    struct symbolizer *names;
    struct place place;
    struct sample s;
    unsigned i;

    begin(&s);
    run(&s, USER, -1);
    page(&s, USER, 0x500000, A0);
    page(&s, USER, 0x600000, A0);
    page(&s, USER, 0x700000, A0);
    page(&s, USER, 0x800000, OTHER);
    page(&s, USER, 0x900000, A0);
    end(&s, mappings, G_N_ELEMENTS(mappings));
    names = symbolizer_new(&options, s.trace, NULL);
    process = symbolizer_process(names, &where, &certainty);
    g_assert_cmpstr(process->comm, ==, "known");
    for (i = 0; i < G_N_ELEMENTS(places); i++) {
        symbolizer_place(names, process, &where, places[i].address, &place);
        g_assert_cmpstr(place.function->module->name, ==, places[i].module);
        g_assert_cmphex(place.address, ==, places[i].offset);
    }
    symbolizer_free(names);
    clear(&s);
}

/* Without names, code or records nothing is found. */
static void test_nothing(void)
{
    struct sample s;

    begin(&s);
    end(&s, NULL, 0);
    check(&s, ONE, 0x1000, NULL, 0);
    clear(&s);

    begin(&s);
    page(&s, USER, 0x500000, A0);
    end_two_files(&s);
    check(&s, ONE, 0x1000, NULL, 0);
    check(&s, KNOWN, 0x500000, NULL, 0);
    clear(&s);
}

/* Pages that were executed far inside of gaps, where nobody knows by whom */
static void test_gap(void)
{
    enum { GAPS = 3, LOST = 100000000 };
    struct sample s;
    unsigned i;

    begin_two_files(&s);
    for (i = 0; i < GAPS; i++) {
        s.index += LOST / 2;
        page(&s, ONE, 0x1501000 + 0x10000 * i, A1);
        s.index -= LOST / 2;
        run_after(&s, LOST, TWO, 7);
        page(&s, TWO, 0x1501000 + 0x10000 * i, A1);
    }
    end_two_files(&s);
    /* Not for ever */
    alarm(60);
    for (i = 0; i < GAPS; i++) {
        check(&s, ONE, 0x1501000 + 0x10000 * i, "/bin/a", 0x2000);
        check(&s, TWO, 0x1503000 + 0x10000 * i, "/bin/a", 0x4000);
        /* The other one could have executed anything next to it. */
        check(&s, ONE, 0x1503000 + 0x10000 * i, NULL, 0);
    }
    alarm(0);
    clear(&s);
}

/* Mappings of any size, and pages that speak against each of them */
static void test_hostile(void)
{
    enum { N = 100000 };
    struct btrail_mapping mappings[] = {
        { .start = PAGE, .end = UINT64_C(1) << 62, .flags = CODE,
          .path = "/bin/a", .offset = UINT64_MAX - 5 * PAGE + 1 },
    };
    struct sample s;
    unsigned i;

    begin(&s);
    run(&s, USER, -1);
    for (i = 0; i < N; i++) {
        entry(&s, USER, (i + 1) * PAGE, i + 1);
    }
    run(&s, ONE, -1);
    for (i = 0; i < N; i++) {
        entry(&s, ONE, (i + 1) * PAGE, N - i);
    }
    end(&s, mappings, 1);
    for (i = 0; i < N; i++) {
        check(&s, ONE, (i + 1) * PAGE, "/bin/a",
              ((uint64_t)N - i - 6) * PAGE);
    }
    clear(&s);
}

/*
 * Processes at random, of a few files at random addresses, share page tables.
 * A page is not reported again if the last one there was the same one of the
 * same file.
 */
static void test_random(void)
{
    enum { FILES = 4, PAGES = 8, SHARED = 2, ROOTS = 3, PROCESSES = 60,
           PLACES = 400 };
    static const char *const paths[FILES] = { "/a", "/b", "/c", "/d" };
    struct btrail_mapping mappings[FILES];
    /* The file at each place, 1 + its number; and its pages that ran */
    static unsigned file[PROCESSES][PLACES], ran[PROCESSES][PLACES];
    static unsigned last[ROOTS][PLACES][PAGES];
    unsigned i, k, p, right = 0, all = 0;
    struct sample s;

    begin(&s);
    run(&s, USER, -1);
    for (i = 0; i < FILES; i++) {
        mappings[i] = (struct btrail_mapping) {
            .start = (i + 1) << 20, .end = ((i + 1) << 20) + PAGES * PAGE,
            .flags = CODE, .path = paths[i],
        };
        /* The known process does not execute the last page. */
        for (p = 0; p < PAGES - 1; p++) {
            page(&s, USER, mappings[i].start + p * PAGE,
                 p < SHARED ? 1 + p : 1 + i * PAGES + p);
        }
    }
    for (i = 0; i < PROCESSES; i++) {
        uint64_t root = ONE + (i % ROOTS) * 0x10000;

        run(&s, root, 100 + i);
        for (k = 0; k < PLACES; k++) {
            if (g_test_rand_int_range(0, 40)) {
                continue;
            }
            file[i][k] = g_test_rand_int_range(1, FILES + 1);
            for (p = 0; p < PAGES; p++) {
                unsigned content = p < SHARED ? 1 + p :
                                   1 + (file[i][k] - 1) * PAGES + p;

                if (g_test_rand_bit()) {
                    continue;
                }
                ran[i][k] |= 1u << p;
                if (last[i % ROOTS][k][p] != file[i][k]) {
                    last[i % ROOTS][k][p] = file[i][k];
                    page(&s, root, ((uint64_t)k + 1) << 24 | p * PAGE,
                         content);
                }
            }
        }
    }
    end(&s, mappings, FILES);
    for (i = 0; i < PROCESSES; i++) {
        const struct process process = {
            .cr3 = ONE + (i % ROOTS) * 0x10000,
        };

        for (k = 0; k < PLACES; k++) {
            for (p = 0; p < PAGES; p++) {
                uint64_t address = ((uint64_t)k + 1) << 24 | p * PAGE;
                const struct mapping *m =
                    content_mappings_find(s.found, &process, address);

                if (ran[i][k] & 1u << p) {
                    all++;
                    right += m != NULL;
                }
                if (m && ran[i][k] & 1u << p) {
                    g_assert_cmpstr(m->path, ==, paths[file[i][k] - 1]);
                    g_assert_cmphex(address - m->start + m->offset, ==,
                                    p * PAGE);
                }
            }
        }
    }
    g_test_message("%u of %u pages are found", right, all);
    g_assert_cmpuint(right, >, all / 2);
    clear(&s);
}

int main(int argc, char **argv)
{
    int ret;

    g_test_init(&argc, &argv, NULL);
    folder = scratch_new();
    g_test_add_func("/content-mappings/whole", test_whole);
    g_test_add_func("/content-mappings/doubt", test_doubt);
    g_test_add_func("/content-mappings/contradiction", test_contradiction);
    g_test_add_func("/content-mappings/change", test_change);
    g_test_add_func("/content-mappings/users", test_users);
    g_test_add_func("/content-mappings/places", test_places);
    g_test_add_func("/content-mappings/nothing", test_nothing);
    g_test_add_func("/content-mappings/gap", test_gap);
    g_test_add_func("/content-mappings/hostile", test_hostile);
    g_test_add_func("/content-mappings/random", test_random);
    ret = g_test_run();
    scratch_remove(folder);
    return ret;
}
