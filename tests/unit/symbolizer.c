/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of symbolize/symbolizer.h and its parts (processes.h, thread-lives.h,
 * places.h): names from a map, from ELF files, from the sideband
 *
 * usage: symbolizer SAMPLE
 */
#include <gio/gio.h>
#include <glib.h>
#include <glib/gstdio.h>
#include <string.h>

#include "code-samples.h"
#include "scratch.h"
#include "snapshot-samples.h"
#include "symbol-samples.h"
#include "symbolize/stack-edge.h"
#include "symbolize/symbolizer.h"

static const char *sample;
static char *folder;

#define BASE        UINT64_C(0x555500000000)
#define KERNEL      UINT64_C(0xffffffff81000000)

static char *write_map(const char *text)
{
    char *path = g_build_filename(folder, "names.map", NULL);

    g_assert_true(g_file_set_contents(path, text, -1, NULL));
    return path;
}

static const struct process *who(struct symbolizer *s, uint64_t time,
                                 uint64_t cr3)
{
    const struct symbolizer_where where = { .cr3 = cr3, .time = time };
    enum btrail_certainty certainty;

    return symbolizer_process(s, &where, &certainty);
}

static const struct symbolizer_where nowhere;

static void find_place(struct symbolizer *s, const struct process *process,
                       uint64_t time, uint64_t address, struct place *place)
{
    const struct symbolizer_where where = { .time = time };

    symbolizer_place(s, process, &where, address, place);
}

/* The sample is mapped as a whole: an address is its offset in the file. */
static void test_names(void)
{
    g_autofree char *map = write_map(
        "ffffffff81000000 T _text\n"
        "ffffffff81000100 T do_work\n"
        "ffffffffc0000000 t probe\t[e1000]\n"
        "cr3 1000 pid=7 sorter\n"
        "555500000000-555500100000 r-xp 00000000 00:00 0 /bin/sample\n"
        "7f0000000000-7f0000001000 r-xp 00002000 00:00 0 /lib/lost.so\n"
        "10000 T jitted\n"
        "10100 T jitted2\n"
        "cr3 2000\n");
    g_autofree char *bin = g_build_filename(folder, "bin", NULL);
    g_autofree char *copy = g_build_filename(bin, "sample", NULL);
    g_autofree char *content = NULL;
    char *roots[] = { folder, NULL };
    const struct symbolizer_options options = {
        .map = map, .files.sysroots = roots,
    };
    g_autoptr(GError) error = NULL;
    const struct symbolizer_where where = { 0 };
    const struct process *sorter, *second, *third;
    const struct elf_symbol *leaf, *label;
    struct symbolizer *s;
    struct place place, again;
    struct elf_file *f = elf_file_open(sample);
    uint8_t bytes[4];
    bool exact;
    const char *file;
    unsigned line;
    gsize size;

    g_assert_cmpint(g_mkdir_with_parents(bin, 0700), ==, 0);
    g_assert_true(g_file_get_contents(sample, &content, &size, NULL));
    g_assert_true(g_file_set_contents(copy, content, size, NULL));
    s = symbolizer_new(&options, NULL, &error);
    g_assert_no_error(error);

    sorter = who(s, 5, 0x6000000000001018);
    g_assert_cmpstr(sorter->comm, ==, "sorter");
    g_assert_cmpint(sorter->pid, ==, 7);
    g_assert_true(sorter->known);
    second = who(s, 5, 0x2000);
    g_assert_cmpstr(second->comm, ==, "cr3:0x2000");
    g_assert_false(second->known);
    third = who(s, 5, 0x3000);
    g_assert_cmpstr(third->comm, ==, "cr3:0x3000");
    g_assert_true(who(s, 6, 0x1000) == sorter);
    /* Page tables of PAE: two in a page; with a name that says both modes */
    g_assert_cmpstr(who(s, 5, BTRAIL_CR3_PAE | 0x2000)->comm, ==, "pae:0x2000");
    g_assert_cmpstr(who(s, 5, BTRAIL_CR3_PAE | 0x2038)->comm, ==, "pae:0x2020");
    g_assert_cmpstr(who(s, 5, BTRAIL_CR3_PAE | 0x1000)->comm, ==, "sorter");

    /* ELF: the sample's code lies at the same offset and address. */
    leaf = elf_file_find(f, "sample_leaf");
    label = elf_file_find(f, "sample_label");
    find_place(s, sorter, 150, BASE + leaf->start + 1, &place);
    g_assert_cmpstr(place.function->name, ==, "sample_leaf");
    g_assert_cmpstr(place.function->module->name, ==, "sample");
    g_assert_cmpstr(place.function->module->path, ==, "/bin/sample");
    g_assert_cmphex(place.offset, ==, 1);
    g_assert_true(symbolizer_line(s, &place, &file, &line));
    g_assert_true(g_str_has_suffix(file, "elf-sample.c"));
    g_assert_cmpuint(symbolizer_code(s, sorter, &where, BASE + label->start,
                                     bytes, 4, &exact), ==, 4);
    g_assert_cmpint(memcmp(bytes, "\x90\x90\x90\xc3", 4), ==, 0);
    g_assert_cmpuint(symbolizer_bits(s, sorter, &nowhere, BASE), ==, 64);
    find_place(s, sorter, 150, BASE + leaf->start + 2, &again);
    g_assert_true(again.function == place.function);

    /* Elsewhere it is not known, or something else. */
    find_place(s, second, 150, BASE + leaf->start, &place);
    g_assert_false(place.function->known);
    g_assert_cmpstr(place.function->name, ==, NAME_UNKNOWN);
    g_assert_cmpuint(symbolizer_code(s, second, &where, BASE + leaf->start,
                                     bytes, 4, &exact), ==, 0);
    find_place(s, sorter, 150, 0x7f0000000123, &place);
    g_assert_cmpstr(place.function->module->name, ==, "lost.so");
    g_assert_cmphex(place.offset, ==, 0x2123);
    g_assert_false(symbolizer_line(s, &place, &file, &line));
    find_place(s, sorter, 150, 0x10080, &place);
    g_assert_cmpstr(place.function->name, ==, "jitted");
    find_place(s, sorter, 150, 0x10101, &place);
    g_assert_cmpstr(place.function->name, ==, "jitted2");
    find_place(s, sorter, 150, 0x10000000, &place);
    g_assert_cmpstr(place.function->name, ==, NAME_UNKNOWN);

    /* The kernel is the same for all. */
    find_place(s, third, 150, KERNEL + 0x104, &place);
    find_place(s, sorter, 150, KERNEL + 0x108, &again);
    g_assert_true(place.function == again.function);
    g_assert_cmpstr(place.function->name, ==, "do_work");
    g_assert_cmpstr(place.function->module->name, ==, NAME_KERNEL);
    g_assert_true(place.function->module->kernel);
    find_place(s, sorter, 150, 0xffffffffc0000001, &place);
    g_assert_cmpstr(place.function->module->name, ==, "[e1000]");
    find_place(s, sorter, 150, UINT64_MAX, &place);
    g_assert_false(place.function->known);
    symbolizer_free(s);
    elf_file_close(f);
}

