/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Code of a guest that runs: see code-store.h
 */

#include <glib.h>
#include <string.h>

#include "pt/code-store.h"
#include "util/hash.h"

#define MEMORY      ((size_t)128 << 20)
/* Contents of a page that are kept: what is older is not asked for. */
#define VERSIONS    4u
/* What a page takes beside the bytes of its versions, and the least there is
 * room for */
#define ENTRY       (sizeof(struct store_page) + 64)
#define LEAST       (ENTRY + (VERSIONS + 1) * (size_t)CODE_STORE_PAGE)

/* Seen first before @first, and last after @last: seen once, @last is first. */
struct store_version {
    uint64_t first;
    uint64_t last;
    enum code_store_kind kind;
    uint8_t *bytes;
};

struct store_page {
    uint64_t key[2];                /* address space, address */
    struct store_version versions[VERSIONS];    /* the oldest first */
    unsigned n;
    bool dropped;                   /* one was older */
    struct store_page *older, *newer;   /* by the time of the last version */
};

struct code_store {
    GHashTable *pages;
    struct store_page *oldest, *newest;
    size_t memory;
    size_t used;
    struct code_store_count count;
};

struct code_store *code_store_new(size_t memory)
{
    struct code_store *s = g_new0(struct code_store, 1);

    s->pages = g_hash_table_new(btrail_pair_hash, btrail_pair_equal);
    s->memory = MAX(memory ? memory : MEMORY, LEAST);
    return s;
}

static void drop_version(struct code_store *s, struct store_version *v)
{
    if (v->bytes) {
        s->used -= CODE_STORE_PAGE;
        g_free(v->bytes);
    }
}

static void unlink_page(struct code_store *s, struct store_page *p)
{
    *(p->older ? &p->older->newer : &s->oldest) = p->newer;
    *(p->newer ? &p->newer->older : &s->newest) = p->older;
}

static void link_page(struct code_store *s, struct store_page *p)
{
    p->older = s->newest;
    p->newer = NULL;
    *(s->newest ? &s->newest->newer : &s->oldest) = p;
    s->newest = p;
}

static void drop_page(struct code_store *s, struct store_page *p)
{
    for (unsigned i = 0; i < p->n; i++) {
        drop_version(s, &p->versions[i]);
    }
    unlink_page(s, p);
    g_hash_table_remove(s->pages, p->key);
    s->used -= ENTRY;
    s->count.pages--;
    g_free(p);
}

void code_store_free(struct code_store *s)
{
    if (s) {
        while (s->oldest) {
            drop_page(s, s->oldest);
        }
        g_hash_table_unref(s->pages);
        g_free(s);
    }
}

static struct store_page *page_at(const struct code_store *s, uint64_t space,
                                  uint64_t page)
{
    const uint64_t key[2] = { space, page };

    return g_hash_table_lookup(s->pages, key);
}

/* The page, as the newest of all */
static struct store_page *touch(struct code_store *s, uint64_t space,
                                uint64_t page)
{
    struct store_page *p = page_at(s, space, page);

    if (p) {
        unlink_page(s, p);
    } else {
        p = g_new0(struct store_page, 1);
        p->key[0] = space;
        p->key[1] = page;
        g_hash_table_add(s->pages, p->key);
        s->used += ENTRY;
        s->count.pages++;
    }
    link_page(s, p);
    return p;
}

static bool is_same(const struct store_version *v, enum code_store_kind kind,
                    const uint8_t *bytes)
{
    return v->kind == kind && (kind != CODE_STORE_BYTES ||
                               !memcmp(v->bytes, bytes, CODE_STORE_PAGE));
}

bool code_store_put(struct code_store *s, uint64_t space, uint64_t page,
                    enum code_store_kind kind, const uint8_t *bytes,
                    uint64_t begin, uint64_t end)
{
    struct store_page *p = touch(s, space, page);
    struct store_version *v = p->n ? &p->versions[p->n - 1] : NULL;
    bool changed = v != NULL;

    if (v && is_same(v, kind, bytes)) {
        v->last = begin;
        return false;
    }
    if (p->n == VERSIONS) {
        drop_version(s, p->versions);
        memmove(p->versions, p->versions + 1,
                --p->n * sizeof(p->versions[0]));
        p->dropped = true;
    }
    v = &p->versions[p->n++];
    *v = (struct store_version){ .first = end, .last = begin, .kind = kind };
    if (kind == CODE_STORE_BYTES) {
        v->bytes = g_memdup2(bytes, CODE_STORE_PAGE);
        s->used += CODE_STORE_PAGE;
    }
    s->count.changes += changed;
    /* There is room for this one. */
    while (s->used > s->memory) {
        drop_page(s, s->oldest);
        s->count.evicted++;
    }
    return changed;
}

