/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Marks in the code that is executed now: see marked-code.h
 *
 * Of a page that has a mark the whole content is kept.  A mark can lie on two
 * pages, and only the one with its jump shows it: so what can be an end of a
 * mark is kept of all other pages, too, as long as there is room.
 */

#include <glib.h>
#include <string.h>

#include "drain/marked-code.h"
#include "util/recent.h"

#define MAX_CONTENTS    4096
#define MAX_PAGES       16384
/* Of those without marks */
#define MAX_EDGES       16384
#define MAX_OTHERS      16384

/*
 * Items whose content has not come, and how much older than the newest content
 * one that is still to come can be
 */
#define MAX_AWAITED     1024
#define MAX_LATE        4096

/*
 * Contents of a page that records can have executed which are not drained
 * yet
 */
#define MAX_VERSIONS    6

/* The content of a page with marks, by its number */
struct content {
    struct recent_entry entry;
    uint64_t names;             /* a bit for each wanted one that it has */
    bool before;                /* a mark can begin on the page before */
    bool after;                 /* a mark can end on the page after */
    uint8_t page[MARK_PAGE];
};

/* What any content has of a mark whose jump is elsewhere, by its number */
struct page_edges {
    struct recent_entry entry;
    uint8_t last;
    uint8_t begin[MARK_SIZE_MAX];
};

/* From record @index on.  It holds while the vCPU has lost no code. */
struct page_version {
    uint64_t index;
    uint64_t number;
    uint64_t losses;
};

/* A page of a vCPU, by its address and the address space */
struct marked_page {
    struct recent_entry entry;
    unsigned n;
    struct page_version versions[MAX_VERSIONS];  /* by index */
};

struct awaited {
    unsigned vcpu;
    struct btrail_code_item item;
};

struct marked_code {
    struct marked_offsets offsets;
    const struct mark_wanted *wanted;
    unsigned n;
    unsigned *places;           /* atomic each */
    bool found;                 /* one has its first place */
    struct recent *contents;
    struct recent *edges;
    struct recent *pages;       /* with marks, or beside one with a part */
    struct recent *others;
    GArray *awaited;            /* of struct awaited */
    struct btrail_budget *budget;
    uint64_t kept;              /* bytes and entries that were taken from it */
    uint64_t newest;            /* content that has come */
    uint64_t losses[BTRAIL_MAX_VCPUS];  /* of code */
    uint64_t lost_until[BTRAIL_MAX_VCPUS];
    uint64_t missed;
    bool forgot;                /* atomic */
};

static void count_names(struct marked_code *c, uint64_t names, int more)
{
    for (unsigned i = 0; i < c->n; i++) {
        if (names >> i & 1) {
            c->found |= !__atomic_fetch_add(&c->places[i], more,
                                            __ATOMIC_RELAXED);
        }
    }
}

/* A mark, or its page, is not known any more. */
static void set_forgot(struct marked_code *c)
{
    c->missed++;
    __atomic_store_n(&c->forgot, true, __ATOMIC_RELAXED);
}

/* Takes an entry for a table, or frees it, if there is no room for it. */
static void *keep(struct marked_code *c, struct recent *table, void *entry,
                  size_t size)
{
    if (c->budget && !btrail_budget_keep(c->budget, size)) {
        g_free(entry);
        return NULL;
    }
    c->kept += size + BTRAIL_BUDGET_ENTRY;
    recent_add(table, entry);
    return entry;
}

static void forget(struct marked_code *c, size_t size)
{
    if (c->budget) {
        btrail_budget_drop(c->budget, size);
    }
    c->kept -= size + BTRAIL_BUDGET_ENTRY;
}

static void forget_content(void *opaque, void *entry)
{
    const struct content *content = entry;

    count_names(opaque, content->names, -1);
    set_forgot(opaque);
    forget(opaque, sizeof(*content));
}

static void forget_edges(void *opaque, void *entry)
{
    forget(opaque, sizeof(struct page_edges));
}

static void forget_page(void *opaque, void *entry)
{
    forget(opaque, sizeof(struct marked_page));
}

static void forget_marked_page(void *opaque, void *entry)
{
    set_forgot(opaque);
    forget_page(opaque, entry);
}