/* Is the sample taken for the kernel that has these symbols?  If not, why not? */
static void check_kernel(const char *symbols, const char *reason)
{
    g_autofree char *map = write_map(symbols);
    const struct symbolizer_options options = {
        .map = map, .vmlinux = sample,
    };
    g_autoptr(GError) error = NULL;
    struct symbolizer *s = symbolizer_new(&options, NULL, &error);

    g_assert_true(!s == !!reason);
    g_assert_true(!reason || strstr(error->message, reason));
    symbolizer_free(s);
}

/* A file that is not the guest's kernel would give wrong names. */
static void test_other_vmlinux(void)
{
    struct elf_file *f = elf_file_open(sample);
    uint64_t distance = elf_file_find(f, "schedule")->start -
                        elf_file_find(f, "_text")->start;

    for (unsigned i = 0; i < 2; i++) {
        g_autofree char *symbols = g_strdup_printf(
            "%" G_GINT64_MODIFIER "x T _text\n%" G_GINT64_MODIFIER
            "x T schedule\n", KERNEL, KERNEL + distance + i);

        check_kernel(symbols, i ? "another build" : NULL);
    }
    check_kernel("ffffffff81000000 T do_exit\n", "not the kernel of this guest");
    /* Nobody knows. */
    check_kernel("ffffffff81000000 T a_module\n", NULL);
    elf_file_close(f);
}

/* A kernel that is elsewhere than its file says */
static void test_vmlinux(void)
{
    struct elf_file *f = elf_file_open(sample);
    uint64_t start = elf_file_find(f, "sample_leaf")->start;
    g_autofree char *text = g_strdup_printf(
        "%" G_GINT64_MODIFIER "x T _text\n%" G_GINT64_MODIFIER
        "x t probe\t[e1000]\n", KERNEL, UINT64_C(0xffffffffc0000000));
    g_autofree char *map = write_map(text);
    struct symbolizer_options options = { .map = map, .vmlinux = sample };
    const struct symbolizer_where where = { 0 };
    const struct process *p;
    g_autoptr(GError) error = NULL;
    struct symbolizer *s = symbolizer_new(&options, NULL, &error);
    uint64_t bias = KERNEL - elf_file_find(f, "_text")->start;
    struct place place;
    uint8_t bytes[4];
    bool exact;
    const char *file;
    unsigned line;

    g_assert_no_error(error);
    p = who(s, 0, 0);
    find_place(s, p, 150, bias + start, &place);
    g_assert_cmpstr(place.function->name, ==, "sample_leaf");
    g_assert_cmpstr(place.function->module->name, ==, NAME_KERNEL);
    g_assert_true(symbolizer_line(s, &place, &file, &line));
    g_assert_cmpuint(symbolizer_code(s, p, &where, bias + start, bytes, 4,
                                     &exact), ==, 4);
    find_place(s, p, 150, 0xffffffffc0000010, &place);
    g_assert_cmpstr(place.function->name, ==, "probe");
    symbolizer_free(s);
    elf_file_close(f);

    options.vmlinux = "/nonexistent";
    g_assert_null(symbolizer_new(&options, NULL, &error));
    g_assert_nonnull(error);
    g_clear_error(&error);
    options.vmlinux = map;
    g_assert_null(symbolizer_new(&options, NULL, &error));
    g_assert_nonnull(strstr(error->message, "not an ELF file"));
    g_clear_error(&error);
    options.map = "/nonexistent";
    g_assert_null(symbolizer_new(&options, NULL, &error));
}

static char *write_trace(const char *image, gsize image_size)
{
    char *path = g_build_filename(folder, "names.btrail", NULL);
    struct btrail_mapping mappings[] = {
        { .start = BASE, .end = BASE + 0x100000, .path = "/bin/sample",
          .flags = BTRAIL_MAPPING_EXEC | BTRAIL_MAPPING_FILE },
        { .start = 0x7ffff0000000, .end = 0x7ffff0100000, .path = "[vdso]",
          .flags = BTRAIL_MAPPING_EXEC },
    };
    struct btrail_mapping old_mapping = {
        .start = 0x8048000, .end = 0x8049000, .path = "/bin/old",
        .flags = BTRAIL_MAPPING_EXEC | BTRAIL_MAPPING_FILE,
    };
    struct btrail_thread thread = { .tid = 8, .vcpu = -1, .comm = "worker" };
    struct btrail_thread threads[] = {
        { .tid = 9, .vcpu = -1, .comm = "old" },
        { .tid = 10, .vcpu = -1, .comm = "old" },
    };
    struct btrail_process processes[] = {
        { .pgd = 0x5000, .user_pgd = 0x6000, .mm = 1, .first = 100,
          .last = 200, .pid = 8, .comm = "worker", .exe = "/bin/sample",
          .command_line = "", .n_threads = 1, .n_mappings = 2,
          .threads = &thread, .mappings = mappings },
        { .pgd = 0x8000, .mm = 2, .first = 100, .last = 200, .pid = 9,
          .comm = "old", .exe = "/bin/old", .command_line = "",
          .threads = threads, .n_mappings = 1, .mappings = &old_mapping },
    };
    const char symbols[] = "ffffffff81000000 T _text\n"
                           "ffffffff81000100 T do_work\n";
    struct btrail_sideband_info info = {
        .kind = BTRAIL_SIDEBAND_SYMBOLS, .size = sizeof(symbols) - 1,
        .time = 100,
    };
    struct btrail_snapshot snapshot = {
        .flags = BTRAIL_SNAPSHOT_WHOLE, .n = 2, .processes = processes,
    };
    struct btrail_writer *writer;
    unsigned i;

    g_assert_cmpint(btrail_writer_open(&writer, path, BTRAIL_WRITER_REPLACE),
                    ==, 0);
    g_assert_cmpint(btrail_writer_sideband(writer, &info, symbols), ==, 0);
    info.kind = BTRAIL_SIDEBAND_IMAGE;
    info.size = image_size;
    g_assert_cmpint(btrail_writer_sideband(writer, &info, image), ==, 0);
    /* An image that is none */
    info.size = 5;
    g_assert_cmpint(btrail_writer_sideband(writer, &info, image), ==, 0);
    for (i = 1; i <= 2; i++) {
        snapshot.begin = snapshot.end = 100 * i;
        processes[0].last = processes[1].last = 100 * i;
        processes[1].n_threads = i;
        sample_snapshot(writer, &snapshot);
    }
    g_assert_cmpint(btrail_writer_close(writer), ==, 0);
    return path;
}

