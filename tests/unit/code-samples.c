/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Code in traces that tests write: see code-samples.h
 */

#include <glib.h>
#include <glib/gstdio.h>
#include <string.h>

#include "code-samples.h"
#include "lib/agent/code-piece.h"
#include "snapshot-samples.h"

#define NOP 0x90

static void add_page(struct btrail_code_builder *b, uint64_t number,
                     const struct sample_code *code)
{
    uint8_t page[BTRAIL_CODE_PAGE_SIZE];
    const struct btrail_code_entry entry = {
        .vcpu = code->vcpu, .order = number, .index = code->index,
        .cr3 = code->cr3, .linear = code->address, .number = number,
    };

    g_assert_cmpuint(code->n, <=, sizeof(page));
    memset(page, NOP, sizeof(page));
    memcpy(page, code->bytes, code->n);
    btrail_code_builder_content(b, number, page);
    btrail_code_builder_entry(b, &entry);
}

void sample_code(struct btrail_writer *w, const struct sample_code *pages,
                 size_t n)
{
    struct btrail_code_builder *b = btrail_code_builder_new();
    struct btrail_sideband_info info = { .kind = BTRAIL_SIDEBAND_CODE };
    g_autofree uint8_t *data = NULL;
    size_t size;

    for (size_t i = 0; i < n; i++) {
        add_page(b, i + 1, &pages[i]);
    }
    data = btrail_code_builder_take(b, &size);
    info.size = size;
    g_assert_cmpint(btrail_writer_sideband(w, &info, data), ==, 0);
    btrail_code_builder_free(b);
}

void sample_functions(struct btrail_writer *w, uint64_t cr3, unsigned n)
{
    sample_functions_of(w, cr3, n, 1);
}

void sample_functions_of(struct btrail_writer *w, uint64_t cr3, unsigned n,
                         unsigned vcpus)
{
    g_autofree struct sample_code *pages = g_new(struct sample_code, vcpus);
    uint8_t bytes[BTRAIL_CODE_PAGE_SIZE];
    const struct sample_code page = {
        .cr3 = cr3, .address = sample_function(0), .bytes = bytes,
        .n = n * SAMPLE_PITCH,
    };
    g_autoptr(GString) symbols = g_string_new(NULL);
    struct btrail_sideband_info info = {
        .kind = BTRAIL_SIDEBAND_SYMBOLS, .time = 1,
    };

    g_assert_cmpuint(page.n, <=, sizeof(bytes));
    memset(bytes, NOP, sizeof(bytes));
    for (unsigned f = 0; f <= n; f++) {
        g_string_append_printf(symbols, "%" G_GINT64_MODIFIER "x T f%u\n",
                               sample_function(f), f);
        for (unsigned i = 1; f < n && i <= SAMPLE_CALLS; i++) {
            memcpy(bytes + f * SAMPLE_PITCH + 16 * i, "\xff\xd0", 2);
        }
        if (f < n) {
            bytes[f * SAMPLE_PITCH + SAMPLE_RET] = 0xc3;
        }
    }
    info.size = symbols->len;
    g_assert_cmpint(btrail_writer_sideband(w, &info, symbols->str), ==, 0);
    for (unsigned v = 0; v < vcpus; v++) {
        pages[v] = page;
        pages[v].vcpu = v;
    }
    sample_code(w, pages, vcpus);
}

void sample_low_process(struct btrail_writer *w, uint64_t cr3,
                        uint64_t address)
{
    struct btrail_mapping mapping = {
        .start = address, .end = address + BTRAIL_CODE_PAGE_SIZE, .path = "",
        .flags = BTRAIL_MAPPING_READ | BTRAIL_MAPPING_EXEC,
    };
    struct btrail_process process = {
        .pid = 1, .pgd = cr3, .mm = 1, .first = 1, .last = 2, .comm = "low",
        .exe = "", .command_line = "", .n_mappings = 1, .mappings = &mapping,
    };
    const struct btrail_snapshot snapshot = {
        1, 2, BTRAIL_SNAPSHOT_WHOLE, 1, &process,
    };

    sample_snapshot(w, &snapshot);
}

struct symbolizer *sample_symbolizer(const struct btrail_trace *trace,
                                     const char *map)
{
    struct symbolizer_options options = { 0 };
    g_autofree char *path = NULL;
    struct symbolizer *s;
    int fd = g_file_open_tmp("backtrail-XXXXXX", &path, NULL);

    g_assert_true(g_close(fd, NULL));
    g_assert_true(g_file_set_contents(path, map, -1, NULL));
    options.map = path;
    s = symbolizer_new(&options, trace, NULL);
    g_unlink(path);
    g_assert_nonnull(s);
    return s;
}