bool code_store_last(const struct code_store *s, uint64_t space, uint64_t page,
                     uint64_t *time)
{
    const struct store_page *p = page_at(s, space, page);

    if (p) {
        *time = p->versions[p->n - 1].last;
    }
    return p;
}

/* Versions from the last one that was seen up to @from, to the first that was
 * seen from @until on; those that there are */
static void choose(const struct store_page *p, uint64_t from, uint64_t until,
                   unsigned *begin, unsigned *end)
{
    *begin = 0;
    while (*begin + 1 < p->n && p->versions[*begin + 1].first <= from) {
        ++*begin;
    }
    *end = *begin;
    while (*end < p->n && p->versions[*end].last < until) {
        ++*end;
    }
    *end = MIN(*end + 1, p->n);
}

enum code_store_result code_store_find(const struct code_store *s,
                                       uint64_t space, uint64_t page,
                                       uint64_t from, uint64_t until,
                                       struct code_store_answer *answer)
{
    const struct store_page *p = page_at(s, space, page);
    const struct store_version *before = NULL, *after = NULL;
    unsigned begin, end;
    bool whole;

    memset(answer, 0, sizeof(*answer));
    if (!p) {
        return CODE_STORE_UNKNOWN;
    }
    choose(p, from, until, &begin, &end);
    whole = p->versions[begin].first <= from &&
            p->versions[end - 1].last >= until;
    if (p->dropped && p->versions[begin].first > from) {
        /* It was something else, which is not kept. */
        return CODE_STORE_CHANGED;
    }
    for (unsigned i = begin; i < end; i++) {
        const struct store_version *v = &p->versions[i];

        switch (v->kind) {
        case CODE_STORE_WRITTEN:
            *answer = (struct code_store_answer){ 0 };
            return CODE_STORE_CHANGED;
        case CODE_STORE_NONE:
            whole = false;
            break;
        case CODE_STORE_BYTES:
            if (before && is_same(before, CODE_STORE_BYTES, v->bytes)) {
                answer->last = after ? answer->last : v->last;
                answer->seen[1] = v->last;
            } else if (!before) {
                before = v;
                answer->bytes[0] = v->bytes;
                answer->last = answer->seen[1] = v->last;
                answer->seen[0] = v->first;
            } else if (!after) {
                after = v;
                answer->bytes[1] = v->bytes;
                answer->first = v->first;
            } else if (!is_same(after, CODE_STORE_BYTES, v->bytes)) {
                *answer = (struct code_store_answer){ 0 };
                return CODE_STORE_CHANGED;
            }
            break;
        }
    }
    answer->newest = before && !after &&
                     is_same(&p->versions[p->n - 1], CODE_STORE_BYTES,
                             before->bytes);
    return after ? CODE_STORE_CHANGED : !before ? CODE_STORE_UNKNOWN :
           whole ? CODE_STORE_SURE : CODE_STORE_SEEN;
}

uint64_t code_store_apart(const struct code_store *s, uint64_t space,
                          uint64_t page, const uint8_t *bytes, uint64_t from,
                          uint64_t until, uint64_t begin, uint64_t end)
{
    const struct store_page *p = page_at(s, space, page);
    uint64_t least = UINT64_MAX;
    bool was_there = false;

    for (unsigned i = 0; p && i < p->n; i++) {
        const struct store_version *v = &p->versions[i];

        /* Seen once, it has its first time after its last. */
        if (MAX(v->first, v->last) < begin || v->last > end) {
            continue;
        }
        if (v->kind == CODE_STORE_BYTES ?
            !is_same(v, CODE_STORE_BYTES, bytes) :
            v->kind == CODE_STORE_NONE && was_there) {
            least = MIN(least, v->last < from ? from - v->last :
                               v->first > until ? v->first - until : 0);
        }
        was_there |= v->kind == CODE_STORE_BYTES;
    }
    return least;
}

const struct code_store_count *code_store_counted(const struct code_store *s)
{
    return &s->count;
}