/* What was found in the guest's memory */
static void test_sideband(void)
{
    char *roots[] = { folder, NULL };
    const struct symbolizer_options options = { .files.sysroots = roots };
    g_autofree char *content = NULL, *path = NULL;
    struct elf_file *f = elf_file_open(sample);
    uint64_t leaf = elf_file_find(f, "sample_leaf")->start;
    const struct process *worker, *old;
    struct symbolizer_where where = nowhere;
    struct btrail_trace *trace;
    struct symbolizer *s;
    struct place place;
    gsize size;

    g_assert_true(g_file_get_contents(sample, &content, &size, NULL));
    path = write_trace(content, size);
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    s = symbolizer_new(&options, trace, NULL);
    worker = who(s, 150, 0x5000);
    g_assert_cmpstr(worker->comm, ==, "worker");
    g_assert_cmpint(worker->pid, ==, 8);
    /* It may have had more threads. */
    g_assert_cmpint(worker->tid, ==, -1);
    /* Its other page tables, at another time */
    g_assert_true(who(s, 160, 0x6018) == worker);
    g_assert_true(who(s, 150, 0x5000) == worker);
    /* Nobody's */
    g_assert_cmpstr(who(s, 150, 0x7000)->comm, ==, "cr3:0x7000");
    find_place(s, worker, 150, BASE + leaf, &place);
    g_assert_cmpstr(place.function->name, ==, "sample_leaf");
    find_place(s, worker, 150, 0x7ffff0000000 + leaf + 1, &place);
    g_assert_cmpstr(place.function->name, ==, "sample_leaf");
    g_assert_cmpstr(place.function->module->name, ==, "[vdso]");
    find_place(s, worker, 150, KERNEL + 0x120, &place);
    g_assert_cmpstr(place.function->name, ==, "do_work");
    old = who(s, 150, 0x8000);
    g_assert_cmpint(old->tid, ==, -1);
    find_place(s, old, 150, 0x8048010, &place);
    g_assert_cmpstr(place.function->module->name, ==, "old");
    g_assert_cmpuint(symbolizer_bits(s, old, &nowhere, 0x8048010), ==, 32);
    g_assert_cmpuint(symbolizer_bits(s, worker, &nowhere, 0x1000), ==, 64);
    /* Where the producer says it, it is so. */
    where.cr3 = BTRAIL_CR3_CODE16 | 0x8000;
    g_assert_cmpuint(symbolizer_bits(s, old, &where, 0x8048010), ==, 16);
    where.cr3 = BTRAIL_CR3_PAE | BTRAIL_CR3_CODE32 | 0x5000;
    g_assert_cmpuint(symbolizer_bits(s, worker, &where, 0x1000), ==, 32);
    /* There is no such code. */
    g_assert_cmpuint(symbolizer_bits(s, worker, &where, 0x100000000), ==, 64);
    symbolizer_free(s);
    btrail_trace_close(trace);
    elf_file_close(f);
}

/* A process, with a thread of its own, is left for tasks of the kernel. */
static void test_tasks(void)
{
    static const char symbols[] = SAMPLE_KERNEL;
    enum { LAZY = 1, MM, IDLE, BIRTH, CLONE, EXIT, OTHER, USER };
    static const struct {
        unsigned to;
        const char *comm;
        enum btrail_certainty certainty;
    } steps[] = {
        { USER, "many", BTRAIL_SURE }, { OTHER, "many", BTRAIL_SURE },
        { CLONE, "many", BTRAIL_SURE }, { MM, "many", BTRAIL_SURE },
        { 0, "many", BTRAIL_SURE }, { BIRTH, "many", BTRAIL_SURE },
        { LAZY, "many", BTRAIL_SURE }, { 0, "many", BTRAIL_SURE },
        { OTHER, NAME_TASK, BTRAIL_SURE }, { LAZY, NAME_TASK, BTRAIL_SURE },
        { 0, NAME_TASK, BTRAIL_SURE }, { OTHER, NAME_IDLE, BTRAIL_SURE },
        { IDLE, NAME_IDLE, BTRAIL_SURE },
    };
    const char meta[] = "{\"tick_ns\": 0, \"privilege\": \"all\"}";
    const struct symbolizer_options options = { 0 };
    struct btrail_thread thread = { .tid = 8, .vcpu = -1, .comm = "" };
    struct btrail_process processes[] = {
        { .pgd = 0x5000, .mm = 1, .first = 100, .last = 300, .pid = 8,
          .comm = "many", .exe = "", .command_line = "", .n_threads = 1,
          .threads = &thread },
        { .pgd = 0x6000, .mm = 2, .first = 100, .last = 300, .pid = 9,
          .comm = "one", .exe = "", .command_line = "", .n_threads = 1,
          .threads = &thread },
    };
    struct btrail_snapshot snapshot = {
        .begin = 300, .end = 300, .flags = BTRAIL_SNAPSHOT_WHOLE, .n = 2,
        .processes = processes,
    };
    struct btrail_sideband_info info = {
        .kind = BTRAIL_SIDEBAND_SYMBOLS, .size = sizeof(symbols) - 1,
    };
    struct btrail_record records[G_N_ELEMENTS(steps)];
    struct btrail_event event = {
        .type = BTRAIL_EVENT_TIME, .data = { 200, 0, BTRAIL_NO_ICOUNT },
    };
    const struct btrail_slab slab = {
        .cr3 = 0x5000, .records = records,
        .n_records = G_N_ELEMENTS(records), .events = &event, .n_events = 1,
    };
    struct btrail_batch b = {
        .cr3 = 0x5000, .records = records, .count = G_N_ELEMENTS(records),
        .time.host = 200,
    };
    const struct symbolizer_where other = {
        .vcpu = 1, .cr3 = 0x6000, .time = 200,
    };
    struct btrail_batch part = { .count = 0 };
    enum btrail_certainty certainty;
    g_autofree char *path = g_build_filename(folder, "t.btrail", NULL);
    struct btrail_writer *writer;
    struct btrail_trace *trace;
    struct symbolizer *s;
    struct task task;
    size_t i, n = 0;

    for (i = 0; i < G_N_ELEMENTS(steps); i++) {
        records[i] = (struct btrail_record) {
            KERNEL + 0x710, steps[i].to == USER ? BASE :
            KERNEL + 0x100 * steps[i].to, 0,
        };
    }
    g_assert_cmpint(btrail_writer_open(&writer, path, BTRAIL_WRITER_REPLACE),
                    ==, 0);
    g_assert_cmpint(btrail_writer_meta(writer, meta, strlen(meta)), ==, 0);
    g_assert_cmpint(btrail_writer_sideband(writer, &info, symbols), ==, 0);
    sample_snapshot(writer, &snapshot);
    g_assert_cmpint(btrail_writer_append(writer, 0, &slab), ==, 0);
    g_assert_cmpint(btrail_writer_close(writer), ==, 0);
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    s = symbolizer_new(&options, trace, NULL);
    while (symbolizer_part(s, 0, &b, &part, &task)) {
        g_assert_cmpuint(part.index, ==, n);
        g_assert_true(part.records == records + n);
        for (i = 0; i < part.count; i++, n++) {
            g_assert_cmpstr(task.process->comm, ==, steps[n].comm);
            g_assert_cmpint(task.user, ==, steps[n].certainty);
            g_assert_cmpint(task.kernel, ==, steps[n].certainty);
            /* It has made a thread, of which no snapshot knows. */
            g_assert_cmpint(task.process->tid, ==,
                            steps[n].comm == steps[12].comm ? 0 : -1);
        }
    }
    g_assert_cmpuint(n, ==, G_N_ELEMENTS(steps));
    g_assert_cmpint(symbolizer_process(s, &other, &certainty)->tid, ==,
                    8);
    g_assert_cmpint(certainty, ==, BTRAIL_SURE);
    symbolizer_free(s);
    btrail_trace_close(trace);
}