struct marked_code *marked_code_new(const struct mark_wanted *wanted,
                                    unsigned n)
{
    struct marked_code *c = g_new0(struct marked_code, 1);

    c->wanted = wanted;
    c->n = n;
    c->places = g_new0(unsigned, n);
    c->contents = recent_new(MAX_CONTENTS, forget_content, c);
    c->edges = recent_new(MAX_EDGES, forget_edges, c);
    c->pages = recent_new(MAX_PAGES, forget_marked_page, c);
    c->others = recent_new(MAX_OTHERS, forget_page, c);
    c->awaited = g_array_new(FALSE, FALSE, sizeof(struct awaited));
    return c;
}

void marked_code_free(struct marked_code *c)
{
    if (c) {
        recent_free(c->contents);
        recent_free(c->edges);
        recent_free(c->pages);
        recent_free(c->others);
        g_array_unref(c->awaited);
        if (c->budget) {
            btrail_budget_give(c->budget, c->kept);
            btrail_budget_unref(c->budget);
        }
        g_free(c->places);
        g_free(c);
    }
}

void marked_code_set_budget(struct marked_code *c,
                            struct btrail_budget *budget)
{
    c->budget = budget ? btrail_budget_ref(budget) : NULL;
}

unsigned marked_code_places(const struct marked_code *c, unsigned i)
{
    return __atomic_load_n(&c->places[i], __ATOMIC_RELAXED);
}

const struct marked_offsets *marked_code_offsets(const struct marked_code *c)
{
    return &c->offsets;
}

uint64_t marked_code_missed(const struct marked_code *c)
{
    return c->missed;
}

bool marked_code_forgot(const struct marked_code *c)
{
    return __atomic_load_n(&c->forgot, __ATOMIC_RELAXED);
}

bool marked_code_lost(struct marked_code *c, unsigned vcpu, uint64_t index)
{
    bool lost = index < c->lost_until[vcpu];

    c->missed += lost;
    return lost;
}

bool marked_code_lacks(const struct marked_code *c)
{
    return c->awaited->len;
}

/* A bit for each of the wanted ones that have this name */
static uint64_t names_of(const struct marked_code *c, const struct mark *mark)
{
    uint64_t names = 0;

    for (unsigned i = 0; i < c->n; i++) {
        names |= (uint64_t)mark_wanted_has_name(&c->wanted[i], mark->name) << i;
    }
    return names;
}

/*
 * Contents
 */

struct scan {
    struct marked_code *code;
    struct content content;
};

static void take_mark(void *opaque, uint64_t from, uint64_t to,
                      const struct mark *mark)
{
    struct scan *s = opaque;
    uint64_t names = mark ? names_of(s->code, mark) : 0;
    unsigned bit = to % MARK_PAGE;

    if (mark && !names) {
        return;
    }
    s->content.names |= names;
    s->content.before |= !mark && from >= MARK_PAGE;
    s->content.after |= !mark && from < MARK_PAGE;
    s->code->offsets.bits[bit / 64] |= UINT64_C(1) << bit % 64;
}

static void add_edges(struct marked_code *c, uint64_t number,
                      const uint8_t *page)
{
    struct page_edges *edges = g_new(struct page_edges, 1);

    edges->entry.key[0] = number;
    edges->entry.key[1] = 0;
    edges->last = page[MARK_PAGE - 1];
    memcpy(edges->begin, page, sizeof(edges->begin));
    keep(c, c->edges, edges, sizeof(*edges));
}

static void add_content(struct marked_code *c, uint64_t number,
                        const uint8_t *page)
{
    struct scan s = { .code = c };

    if (recent_find(c->contents, number, 0) ||
        recent_find(c->edges, number, 0)) {
        /* A sound producer does not send one twice. */
        return;
    }
    c->newest = MAX(c->newest, number);
    mark_scan(page, take_mark, &s);
    if (s.content.names || s.content.before || s.content.after) {
        s.content.entry.key[0] = number;
        memcpy(s.content.page, page, MARK_PAGE);
        if (keep(c, c->contents, g_memdup2(&s.content, sizeof(s.content)),
                 sizeof(s.content))) {
            count_names(c, s.content.names, 1);
        } else {
            set_forgot(c);
        }
    } else {
        add_edges(c, number, page);
    }
}

/*
 * Has a content come, as far as one can know?  One that came long ago and has
 * no marks may be forgotten.
 */
