/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * usage: make-hostile FILE META OFFSET NAME...
 *
 * Writes a trace in which each NAME is that of a process, of its program and
 * its threads, of a task, of a mapped file, of a function of the kernel and of
 * a module.  META is its description.  Symbols of a trace are UTF-8, and their
 * names have no blanks and line ends; these and, also in names of files, slashes
 * become '_'.  One process more has mapped the file /sample, of which it
 * executes what is at OFFSET.
 *
 * vCPU 0 names its tasks; the processes of vCPU 1 are known by snapshots only.
 */

#include <glib.h>
#include <stdlib.h>
#include <string.h>

#include "backtrail/trace.h"
#include "snapshot-samples.h"

#define PATH_START      UINT64_C(0x400000)
#define SAMPLE_START    UINT64_C(0x10000)
#define KERNEL_START    UINT64_C(0xffffffff81000000)
#define MODULE_START    UINT64_C(0xffffffffc0000000)

#define CR3_OF(i)       (UINT64_C(0x100000) * ((i) + 1))

/* Text in the form of /proc/kallsyms */
static void write_symbols(struct btrail_writer *w, char **names, unsigned n)
{
    struct btrail_sideband_info info = { .kind = BTRAIL_SIDEBAND_SYMBOLS };
    g_autoptr(GString) text = g_string_new(NULL);

    for (unsigned i = 0; i < 2 * n; i++) {
        g_autofree char *name = g_utf8_make_valid(names[i / 2], -1);

        g_strdelimit(name, " \t\n/", '_');
        if (i % 2) {
            g_string_append_printf(text, "%" G_GINT64_MODIFIER "x t %s\t"
                                   "[%s]\n", MODULE_START + 0x100 * (i / 2),
                                   name, name);
        } else {
            g_string_append_printf(text, "%" G_GINT64_MODIFIER "x T %s\n",
                                   KERNEL_START + 0x100 * (i / 2), name);
        }
    }
    info.size = text->len;
    g_assert_cmpint(btrail_writer_sideband(w, &info, text->str), ==, 0);
}

static void write_processes(struct btrail_writer *w, char **names, unsigned n,
                            uint64_t offset)
{
    g_autofree struct btrail_process *p = g_new0(struct btrail_process, n + 1);
    g_autofree struct btrail_mapping *m = g_new0(struct btrail_mapping, n + 1);
    g_autofree struct btrail_thread *t = g_new0(struct btrail_thread,
                                                2 * (n + 1));
    g_autoptr(GPtrArray) paths = g_ptr_array_new_with_free_func(g_free);
    const struct btrail_snapshot snapshot = {
        .begin = 1000, .end = 1u << 30, .flags = BTRAIL_SNAPSHOT_WHOLE,
        .n = n + 1, .processes = p,
    };

    for (unsigned i = 0; i <= n; i++) {
        const char *name = i < n ? names[i] : "sample";
        /* No file has it. */
        static const uint8_t build_id[20] = { 0xab, 0xcd, 1 };
        char *path = g_strconcat("/", name, NULL);

        g_strdelimit(path + 1, "/", '_');
        g_ptr_array_add(paths, path);
        m[i] = (struct btrail_mapping) {
            .start = i < n ? PATH_START : SAMPLE_START,
            .end = (i < n ? PATH_START : SAMPLE_START) + 0x1000,
            .offset = i < n ? 0 : offset & ~UINT64_C(0xfff),
            .flags = BTRAIL_MAPPING_READ | BTRAIL_MAPPING_EXEC |
                     BTRAIL_MAPPING_FILE,
            .path = path, .build_id = build_id,
            .build_id_size = i < n ? sizeof(build_id) : 0,
        };
        t[2 * i] = (struct btrail_thread) { 100 + i, -1, i + 1, name };
        t[2 * i + 1] = (struct btrail_thread) { 1000 + i, -1, i + 1, name };
        p[i] = (struct btrail_process) {
            .pgd = CR3_OF(i), .mm = i + 1, .start_time = i + 1, .first = 1000,
            .last = 1u << 30, .pid = 100 + i, .comm = name, .exe = path,
            .command_line = "", .n_threads = 2, .n_mappings = 1,
            .threads = &t[2 * i], .mappings = &m[i],
        };
    }
    sample_snapshot(w, &snapshot);
}

/* A process calls functions of its own, of the kernel and of a module. */
static void write_records(struct btrail_writer *w, unsigned vcpu, char **names,
                          unsigned n, uint64_t offset)
{
    for (unsigned i = 0; i <= n; i++) {
        uint64_t kernel = KERNEL_START + 0x100 * i;
        uint64_t module = MODULE_START + 0x100 * i;
        uint64_t code = SAMPLE_START + (offset & 0xfff);
        const struct btrail_record hostile[] = {
            { PATH_START + 0x10, PATH_START + 0x100, 0 },
            { PATH_START + 0x110, kernel, 0 },
            { kernel + 0x10, module, 0 }, { module + 0x10, kernel + 0x15, 0 },
            { kernel + 0x20, PATH_START + 0x115, 0 },
            { PATH_START + 0x120, PATH_START + 0x15, 0 },
        };
        const struct btrail_record sample[] = {
            { SAMPLE_START, code, 0 }, { code, code, 0 }, { code, code, 0 },
        };
        struct btrail_slab slab = {
            .first_index = i * G_N_ELEMENTS(hostile), .cr3 = CR3_OF(i),
            .records = i < n ? hostile : sample,
            .n_records = i < n ? G_N_ELEMENTS(hostile) : G_N_ELEMENTS(sample),
        };
        struct btrail_event events[3] = {
            { slab.first_index, BTRAIL_EVENT_TIME, 0, 0,
              { 10000000 + i * 1000000, 0, BTRAIL_NO_ICOUNT } },
        };

        slab.events = events;
        slab.n_events = 1;
        if (!vcpu) {
            struct btrail_event *task = &events[slab.n_events++];

            *task = (struct btrail_event) {
                slab.first_index, BTRAIL_EVENT_TASK, 0, 0,
                { (UINT64_C(100) + i) << 32 | (1000 + i) },
            };
            if (i < n) {
                memcpy(&task->data[1], names[i],
                       MIN(strlen(names[i]), BTRAIL_TASK_NAME - 1));
            }
        }
        if (i == n) {
            events[slab.n_events++] = (struct btrail_event) {
                slab.first_index + slab.n_records, BTRAIL_EVENT_END,
                BTRAIL_END_STOPPED, 0, { 10000000 + i * 1000000 },
            };
        }
        g_assert_cmpint(btrail_writer_append(w, vcpu, &slab), ==, 0);
    }
}

int main(int argc, char **argv)
{
    const struct btrail_writer_options options = { BTRAIL_WRITER_REPLACE };
    uint64_t offset = argc > 3 ? strtoull(argv[3], NULL, 16) : 0;
    struct btrail_writer *w;

    if (argc < 5) {
        return 2;
    }
    g_assert_cmpint(btrail_writer_open_with(&w, argv[1], &options), ==, 0);
    g_assert_cmpint(btrail_writer_meta(w, argv[2], strlen(argv[2])), ==, 0);
    write_symbols(w, argv + 4, argc - 4);
    write_processes(w, argv + 4, argc - 4, offset);
    for (unsigned vcpu = 0; vcpu < 2; vcpu++) {
        write_records(w, vcpu, argv + 4, argc - 4, offset);
    }
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    return 0;
}