/* A process with code at BASE, seen at one moment or at several */
static struct btrail_process seen_process(uint32_t pid, uint64_t pgd,
                                          uint64_t first, uint64_t last,
                                          struct btrail_mapping *mapping)
{
    return (struct btrail_process) {
        .pgd = pgd, .mm = pid, .start_time = pid, .first = first,
        .last = last, .pid = pid, .comm = "last", .exe = "",
        .command_line = "", .n_mappings = 1, .mappings = mapping,
    };
}

static void add_snapshot(struct btrail_writer *w, uint64_t time,
                         struct btrail_process *processes, unsigned n)
{
    const struct btrail_snapshot snapshot = {
        time, time, BTRAIL_SNAPSHOT_WHOLE, n, processes,
    };

    sample_snapshot(w, &snapshot);
}

static void put_of(struct btrail_writer *w, uint16_t kernel, uint16_t kind,
                   uint64_t time, const void *data, size_t size)
{
    const struct btrail_sideband_info info = { kind, kernel, size, time };

    g_assert_cmpint(btrail_writer_sideband(w, &info, data), ==, 0);
}

/* Who made each record of the first vCPU, and in which function */
static char *who_did_what(struct symbolizer *s, const struct btrail_trace *t)
{
    GString *text = g_string_new(NULL);
    struct btrail_cursor *cursor;
    struct btrail_batch b;

    g_assert_cmpint(btrail_cursor_open(&cursor, t, 0, 0), ==, 0);
    while (!btrail_cursor_next(cursor, &b)) {
        struct btrail_batch part = { .count = 0 };
        struct task task;

        while (!b.event && symbolizer_part(s, 0, &b, &part, &task)) {
            for (size_t i = 0; i < part.count; i++) {
                const struct symbolizer_where where = symbolizer_at(0, &part,
                                                                    i);
                struct place place;

                symbolizer_place(s, task.process, &where, part.records[i].from,
                                 &place);
                g_string_append_printf(text, "%s:%s ", task.process->comm,
                                       place.function->name);
            }
        }
    }
    btrail_cursor_close(cursor);
    return g_string_free(text, FALSE);
}

/*
 * A kernel ends in its idle task, and the same one is started again: nothing of
 * the first one is known in between, nor of its tasks afterwards.
 */
static void test_ended(void)
{
    static const char symbols[] = SAMPLE_KERNEL;
    static const char meta[] = "{\"tick_ns\": 0, \"privilege\": \"all\"}";
    static const struct {
        uint64_t time;
        unsigned to;
    } steps[] = {
        { 150, 0x700 }, { 150, 0x100 }, { 150, 0 }, { 200, 0x300 },
        { 201, 0x700 }, { 399, 0x700 }, { 400, 0x700 },
    };
    enum { N = G_N_ELEMENTS(steps) };
    const struct symbolizer_options options = { 0 };
    const uint64_t known = GUINT64_TO_LE(350);
    struct btrail_mapping mapping = {
        .start = BASE, .end = BASE + 0x1000, .path = "/bin/shell",
        .flags = BTRAIL_MAPPING_EXEC | BTRAIL_MAPPING_FILE,
    };
    struct btrail_process first = seen_process(8, 0x5000, 100, 340, &mapping);
    struct btrail_process next = seen_process(9, 0x5000, 400, 500, &mapping);
    struct btrail_record records[N];
    struct btrail_event events[N];
    const struct btrail_slab slab = {
        .cr3 = 0x5000, .records = records, .n_records = N, .events = events,
        .n_events = N,
    };
    g_autofree char *path = g_build_filename(folder, "ended.btrail", NULL);
    g_autofree char *got = NULL;
    struct btrail_writer *w;
    struct btrail_trace *t;
    struct symbolizer *s;

    for (unsigned i = 0; i < N; i++) {
        records[i] = (struct btrail_record) {
            KERNEL + 0x710, KERNEL + steps[i].to, 0,
        };
        events[i] = (struct btrail_event) {
            .index = i, .type = BTRAIL_EVENT_TIME,
            .data = { steps[i].time, 0, BTRAIL_NO_ICOUNT },
        };
    }
    first.comm = "first";
    next.comm = "next";
    g_assert_cmpint(btrail_writer_open(&w, path, BTRAIL_WRITER_REPLACE), ==, 0);
    g_assert_cmpint(btrail_writer_meta(w, meta, strlen(meta)), ==, 0);
    put_of(w, 1, BTRAIL_SIDEBAND_SYMBOLS, 100, symbols, sizeof(symbols) - 1);
    add_snapshot(w, 340, &first, 1);
    put_of(w, 1, BTRAIL_SIDEBAND_ENDED, 200, &known, sizeof(known));
    put_of(w, 2, BTRAIL_SIDEBAND_SYMBOLS, 400, symbols, sizeof(symbols) - 1);
    add_snapshot(w, 500, &next, 1);
    g_assert_cmpint(btrail_writer_append(w, 0, &slab), ==, 0);
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    g_assert_cmpint(btrail_trace_open(&t, path), ==, 0);
    s = symbolizer_new(&options, t, NULL);
    got = who_did_what(s, t);
    g_assert_cmpstr(got, ==, "first:other first:other first:other "
                    "swapper:other cr3:0x5000:[unknown] cr3:0x5000:[unknown] "
                    "next:other ");
    symbolizer_free(s);
    btrail_trace_close(t);
}