static bool has_come(struct marked_code *c, uint64_t number)
{
    return (c->newest > MAX_LATE && number <= c->newest - MAX_LATE) ||
           recent_find(c->contents, number, 0) ||
           recent_find(c->edges, number, 0);
}

/* Reads bytes of a content, which must be known. */
static bool read_content(struct marked_code *c, uint64_t number, unsigned at,
                         uint8_t *buf, unsigned n)
{
    const struct content *content = recent_find(c->contents, number, 0);
    const struct page_edges *edges;

    if (content) {
        memcpy(buf, content->page + at, n);
        return true;
    }
    edges = recent_find(c->edges, number, 0);
    if (edges && !at && n <= sizeof(edges->begin)) {
        memcpy(buf, edges->begin, n);
        return true;
    }
    if (edges && at == MARK_PAGE - 1 && n == 1) {
        *buf = edges->last;
        return true;
    }
    return false;
}

/*
 * Pages
 */

static uint64_t page_key(unsigned vcpu, uint64_t address)
{
    G_STATIC_ASSERT(BTRAIL_MAX_VCPUS <= MARK_PAGE);
    return (address & ~(uint64_t)(MARK_PAGE - 1)) | vcpu;
}

static uint64_t space_of(uint64_t cr3, uint64_t address)
{
    return address >> 63 ? 0 : btrail_cr3_root(cr3);
}

/* NULL if there is no room for it */
static struct marked_page *new_page(struct marked_code *c, struct recent *table,
                                    uint64_t key, uint64_t space)
{
    struct marked_page *p = g_new0(struct marked_page, 1);

    p->entry.key[0] = key;
    p->entry.key[1] = space;
    return keep(c, table, p, sizeof(*p));
}

/* A page that is remembered though others may be forgotten */
static struct marked_page *keep_page(struct marked_code *c, uint64_t key,
                                     uint64_t space)
{
    struct marked_page *p = recent_find(c->pages, key, space);

    if (!p) {
        p = recent_take(c->others, key, space);
        if (!p) {
            p = new_page(c, c->pages, key, space);
            if (!p) {
                set_forgot(c);
            }
            return p;
        }
        recent_add(c->pages, p);
    }
    return p;
}

static struct marked_page *find_page(struct marked_code *c, uint64_t key,
                                     uint64_t space)
{
    struct marked_page *p = recent_find(c->pages, key, space);

    return p ? p : recent_find(c->others, key, space);
}

static void add_version(struct marked_page *p, const struct page_version *v)
{
    unsigned at = p->n;

    while (at && p->versions[at - 1].index > v->index) {
        at--;
    }
    /* The producer may say the same again. */
    if (at && p->versions[at - 1].number == v->number &&
        p->versions[at - 1].losses == v->losses) {
        return;
    }
    if (p->n == MAX_VERSIONS) {
        if (!at) {
            return;
        }
        memmove(p->versions, p->versions + 1,
                --p->n * sizeof(*p->versions));
        at--;
    }
    memmove(p->versions + at + 1, p->versions + at,
            (p->n++ - at) * sizeof(*p->versions));
    p->versions[at] = *v;
}

/* Remembers the page, if its content has marks, and those beside it. */
static void keep_pages(struct marked_code *c, unsigned vcpu,
                       const struct btrail_code_item *item)
{
    const struct content *content = recent_find(c->contents, item->number, 0);
    uint64_t space = space_of(item->cr3, item->linear);
    uint64_t key = page_key(vcpu, item->linear);

    if (!content) {
        return;
    }
    if (content->before) {
        keep_page(c, key - MARK_PAGE, space);
    }
    if (content->after) {
        keep_page(c, key + MARK_PAGE, space);
    }
    keep_page(c, key, space);
}

static void add_page(struct marked_code *c, unsigned vcpu,
                     const struct btrail_code_item *item)
{
    const struct page_version v = { item->index, item->number,
    c->losses[vcpu] };
    uint64_t space = space_of(item->cr3, item->linear);
    uint64_t key = page_key(vcpu, item->linear);
    struct marked_page *p;

    keep_pages(c, vcpu, item);
    p = find_page(c, key, space);
    p = p ? p : new_page(c, c->others, key, space);
    if (p) {
        add_version(p, &v);
    }
}

