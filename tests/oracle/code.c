/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * usage: code TRACE <BLOCKS
 *
 * Compare the code bytes of a trace with those that QEMU's log has.  BLOCKS is
 * what derive makes: each block of instructions that was executed, the number
 * of records before it, and its bytes.  The trace must have these bytes, at
 * that record.
 *
 * Between two records a page can change: what was executed before that is then
 * what the trace has for the record before.
 */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backtrail/code.h"

#define LEN_MAX     8192
#define SHOWN       20

struct block {
    uint64_t index;
    uint64_t start;
    uint32_t len;
    uint32_t long_mode;
};

struct label {
    uint64_t index;
    uint64_t cr3;
};

static struct label *labels;
static size_t label_count;

static void add_label(uint64_t index, uint64_t cr3)
{
    labels = realloc(labels, (label_count + 1) * sizeof(*labels));
    if (!labels) {
        abort();
    }
    labels[label_count++] = (struct label) { index, cr3 };
}

static int read_labels(const struct btrail_trace *trace)
{
    struct btrail_cursor *cursor;
    struct btrail_batch b;
    int ret = btrail_cursor_open(&cursor, trace, 0, BTRAIL_CURSOR_EVENTS_ONLY);

    if (ret) {
        return ret;
    }
    while (!(ret = btrail_cursor_next(cursor, &b))) {
        if (!label_count || labels[label_count - 1].cr3 != b.cr3) {
            add_label(label_count ? b.event->index : 0, b.cr3);
        }
    }
    btrail_cursor_close(cursor);
    return ret == -BTRAIL_ERR_END ? 0 : ret;
}

/* Like btrail_code_read(), but over the end of 32-bit addresses, too */
static int get_code(struct btrail_code *code, const struct block *b,
                    uint64_t index, uint64_t cr3, uint8_t *bytes)
{
    uint64_t first = b->len;
    int n, more = 0;

    if (!b->long_mode && b->start + b->len > UINT64_C(1) << 32) {
        first = (UINT64_C(1) << 32) - b->start;
    }
    n = btrail_code_read(code, 0, index, cr3, b->start, bytes, first);
    if (n == (int)first && first < b->len) {
        more = btrail_code_read(code, 0, index, cr3, 0, bytes + first,
                                b->len - first);
    }
    return n < 0 ? n : more < 0 ? more : n + more;
}

int main(int argc, char **argv)
{
    uint64_t blocks = 0, all_bytes = 0, unknown = 0, different = 0, late = 0;
    struct btrail_trace *trace;
    struct btrail_code *code;
    struct block b;
    size_t label = 0;
    int ret;

    if (argc != 2) {
        fprintf(stderr, "usage: code TRACE <BLOCKS\n");
        return 2;
    }
    ret = btrail_trace_open(&trace, argv[1]);
    if (!ret) {
        ret = btrail_code_open(&code, trace);
    }
    if (!ret) {
        ret = read_labels(trace);
    }
    if (ret || !label_count) {
        fprintf(stderr, "%s: %s\n", argv[1], btrail_strerror(ret));
        return 1;
    }
    while (fread(&b, sizeof(b), 1, stdin) == 1) {
        uint8_t want[LEN_MAX], got[LEN_MAX];
        int n;

        if (!b.len || b.len > LEN_MAX || fread(want, b.len, 1, stdin) != 1) {
            fprintf(stderr, "code: the list of blocks is cut off\n");
            return 1;
        }
        while (label + 1 < label_count && labels[label + 1].index <= b.index) {
            label++;
        }
        n = get_code(code, &b, b.index, labels[label].cr3, got);
        if (n < 0) {
            fprintf(stderr, "code: %s\n", btrail_strerror(n));
            return 1;
        }
        blocks++;
        all_bytes += b.len;
        if (n == (int)b.len && !memcmp(got, want, n)) {
            continue;
        }
        if (n == (int)b.len && b.index &&
            get_code(code, &b, b.index - 1, labels[label].cr3, got) == n &&
            !memcmp(got, want, n)) {
            late++;
            continue;
        }
        if (unknown + different < SHOWN) {
            fprintf(stderr, "code: %u bytes at %#" PRIx64 " before record %"
                    PRIu64 " with CR3 %#" PRIx64 ": %s\n", b.len, b.start,
                    b.index, labels[label].cr3,
                    n == (int)b.len ? "different" : "not known");
        }
        unknown += n != (int)b.len;
        different += n == (int)b.len;
    }
    printf("%" PRIu64 " blocks, %" PRIu64 " bytes, %" PRIu64 " not known, %"
           PRIu64 " different, %" PRIu64 " before a change\n", blocks,
           all_bytes, unknown, different, late);
    btrail_code_close(code);
    btrail_trace_close(trace);
    free(labels);
    return unknown || different || !blocks ||
           btrail_code_bad_pieces(code) ? 1 : 0;
}