/* One record each; @tid, @pid, @name: of a TASK event before it, if any */
static const struct named_step {
    uint64_t time;
    uint64_t cr3;
    int flags;                  /* -1: no event */
    uint32_t tid;
    uint32_t pid;
    const char *name;
    const char *comm;           /* what it is to be */
    int64_t its_pid;
    int64_t its_tid;
    const char *module;         /* at BASE */
} named_steps[] = {
    /* The stream names its tasks, so it is not searched for switches. */
    { 110, 0x5000, -1, 0, 0, NULL, "last", 8, -1, "shell" },
    /* A thread */
    { 120, 0x5000, 0, 9, 8, "worker", "worker", 8, 9, "shell" },
    { 130, 0x5000, -1, 0, 0, NULL, "worker", 8, 9, "shell" },
    /* Threads of the kernel that borrow its page table */
    { 140, 0x5000, 1, 15, 15, "rcu_preempt", "rcu_preempt", 15, 15, "shell" },
    { 150, 0x5000, 1, 0, 0, "swapper/0", "swapper/0", 0, 0, "shell" },
    /* A child after vfork() shares its parent's address space. */
    { 160, 0x5000, 0, 19, 19, "sh", "sh", 19, 19, "shell" },
    /* After fork() it has one that nobody knows; */
    { 170, 0x6000, 0, 20, 20, "sh", "sh", 20, 20, NAME_UNKNOWN },
    /* exec gives it another, and then its name. */
    { 180, 0x7000, -1, 0, 0, NULL, "sh", 20, 20, "program" },
    { 190, 0x7000, 0, 20, 20, "prog\nram", "prog\nram", 20, 20, "program" },
    { 205, 0x5000, 1, 15, 15, "rcu_preempt", "rcu_preempt", 15, 15, "shell" },
    /* A process that no snapshot has found, between two that were found */
    { 210, 0x7000, 0, 25, 25, "short", "short", 25, 25, NAME_UNKNOWN },
    /* The next one with these page tables, before it was seen */
    { 215, 0x5000, 1, 15, 15, "rcu_preempt", "rcu_preempt", 15, 15, "shell" },
    { 220, 0x7000, 0, 30, 30, "next", "next", 30, 30, "next" },
    /* The same pid again, with page tables that were never seen with it */
    { 230, 0x5000, 2, 0, 0, "", "last", 8, -1, "shell" },
    { 240, 0x8000, 0, 20, 20, "prog", "prog", 20, 20, NAME_UNKNOWN },
    /* After the last snapshot, when the last one was likely */
    { 400, 0x7000, 0, 30, 30, "next", "next", 30, 30, "next" },
    { 410, 0x7000, 0, 40, 40, "other", "other", 40, 40, NAME_UNKNOWN },
    { 420, 0x7000, 2, 0, 0, "", "last", 30, -1, "next" },
};

static char *write_named(void)
{
    enum { N = G_N_ELEMENTS(named_steps) };
    char *path = g_build_filename(folder, "named.btrail", NULL);
    static const char meta[] = "{\"tick_ns\": 0, \"privilege\": \"all\"}";
    static const char symbols[] =
        "ffffffff81000000 T __switch_to_asm\n"
        "ffffffff81000100 T enter_lazy_tlb\n"
        "ffffffff81000200 T switch_mm_irqs_off\n"
        "ffffffff81000700 T other\n";
    struct btrail_mapping mappings[] = {
        { .path = "/bin/shell" }, { .path = "/bin/program" },
        { .path = "/bin/next" },
    };
    struct btrail_process processes[3];
    struct btrail_sideband_info info = {
        .kind = BTRAIL_SIDEBAND_SYMBOLS, .size = sizeof(symbols) - 1,
    };
    const struct btrail_record switches[] = {
        { KERNEL + 0x710, KERNEL + 0x100, 0 },
        { KERNEL + 0x710, KERNEL, 0 },
        { KERNEL + 0x710, KERNEL + 0x720, 0 },
    };
    struct btrail_record records[N];
    struct btrail_event events[3 * N];
    struct btrail_slab slab = {
        .cr3 = 0x5000, .records = records, .n_records = N, .events = events,
    };
    struct btrail_writer *w;
    unsigned i;

    for (i = 0; i < 3; i++) {
        mappings[i].start = BASE;
        mappings[i].end = BASE + 0x1000;
        mappings[i].flags = BTRAIL_MAPPING_EXEC | BTRAIL_MAPPING_FILE;
    }
    g_assert_cmpint(btrail_writer_open(&w, path, BTRAIL_WRITER_REPLACE), ==, 0);
    g_assert_cmpint(btrail_writer_meta(w, meta, strlen(meta)), ==, 0);
    g_assert_cmpint(btrail_writer_sideband(w, &info, symbols), ==, 0);
    processes[0] = seen_process(8, 0x5000, 100, 100, &mappings[0]);
    add_snapshot(w, 100, processes, 1);
    processes[0].last = 200;
    processes[1] = seen_process(20, 0x7000, 200, 200, &mappings[1]);
    add_snapshot(w, 200, processes, 2);
    processes[0].last = 300;
    processes[1] = seen_process(30, 0x7000, 300, 300, &mappings[2]);
    add_snapshot(w, 300, processes, 2);
    for (i = 0; i < N; i++) {
        const struct named_step *s = &named_steps[i];
        struct btrail_event e = {
            .index = i, .type = BTRAIL_EVENT_TIME,
            .data = { s->time, 0, BTRAIL_NO_ICOUNT },
        };

        records[i] = i < G_N_ELEMENTS(switches) ? switches[i] :
                     (struct btrail_record) { BASE, BASE + 4, 0 };
        events[slab.n_events++] = e;
        e = (struct btrail_event) {
            .index = i, .type = BTRAIL_EVENT_CR3, .data = { s->cr3 },
        };
        if (i && s->cr3 != named_steps[i - 1].cr3) {
            events[slab.n_events++] = e;
        }
        e = (struct btrail_event) {
            .index = i, .type = BTRAIL_EVENT_TASK, .reason = s->flags,
            .data = { (uint64_t)s->pid << 32 | s->tid },
        };
        if (s->flags >= 0) {
            memcpy(&e.data[1], s->name, strlen(s->name));
            events[slab.n_events++] = e;
        }
    }
    g_assert_cmpint(btrail_writer_append(w, 0, &slab), ==, 0);
    /* A vCPU without tasks */
    slab = (struct btrail_slab) {
        .cr3 = 0x5000, .records = switches, .events = events, .n_events = 1,
        .n_records = G_N_ELEMENTS(switches),
    };
    g_assert_cmpint(btrail_writer_append(w, 1, &slab), ==, 0);
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    return path;
}

