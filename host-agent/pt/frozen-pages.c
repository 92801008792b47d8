/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Pages of code that were executed: see frozen-pages.h
 */

#include <glib.h>

#include "lib/agent/code-piece.h"
#include "pt/frozen-pages.h"
#include "util/hash.h"

#define PAGE            BTRAIL_CODE_PAGE_SIZE

/* A piece of this size is written. */
#define PIECE_SIZE      (1u << 20)

/* Code without a branch is not longer. */
#define STRAIGHT        16

/* An instruction is not longer. */
#define INSTRUCTION     15

/* Pages that were looked up last */
#define RECENT          1024

struct frozen_pages {
    struct output *output;
    GMutex lock;                /* of all that follows */
    struct btrail_code_builder *builder;
    uint64_t number;            /* of contents so far */
    bool more;
};

struct key {
    uint64_t space;
    uint64_t page;
};

/* The value of a page: it was read, and it is written or cannot be */
enum {
    READ = 1,
    DONE,
};

struct frozen_pages_vcpu {
    struct frozen_pages *all;
    unsigned vcpu;
    pt_code_fn *code;
    void *opaque;
    GHashTable *pages;          /* of struct key */
    struct key recent[RECENT];  /* that are DONE; a page is never 1 */
    uint64_t from;              /* records before it do not count */
    uint32_t order;
};

struct frozen_pages *frozen_pages_new(struct output *output)
{
    struct frozen_pages *p = g_new0(struct frozen_pages, 1);

    p->output = output;
    p->builder = btrail_code_builder_new();
    g_mutex_init(&p->lock);
    return p;
}

void frozen_pages_flush(struct frozen_pages *p)
{
    g_mutex_lock(&p->lock);
    output_code(p->output, p->builder);
    g_mutex_unlock(&p->lock);
}

void frozen_pages_free(struct frozen_pages *p)
{
    if (p) {
        btrail_code_builder_free(p->builder);
        g_mutex_clear(&p->lock);
        g_free(p);
    }
}

uint64_t frozen_pages_written(const struct frozen_pages *p)
{
    return p->number;
}

bool frozen_pages_more(const struct frozen_pages *p)
{
    return p->more;
}

static guint key_hash(gconstpointer k)
{
    const struct key *key = k;

    return btrail_hash2(key->space, key->page) >> 32;
}

static gboolean key_equal(gconstpointer a, gconstpointer b)
{
    const struct key *x = a, *y = b;

    return x->space == y->space && x->page == y->page;
}

struct frozen_pages_vcpu *
frozen_pages_vcpu_new(struct frozen_pages *p, unsigned vcpu, pt_code_fn *code,
                      void *opaque)
{
    struct frozen_pages_vcpu *v = g_new0(struct frozen_pages_vcpu, 1);

    v->all = p;
    v->vcpu = vcpu;
    v->code = code;
    v->opaque = opaque;
    v->pages = g_hash_table_new_full(key_hash, key_equal, g_free, NULL);
    for (unsigned i = 0; i < RECENT; i++) {
        v->recent[i].page = 1;
    }
    return v;
}

void frozen_pages_vcpu_free(struct frozen_pages_vcpu *v)
{
    if (v) {
        g_hash_table_destroy(v->pages);
        g_free(v);
    }
}

static struct key key_of(uint64_t cr3, uint64_t page)
{
    return (struct key){ page >> 63 ? 0 : cr3, page };
}

static unsigned state_of(const struct frozen_pages_vcpu *v,
                         const struct key *key)
{
    return GPOINTER_TO_UINT(g_hash_table_lookup(v->pages, key));
}

static void set_state(struct frozen_pages_vcpu *v, const struct key *key,
                      unsigned state)
{
    if (g_hash_table_size(v->pages) < FROZEN_PAGES_MAX || state_of(v, key)) {
        g_hash_table_insert(v->pages, g_memdup2(key, sizeof(*key)),
                            GUINT_TO_POINTER(state));
    }
}

void frozen_pages_read(struct frozen_pages_vcpu *v, uint64_t cr3,
                       uint64_t address)
{
    const struct key key = key_of(cr3, address & -(uint64_t)PAGE);

    if (!state_of(v, &key)) {
        set_state(v, &key, READ);
    }
}

static void write_page(struct frozen_pages_vcpu *v, uint64_t label,
                       uint64_t cr3, uint64_t index, uint64_t page)
{
    /* It was executed, so it is known: what matters is its bytes. */
    const struct pt_moment moment = { .tsc = UINT64_MAX, .records = index };
    struct btrail_code_entry entry = {
        .vcpu = v->vcpu, .order = v->order, .index = index, .cr3 = label,
        .linear = page, .physical = UINT64_MAX,
    };
    struct frozen_pages *p = v->all;
    struct pt_code code;

    if (v->code(v->opaque, cr3, page, &moment, &code) != PT_CODE_READ ||
        code.size < PAGE) {
        return;
    }
    g_mutex_lock(&p->lock);
    if (p->number < FROZEN_PAGES_MAX) {
        entry.number = ++p->number;
        v->order++;
        btrail_code_builder_entry(p->builder, &entry);
        btrail_code_builder_content(p->builder, entry.number, code.bytes);
        if (btrail_code_builder_size(p->builder) >= PIECE_SIZE) {
            output_code(p->output, p->builder);
        }
    } else {
        p->more = true;
    }
    g_mutex_unlock(&p->lock);
}

static struct key *recent_of(struct frozen_pages_vcpu *v, const struct key *key)
{
    return &v->recent[(key->page / PAGE ^ key->space / PAGE) % RECENT];
}

void frozen_pages_change(struct frozen_pages_vcpu *v, uint64_t cr3,
                         uint64_t address, uint64_t index)
{
    const struct key key = key_of(cr3, address & -(uint64_t)PAGE);
    struct key *recent = recent_of(v, &key);

    g_hash_table_remove(v->pages, &key);
    if (key_equal(recent, &key)) {
        recent->page = 1;
    }
    v->from = MAX(v->from, index);
}

static void execute(struct frozen_pages_vcpu *v, uint64_t label, uint64_t cr3,
                    uint64_t index, uint64_t page)
{
    const struct key key = key_of(cr3, page);
    struct key *recent = recent_of(v, &key);

    if (key_equal(recent, &key)) {
        return;
    }
    if (state_of(v, &key) != DONE) {
        set_state(v, &key, DONE);
        write_page(v, label, cr3, index, page);
    }
    *recent = key;
}

void frozen_pages_execute(struct frozen_pages_vcpu *v, uint64_t label,
                          uint64_t cr3, uint64_t index, uint64_t to,
                          uint64_t from)
{
    uint64_t page = to & -(uint64_t)PAGE, last = from & -(uint64_t)PAGE;

    if (index < v->from) {
        return;
    }
    if (last < page || last - page > STRAIGHT * PAGE) {
        /* Nothing leads from there to here. */
        page = last;
    }
    for (; page != last; page += PAGE) {
        execute(v, label, cr3, index, page);
    }
    execute(v, label, cr3, index, last);
    if (from - last > PAGE - INSTRUCTION) {
        const struct key next = key_of(cr3, last + PAGE);

        /* The branch itself goes on there, if that was read for it. */
        if (state_of(v, &next) == READ) {
            execute(v, label, cr3, index, next.page);
        }
    }
}