static void await(struct marked_code *c, unsigned vcpu,
                  const struct btrail_code_item *item)
{
    const struct awaited new = { vcpu, *item };

    if (c->awaited->len == MAX_AWAITED) {
        g_array_remove_index(c->awaited, 0);
        set_forgot(c);
    }
    g_array_append_val(c->awaited, new);
}

/* Remembers the awaited pages whose content has come. */
static void keep_awaited(struct marked_code *c)
{
    guint left = 0;

    for (guint i = 0; i < c->awaited->len; i++) {
        const struct awaited a = g_array_index(c->awaited, struct awaited, i);

        if (has_come(c, a.item.number)) {
            keep_pages(c, a.vcpu, &a.item);
        } else {
            g_array_index(c->awaited, struct awaited, left++) = a;
        }
    }
    g_array_set_size(c->awaited, left);
}

bool marked_code_item(struct marked_code *c, unsigned vcpu,
                      const struct btrail_code_item *item,
                      const uint8_t *page)
{
    c->found = false;
    switch (item->type) {
    case BTRAIL_CODE_BYTES:
        add_content(c, item->number, page);
        if (c->awaited->len) {
            keep_awaited(c);
        }
        break;
    case BTRAIL_CODE_PAGE:
        add_page(c, vcpu, item);
        if (!has_come(c, item->number)) {
            await(c, vcpu, item);
        }
        break;
    case BTRAIL_CODE_LOST:
        c->losses[vcpu]++;
        c->lost_until[vcpu] = MAX(c->lost_until[vcpu], item->index);
        break;
    default:
        break;
    }
    return c->found;
}

/*
 * The content that a page had before a record; 0 if it is not known.  What it
 * had before that is not needed any more.
 */
static uint64_t content_at(struct marked_code *c, unsigned vcpu,
                           uint64_t space, uint64_t address, uint64_t index)
{
    struct marked_page *p = find_page(c, page_key(vcpu, address), space);
    unsigned n = p ? p->n : 0;

    while (n && p->versions[n - 1].index > index) {
        n--;
    }
    return n && p->versions[n - 1].losses == c->losses[vcpu] ?
           p->versions[n - 1].number : 0;
}

/* Reads the code of a mark on a page, or on two. */
static bool read_code(struct marked_code *c, unsigned vcpu, uint64_t index,
                      uint64_t space, uint64_t address, uint8_t *buf,
                      unsigned size)
{
    unsigned at = address % MARK_PAGE, first = MIN(size, MARK_PAGE - at);
    uint64_t next = address + first;
    uint64_t number = content_at(c, vcpu, space, address, index);

    if (!number || !read_content(c, number, at, buf, first)) {
        /* What was executed there is not known, and it has, or had, marks. */
        c->missed += !number &&
                     recent_find(c->pages, page_key(vcpu, address), space);
        return false;
    }
    if (first == size) {
        return true;
    }
    /* The second page is known once it runs, which is after this. */
    number = content_at(c, vcpu, space, next, index);
    if (!number) {
        number = content_at(c, vcpu, space, next, index + 1);
    }
    if (!number || !read_content(c, number, 0, buf + first, size - first)) {
        c->missed++;
        return false;
    }
    return true;
}

/* A mark on two pages is counted with the one that shows it. */
static void count_found(struct marked_code *c, unsigned vcpu, uint64_t index,
                        uint64_t space, const struct mark *mark,
                        uint64_t names)
{
    uint64_t shown = (mark->from + 1) % MARK_PAGE ? mark->from : mark->from + 1;
    struct content *content =
        recent_find(c->contents,
                    content_at(c, vcpu, space, shown, index), 0);

    if (content) {
        count_names(c, names & ~content->names, 1);
        content->names |= names;
    }
}

bool marked_code_find(struct marked_code *c, unsigned vcpu, uint64_t index,
                      uint64_t cr3, uint64_t from, uint64_t to,
                      struct mark *mark)
{
    uint64_t space = space_of(cr3, from), names;
    uint8_t bytes[MARK_SIZE_MAX];

    if (!mark_fits(from, to) ||
        !read_code(c, vcpu, index, space, from, bytes, to - from) ||
        !mark_decode(bytes, to - from, from, mark) || mark->to != to) {
        return false;
    }
    names = names_of(c, mark);
    if (names && (from ^ (to - 1)) & ~(uint64_t)(MARK_PAGE - 1)) {
        count_found(c, vcpu, index, space, mark, names);
    }
    return names;
}