/* What TASK events name, joined with what snapshots have found */
static void test_named(void)
{
    const struct symbolizer_options none = { 0 };
    g_autofree char *path = write_named();
    g_autofree char *map = write_map("cr3 6000 mapped\n");
    const struct symbolizer_options mapped = { .map = map };
    struct btrail_trace *trace;
    unsigned pass;

    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    for (pass = 0; pass < 2; pass++) {
        struct symbolizer *s = symbolizer_new(pass ? &mapped : &none, trace,
                                              NULL);
        struct btrail_cursor *cursor;
        struct btrail_batch b, part;
        struct task task;
        struct place place;
        size_t n = 0;

        g_assert_cmpint(btrail_cursor_open(&cursor, trace, 0, 0), ==, 0);
        while (!btrail_cursor_next(cursor, &b)) {
            part.count = 0;
            while (!b.event && symbolizer_part(s, 0, &b, &part, &task)) {
                const struct named_step *step = &named_steps[n];

                g_assert_cmpuint(part.index, ==, n++);
                g_assert_cmpuint(part.count, ==, 1);
                g_assert_cmpstr(task.process->comm, ==,
                                pass && step->cr3 == 0x6000 ? "mapped" :
                                step->comm);
                g_assert_cmpint(task.process->pid, ==, step->its_pid);
                g_assert_cmpint(task.process->tid, ==, step->its_tid);
                g_assert_true(!b.task.known || task.user == BTRAIL_SURE);
                g_assert_true(!b.task.known || task.kernel == BTRAIL_SURE);
                g_assert_true(task.process->known);
                symbolizer_place(s, task.process, &task.where, BASE,
                                 &place);
                g_assert_cmpstr(place.function->module->name, ==,
                                step->module);
            }
        }
        g_assert_cmpuint(n, ==, G_N_ELEMENTS(named_steps));
        btrail_cursor_close(cursor);
        /* The other stream's switches show what ran. */
        g_assert_cmpint(btrail_cursor_open(&cursor, trace, 1, 0), ==, 0);
        for (n = 0; !btrail_cursor_next(cursor, &b);) {
            part.count = 0;
            while (!b.event && symbolizer_part(s, 1, &b, &part, &task)) {
                g_assert_cmpstr(task.process->comm, ==,
                                part.index < 2 ? "last" : NAME_TASK);
                n += part.count;
            }
        }
        g_assert_cmpuint(n, ==, 3);
        btrail_cursor_close(cursor);
        symbolizer_free(s);
    }
    btrail_trace_close(trace);
}

/*
 * One record each, after a KERNEL event and, with @pid, a TASK event.  Kernel 1
 * was seen at 100 and 200, and kernel 2 at 300 and 400; "first" of the former
 * and "second" of the latter have the same page tables.
 */
static const struct kernel_step {
    uint64_t time;
    uint16_t flags;
    uint16_t number;
    uint64_t cr3;
    uint32_t pid;
    const char *comm;
    const char *module;         /* at BASE */
    const char *function;       /* at KERNEL */
    const char *kernel;         /* which is in this one */
} kernel_steps[] = {
    { 150, 0, 1, 0x5000, 0, "first", "shell", "one", NAME_KERNEL },
    /* In none of them, or in a nested guest, nothing has a name. */
    { 151, 0, 0, 0x5000, 0, "cr3:0x5000", NAME_UNKNOWN, NAME_UNKNOWN,
      NAME_UNKNOWN },
    { 152, BTRAIL_KERNEL_NESTED, 0, BTRAIL_CR3_NESTED | 0x5000, 0,
      "nested:0x5000", NAME_UNKNOWN, NAME_UNKNOWN, NAME_UNKNOWN },
    { 153, BTRAIL_KERNEL_NESTED, 0,
      BTRAIL_CR3_NESTED | BTRAIL_CR3_PAE | 0x2038, 0, "nested:0x2020",
      NAME_UNKNOWN, NAME_UNKNOWN, NAME_UNKNOWN },
    /* The hypervisor itself runs nothing with that number. */
    { 154, 0, 1, BTRAIL_CR3_PAE | 0x2038, 0, "pae:0x2020", NAME_UNKNOWN, "one",
      NAME_KERNEL },
    { 155, 0, 1, 0x5000, 0, "first", "shell", "one", NAME_KERNEL },
    /* One that runs before it was found had its own functions already. */
    { 156, 0, 2, 0x5000, 0, "cr3:0x5000", NAME_UNKNOWN, "two", NAME_KERNEL },
    { 157, 0, 2, 0x5000, 8, "task", NAME_UNKNOWN, "two", NAME_KERNEL },
    { 158, 0, 1, 0x5000, 8, "task", "shell", "one", NAME_KERNEL },
    { 350, 0, 2, 0x5000, 0, "second", "program", "two", NAME_KERNEL },
    { 351, 0, 1, 0x5000, 0, "cr3:0x5000", NAME_UNKNOWN, "one", NAME_KERNEL },
    { 352, 0, 1, 0x5000, 20, "task", NAME_UNKNOWN, "one", NAME_KERNEL },
    { 353, 0, 2, 0x5000, 20, "task", "program", "two", NAME_KERNEL },
    { 354, 0, 0, 0x5000, 0, "cr3:0x5000", NAME_UNKNOWN, NAME_UNKNOWN,
      NAME_UNKNOWN },
    /* Nobody looks, so it is the one that was found last. */
    { 355, BTRAIL_KERNEL_UNKNOWN, 0, 0x5000, 0, "second", "program", "two",
      NAME_KERNEL },
};

static void add_symbols(struct btrail_writer *w, uint16_t kernel, uint64_t time,
                        const char *text)
{
    const struct btrail_sideband_info info = {
        .kind = BTRAIL_SIDEBAND_SYMBOLS, .kernel = kernel, .time = time,
        .size = strlen(text),
    };

    g_assert_cmpint(btrail_writer_sideband(w, &info, text), ==, 0);
}

