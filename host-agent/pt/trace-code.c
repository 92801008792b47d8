/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Code from a trace: see trace-code.h
 */

#include <glib.h>

#include "lib/agent/code-piece.h"
#include "pt/trace-code.h"
#include "util/recent.h"

#define PAGE        BTRAIL_CODE_PAGE_SIZE
#define PAGES       4096

/* What a page has from an index of the trace on, and until another */
struct trace_code_page {
    struct recent_entry entry;      /* key: address space, address */
    uint64_t from, until;
    int size;                       /* 0: not known */
    uint8_t bytes[PAGE];
};

struct trace_code {
    struct btrail_code *code;
    unsigned vcpu;
    trace_code_index_fn *index;
    void *opaque;
    struct recent *pages;
};

struct trace_code *trace_code_new(struct btrail_code *code, unsigned vcpu,
                                  trace_code_index_fn *index, void *opaque)
{
    struct trace_code *t = g_new0(struct trace_code, 1);

    *t = (struct trace_code){
        .code = code, .vcpu = vcpu, .index = index, .opaque = opaque,
        .pages = recent_new(PAGES, NULL, NULL),
    };
    return t;
}

void trace_code_free(struct trace_code *t)
{
    if (t) {
        recent_free(t->pages);
        g_free(t);
    }
}

static struct trace_code_page *page_at(struct trace_code *t, uint64_t cr3,
                                       uint64_t page, uint64_t index)
{
    uint64_t space = page >> 63 ? 0 : cr3;
    struct trace_code_page *k = recent_find(t->pages, space, page);

    if (k && index >= k->from && index < k->until) {
        return k;
    }
    if (!k) {
        k = g_new(struct trace_code_page, 1);
        k->entry.key[0] = space;
        k->entry.key[1] = page;
        recent_add(t->pages, k);
    }
    k->from = index;
    k->until = btrail_code_until(t->code, t->vcpu, index, cr3, page, PAGE);
    k->size = btrail_code_read(t->code, t->vcpu, index, cr3, page, k->bytes,
                               PAGE);
    if (k->until <= index) {
        /* It cannot be said for how long it holds. */
        k->until = index + 1;
    }
    return k;
}

enum pt_code_result trace_code_read(void *opaque, uint64_t cr3,
                                    uint64_t address,
                                    const struct pt_moment *moment,
                                    struct pt_code *code)
{
    struct trace_code *t = opaque;
    uint64_t index = t->index(t->opaque, moment);
    unsigned offset = address % PAGE;
    const struct trace_code_page *k = page_at(t, cr3, address - offset, index);

    if (k->size <= (int)offset) {
        return PT_CODE_UNREADABLE;
    }
    *code = (struct pt_code){
        .bytes = k->bytes + offset, .size = k->size - offset,
        .tsc = UINT64_MAX,
        .records = k->until == UINT64_MAX ? UINT64_MAX :
                   moment->records + (k->until - index),
    };
    return PT_CODE_READ;
}