static char *write_kernels(void)
{
    enum { N = G_N_ELEMENTS(kernel_steps) };
    static const char meta[] = "{\"tick_ns\": 0, \"privilege\": \"all\"}";
    char *path = g_build_filename(folder, "kernels.btrail", NULL);
    struct btrail_mapping mappings[] = {
        { .path = "/bin/shell" }, { .path = "/bin/program" },
    };
    struct btrail_record records[N];
    struct btrail_event events[4 * N];
    struct btrail_slab slab = {
        .cr3 = kernel_steps[0].cr3, .records = records, .n_records = N,
        .events = events,
    };
    struct btrail_writer *w;

    g_assert_cmpint(btrail_writer_open(&w, path, BTRAIL_WRITER_REPLACE), ==, 0);
    g_assert_cmpint(btrail_writer_meta(w, meta, strlen(meta)), ==, 0);
    add_symbols(w, 1, 100, "ffffffff81000000 T one\n");
    add_symbols(w, 2, 300, "ffffffff81000000 T two\n");
    for (unsigned i = 0; i < 4; i++) {
        struct btrail_mapping *m = &mappings[i / 2];
        struct btrail_process process = seen_process(
            i / 2 ? 20 : 8, 0x5000, i / 2 ? 300 : 100, 100 * (i + 1), m);

        m->start = BASE;
        m->end = BASE + 0x1000;
        m->flags = BTRAIL_MAPPING_EXEC | BTRAIL_MAPPING_FILE;
        process.comm = i / 2 ? "second" : "first";
        process.kernel = i / 2 + 1;
        add_snapshot(w, 100 * (i + 1), &process, 1);
    }
    for (unsigned i = 0; i < N; i++) {
        const struct kernel_step *s = &kernel_steps[i];

        records[i] = (struct btrail_record) { BASE, BASE + 4, 0 };
        events[slab.n_events++] = (struct btrail_event) {
            .index = i, .type = BTRAIL_EVENT_TIME,
            .data = { s->time, 0, BTRAIL_NO_ICOUNT },
        };
        events[slab.n_events++] = (struct btrail_event) {
            .index = i, .type = BTRAIL_EVENT_CR3, .data = { s->cr3 },
        };
        events[slab.n_events++] = (struct btrail_event) {
            .index = i, .type = BTRAIL_EVENT_KERNEL, .reason = s->flags,
            .data = { s->number },
        };
        if (s->pid) {
            events[slab.n_events] = (struct btrail_event) {
                .index = i, .type = BTRAIL_EVENT_TASK,
                .data = { (uint64_t)s->pid << 32 | s->pid },
            };
            memcpy(&events[slab.n_events++].data[1], "task", 4);
        }
    }
    g_assert_cmpint(btrail_writer_append(w, 0, &slab), ==, 0);
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    return path;
}

static bool leaves_kernel(const struct kernel_step *step,
                          const struct kernel_step *next)
{
    bool known = !((step->flags | next->flags) & BTRAIL_KERNEL_UNKNOWN);

    return ((step->flags ^ next->flags) & BTRAIL_KERNEL_NESTED) ||
           (known && step->number != next->number);
}

/* The era of records that stay in their kernel */
static uint32_t era_of_kernel(struct symbolizer *s, const struct task *task)
{
    struct symbolizer_where where = task->where;

    where.leaves = false;
    return symbolizer_era(s, &where);
}

/* What is known of a kernel names the records of no other one. */
static void test_kernels(void)
{
    enum { N = G_N_ELEMENTS(kernel_steps) };
    const struct symbolizer_options none = { 0 };
    g_autofree char *path = write_kernels();
    struct btrail_trace *trace;
    struct btrail_cursor *cursor;
    struct btrail_batch b, part;
    struct symbolizer *s;
    struct task task;
    struct place user, kernel, target;
    size_t n = 0;

    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    s = symbolizer_new(&none, trace, NULL);
    g_assert_cmpint(btrail_cursor_open(&cursor, trace, 0, 0), ==, 0);
    while (!btrail_cursor_next(cursor, &b)) {
        part.count = 0;
        while (!b.event && symbolizer_part(s, 0, &b, &part, &task)) {
            const struct kernel_step *step = &kernel_steps[n];
            bool leaves = leaves_kernel(step, n + 1 < N ? step + 1 : step);

            g_assert_cmpuint(part.index, ==, n++);
            g_assert_cmpuint(part.count, ==, 1);
            g_assert_cmpstr(task.process->comm, ==, step->comm);
            symbolizer_place(s, task.process, &task.where, BASE, &user);
            g_assert_cmpstr(user.function->module->name, ==, step->module);
            symbolizer_place(s, task.process, &task.where, KERNEL, &kernel);
            g_assert_cmpstr(kernel.function->name, ==, step->function);
            g_assert_cmpstr(kernel.function->module->name, ==, step->kernel);
            /* What it goes to is of the next one. */
            g_assert_cmpint(task.where.leaves, ==, leaves);
            symbolizer_target(s, task.process, &task.where, KERNEL, &target);
            g_assert_cmpstr(target.function->name, ==,
                            leaves ? NAME_UNKNOWN : step->function);
            g_assert_true(leaves == (task.era != era_of_kernel(s, &task)));
        }
    }
    g_assert_cmpuint(n, ==, G_N_ELEMENTS(kernel_steps));
    btrail_cursor_close(cursor);
    symbolizer_free(s);
    btrail_trace_close(trace);
}

/* What is at an address at a time: NAME+OFFSET MODULE */
static void check_place(struct symbolizer *s, uint64_t time, uint64_t address,
                        const char *want)
{
    g_autofree char *got = NULL;
    struct place place;

    find_place(s, who(s, time, 0x5000), time, address, &place);
    got = g_strdup_printf("%s+%x %s", place.function->name,
                          place.function->known ? (unsigned)place.offset : 0,
                          place.function->module->name);
    g_assert_cmpstr(got, ==, want);
}

/* Modules come and go, and have the same addresses. */
static void test_times(void)
{
    const uint64_t module = SYMBOL_SAMPLES_MODULE;
    g_autofree char *path = g_build_filename(folder, "t.btrail", NULL);
    g_autofree char *text = g_strdup_printf(
        "%" G_GINT64_MODIFIER "x t stated\n", module + 0x2000);
    g_autofree char *map = write_map(text);
    const struct symbolizer_options mapped = { .map = map };
    const struct symbolizer_options none = { 0 };
    struct symbolizer_where where = { .time = 1500 };
    struct btrail_trace *trace;
    struct place first, again;
    const struct process *p;
    struct stack_edges *edges;
    const struct stack_edge *e;

    symbol_samples_write(path);
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    for (unsigned pass = 0; pass < 2; pass++) {
        const struct btrail_record r = {
            SYMBOL_SAMPLES_KERNEL + 8, module, 0,
        };
        struct symbolizer *s = symbolizer_new(pass ? &mapped : &none, trace,
                                              NULL);

        /* In any order: what was found before does not matter. */
        for (unsigned i = 0; i < 3; i++) {
            check_place(s, 3500, module + 0x10, "tun_get+10 [tun]");
            check_place(s, 1500, module + 0x10, "dummy_xmit+10 [dummy]");
            check_place(s, 2500, module + 0x10, "[unknown]+0 "
                        "[kernel.kallsyms]");
            check_place(s, 999, module + 0x10, "[unknown]+0 "
                        "[kernel.kallsyms]");
            check_place(s, 4001, module + 0x10, "[unknown]+0 "
                        "[kernel.kallsyms]");
            check_place(s, 2500, module - 0x2000, "stay+0 [stays]");
            check_place(s, 0, SYMBOL_SAMPLES_KERNEL + 1,
                        "do_work+1 [kernel.kallsyms]");
        }
        /* After its end nothing is a module's. */
        check_place(s, 1500, module + 0x10f, "dummy_setup+f [dummy]");
        check_place(s, 1500, module + 0x110, "[unknown]+0 [kernel.kallsyms]");
        check_place(s, 3500, module + 0x100, "[unknown]+0 [kernel.kallsyms]");
        /* What a person states holds all the time. */
        for (uint64_t time = 500; time < 5000; time += 1000) {
            check_place(s, time, module + 0x2001, pass ?
                        "stated+1 [kernel.kallsyms]" :
                        "[unknown]+0 [kernel.kallsyms]");
        }
        /* The same function is the same one. */
        p = who(s, 1500, 0x5000);
        find_place(s, p, 1500, module - 0x2000, &first);
        find_place(s, p, 3500, module - 0x2000 + 4, &again);
        g_assert_true(first.function == again.function);
        where.time = 1500;
        g_assert_cmpuint(symbolizer_era(s, &where), !=, 0);
        symbolizer_place_until(s, p, &where, 2000, module, &first);
        g_assert_cmpstr(first.function->name, ==, "dummy_xmit");
        symbolizer_place_until(s, p, &where, 2001, module, &first);
        g_assert_false(first.function->known);
        symbolizer_place_until(s, p, &where, 4000, module - 0x2000, &first);
        g_assert_cmpstr(first.function->name, ==, "stay");
        /* An edge to code that has changed is another one. */
        edges = stack_edges_new(s, 0);
        e = stack_edges_get(edges, p, &where, &r);
        g_assert_cmpstr(e->to_fn->name, ==, "dummy_xmit");
        g_assert_true(stack_edges_get(edges, p, &where, &r) == e);
        where.time = 3500;
        e = stack_edges_get(edges, p, &where, &r);
        g_assert_cmpstr(e->to_fn->name, ==, "tun_get");
        stack_edges_free(edges);
        symbolizer_free(s);
    }
    btrail_trace_close(trace);
}

/* The code of a kernel of 32 bits has names where a process has none. */
static void test_32(void)
{
    static const char symbols[] = "c1000000 T _text\n"
                                  "c1000100 T do_work\n"
                                  "c1000200 e .end\n"
                                  "f7c00000 t load\t[mod]\n";
    const struct btrail_sideband_info info = {
        .kind = BTRAIL_SIDEBAND_SYMBOLS, .size = sizeof(symbols) - 1,
    };
    const struct symbolizer_options none = { 0 };
    g_autofree char *path = g_build_filename(folder, "32.btrail", NULL);
    g_autofree char *map = write_map(
        "cr3 5000 pid=7 prog\n"
        "c1000000-c1000180 r-xp 00000000 00:00 0 /bin/mapped\n");
    const struct symbolizer_options mapped = { .map = map };
    struct btrail_writer *writer;
    struct btrail_trace *trace;
    struct symbolizer *s;
    struct place place;

    g_assert_cmpint(btrail_writer_open(&writer, path, BTRAIL_WRITER_REPLACE),
                    ==, 0);
    g_assert_cmpint(btrail_writer_sideband(writer, &info, symbols), ==, 0);
    g_assert_cmpint(btrail_writer_close(writer), ==, 0);
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    s = symbolizer_new(&none, trace, NULL);
    check_place(s, 10, 0xc1000110, "do_work+10 [kernel.kallsyms]");
    check_place(s, 10, 0xf7c00001, "load+1 [mod]");
    check_place(s, 10, 0xc1000200, "[unknown]+0 [unknown]");
    check_place(s, 10, 0xb1000000, "[unknown]+0 [unknown]");
    check_place(s, 10, 0xffffffffc1000110, "[unknown]+0 [kernel.kallsyms]");
    find_place(s, who(s, 10, 0x5000), 10, 0xc1000110, &place);
    g_assert_true(place.function->module->kernel);
    symbolizer_free(s);

    s = symbolizer_new(&mapped, trace, NULL);
    g_assert_nonnull(s);
    check_place(s, 10, 0xc1000110, "[unknown]+0 mapped");
    check_place(s, 10, 0xc1000190, "do_work+90 [kernel.kallsyms]");
    symbolizer_free(s);
    btrail_trace_close(trace);
}

/* Without any names nothing fails, however many address spaces there are. */
static void test_nothing(void)
{
    const struct symbolizer_options options = { 0 };
    struct symbolizer *s = symbolizer_new(&options, NULL, NULL);
    const struct process *p = NULL;
    struct place place;
    unsigned i;

    for (i = 0; i < 300000; i++) {
        p = who(s, 0, (uint64_t)i << 12);
    }
    g_assert_cmpstr(p->comm, ==, "[others]");
    g_assert_cmpstr(who(s, 0, 0)->comm, ==, "cr3:0x0");
    find_place(s, p, 150, 0x1234, &place);
    g_assert_cmpstr(place.function->name, ==, NAME_UNKNOWN);
    g_assert_cmpstr(place.function->module->name, ==, NAME_UNKNOWN);
    g_assert_cmphex(place.offset, ==, 0x1234);
    find_place(s, p, 150, KERNEL, &place);
    g_assert_cmpstr(place.function->module->name, ==, NAME_KERNEL);
    g_assert_cmpuint(symbolizer_bits(s, p, &nowhere, 5), ==, 64);
    symbolizer_free(s);
    symbolizer_free(NULL);
}

int main(int argc, char **argv)
{
    int ret;

    g_test_init(&argc, &argv, NULL);
    g_assert_cmpint(argc, ==, 2);
    sample = argv[1];
    folder = scratch_new();
    g_test_add_func("/symbolizer/names", test_names);
    g_test_add_func("/symbolizer/times", test_times);
    g_test_add_func("/symbolizer/vmlinux", test_vmlinux);
    g_test_add_func("/symbolizer/other-vmlinux", test_other_vmlinux);
    g_test_add_func("/symbolizer/sideband", test_sideband);
    g_test_add_func("/symbolizer/tasks", test_tasks);
    g_test_add_func("/symbolizer/ended", test_ended);
    g_test_add_func("/symbolizer/named", test_named);
    g_test_add_func("/symbolizer/kernels", test_kernels);
    g_test_add_func("/symbolizer/32", test_32);
    g_test_add_func("/symbolizer/nothing", test_nothing);
    ret = g_test_run();
    scratch_remove(folder);
    return ret;
}
