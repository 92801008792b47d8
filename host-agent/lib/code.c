/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Code bytes: see backtrail/code.h and code-piece.h
 */

#include <limits.h>
#include <stdlib.h>

#include "lib/agent/code-piece.h"
#include "lib/agent/sideband.h"
#include "lib/agent/trace-files.h"
#include "util/search.h"

#define PAGE            BTRAIL_CODE_PAGE_SIZE

/*
 * Contents that are remembered in order not to write them again: 20 MiB.  When
 * there are more, all are forgotten, and some are written twice.
 */
#define MAX_REMEMBERED  (1u << 18)

/* More entries and contents than this are too many to read: 512 MiB */
#define MAX_ENTRIES     (1u << 23)
#define MAX_CONTENTS    (1u << 22)

/* Pieces that are kept decompressed */
#define CACHED          8

/* A content, known by a part of its SHA-256 */
struct remembered {
    uint8_t sum[16];
    uint64_t number;
};

struct btrail_code_builder {
    struct btrail_buf entries;
    struct btrail_buf same;
    struct btrail_buf numbers;
    struct btrail_buf pages;
    GHashTable *remembered;     /* of struct remembered */
};

static guint hash_sum(gconstpointer p)
{
    return btrail_get32(((const struct remembered *)p)->sum);
}

static gboolean equal_sum(gconstpointer a, gconstpointer b)
{
    const struct remembered *x = a, *y = b;

    return !memcmp(x->sum, y->sum, sizeof(x->sum));
}

struct btrail_code_builder *btrail_code_builder_new(void)
{
    struct btrail_code_builder *b = g_new0(struct btrail_code_builder, 1);

    b->remembered = g_hash_table_new_full(hash_sum, equal_sum, g_free, NULL);
    return b;
}

void btrail_code_builder_free(struct btrail_code_builder *b)
{
    if (b) {
        btrail_buf_free(&b->entries);
        btrail_buf_free(&b->same);
        btrail_buf_free(&b->numbers);
        btrail_buf_free(&b->pages);
        g_hash_table_destroy(b->remembered);
        g_free(b);
    }
}

void btrail_code_builder_entry(struct btrail_code_builder *b,
                               const struct btrail_code_entry *e)
{
    uint8_t bytes[BTRAIL_CODE_ENTRY];

    btrail_put32(bytes, e->vcpu);
    btrail_put32(bytes + 4, e->order);
    btrail_put64(bytes + 8, e->index);
    btrail_put64(bytes + 16, e->cr3);
    btrail_put64(bytes + 24, e->linear);
    btrail_put64(bytes + 32, e->physical);
    btrail_put64(bytes + 40, e->number);
    btrail_buf_append(&b->entries, bytes, sizeof(bytes));
}

static void append_number(struct btrail_buf *buf, uint64_t number)
{
    uint8_t bytes[8];

    btrail_put64(bytes, number);
    btrail_buf_append(buf, bytes, sizeof(bytes));
}

void btrail_code_builder_content(struct btrail_code_builder *b,
                                 uint64_t number, const uint8_t *page)
{
    g_autoptr(GChecksum) checksum = g_checksum_new(G_CHECKSUM_SHA256);
    struct remembered key = { .number = number };
    const struct remembered *known;
    uint8_t digest[32];
    gsize len = sizeof(digest);

    g_checksum_update(checksum, page, PAGE);
    g_checksum_get_digest(checksum, digest, &len);
    memcpy(key.sum, digest, sizeof(key.sum));
    known = g_hash_table_lookup(b->remembered, &key);
    if (known) {
        append_number(&b->same, number);
        append_number(&b->same, known->number);
        return;
    }
    if (g_hash_table_size(b->remembered) >= MAX_REMEMBERED) {
        g_hash_table_remove_all(b->remembered);
    }
    g_hash_table_add(b->remembered, g_memdup2(&key, sizeof(key)));
    append_number(&b->numbers, number);
    btrail_buf_append(&b->pages, page, PAGE);
}

size_t btrail_code_builder_size(const struct btrail_code_builder *b)
{
    size_t len = b->entries.len + b->same.len + b->numbers.len + b->pages.len;

    return len ? BTRAIL_CODE_HEADER + len : 0;
}

uint8_t *btrail_code_builder_take(struct btrail_code_builder *b, size_t *size)
{
    struct btrail_buf *const parts[] = {
        &b->entries, &b->same, &b->numbers, &b->pages,
    };
    struct btrail_buf out = { 0 };
    uint8_t header[BTRAIL_CODE_HEADER] = { 0 };
    unsigned i;

    btrail_buf_reserve(&out, BTRAIL_CODE_HEADER +
                       btrail_code_builder_size(b));
    btrail_put32(header, b->entries.len / BTRAIL_CODE_ENTRY);
    btrail_put32(header + 4, b->same.len / BTRAIL_CODE_SAME);
    btrail_put32(header + 8, b->numbers.len / 8);
    btrail_buf_append(&out, header, sizeof(header));
    for (i = 0; i < G_N_ELEMENTS(parts); i++) {
        btrail_buf_append(&out, parts[i]->data, parts[i]->len);
        parts[i]->len = 0;
    }
    *size = out.len;
    return out.data;
}

bool btrail_code_piece_get(const uint8_t *bytes, size_t size,
                           struct btrail_code_piece *piece)
{
    if (size < BTRAIL_CODE_HEADER) {
        return false;
    }
    *piece = (struct btrail_code_piece) {
        .entries = btrail_get32(bytes),
        .same = btrail_get32(bytes + 4),
        .contents = btrail_get32(bytes + 8),
        .bytes = bytes,
    };
    /* None of these can overflow. */
    return size == BTRAIL_CODE_HEADER +
                   (uint64_t)piece->entries * BTRAIL_CODE_ENTRY +
                   (uint64_t)piece->same * BTRAIL_CODE_SAME +
                   (uint64_t)piece->contents * BTRAIL_CODE_CONTENT;
}

static const uint8_t *piece_same(const struct btrail_code_piece *piece)
{
    return piece->bytes + BTRAIL_CODE_HEADER +
           (size_t)piece->entries * BTRAIL_CODE_ENTRY;
}

static const uint8_t *piece_numbers(const struct btrail_code_piece *piece)
{
    return piece_same(piece) + (size_t)piece->same * BTRAIL_CODE_SAME;
}

void btrail_code_piece_entry(const struct btrail_code_piece *piece,
                             uint32_t i, struct btrail_code_entry *entry)
{
    const uint8_t *p = piece->bytes + BTRAIL_CODE_HEADER +
                       (size_t)i * BTRAIL_CODE_ENTRY;

    *entry = (struct btrail_code_entry) {
        .vcpu = btrail_get32(p),
        .order = btrail_get32(p + 4),
        .index = btrail_get64(p + 8),
        .cr3 = btrail_get64(p + 16),
        .linear = btrail_get64(p + 24),
        .physical = btrail_get64(p + 32),
        .number = btrail_get64(p + 40),
    };
}

void btrail_code_piece_same(const struct btrail_code_piece *piece, uint32_t i,
                            uint64_t *number, uint64_t *other)
{
    const uint8_t *p = piece_same(piece) + (size_t)i * BTRAIL_CODE_SAME;

    *number = btrail_get64(p);
    *other = btrail_get64(p + 8);
}

const uint8_t *btrail_code_piece_content(const struct btrail_code_piece *piece,
                                         uint32_t i, uint64_t *number)
{
    const uint8_t *numbers = piece_numbers(piece);

    if (number) {
        *number = btrail_get64(numbers + (size_t)i * 8);
    }
    return numbers + (size_t)piece->contents * 8 + (size_t)i * PAGE;
}

/*
 * The content that a page has from a record on, in the order of a search.  A
 * vCPU can report the same one again.
 */
struct known_page {
    uint32_t vcpu;
    uint32_t order;
    uint64_t space;             /* 0 for addresses that all share */
    uint64_t linear;
    uint64_t index;
    uint64_t number;
    uint64_t until;             /* the next record with another content */
};

/* From @from up to @to nothing is known of a vCPU; then all comes again. */
struct loss {
    uint32_t vcpu;
    uint32_t order;
    uint64_t from;
    uint64_t to;
};

/* A page of a vCPU has, or can have, another content from a record on. */
struct change {
    uint64_t index;
    uint32_t vcpu;
};

/* Where a content is; or, if @piece is SAME, which other one is equal */
#define SAME    UINT32_MAX
struct page_place {
    uint64_t number;
    uint64_t other;
    uint32_t piece;
    uint32_t at;
};

struct cached {
    unsigned piece;
    void *data;                 /* NULL if there is none */
    struct btrail_code_piece parsed;
    uint64_t used;
};

struct btrail_code {
    const struct btrail_trace *trace;
    GArray *pages;
    GArray *losses;
    GArray *places;
    GArray *changes;
    uint64_t bad;
    uint64_t charged;           /* bytes taken from the trace's budget */
    struct cached cache[CACHED];
    uint64_t uses;
};

static gint compare_pages(gconstpointer a, gconstpointer b)
{
    const struct known_page *x = a, *y = b;

    return BTRAIL_COMPARE(x->vcpu, y->vcpu) ?:
           BTRAIL_COMPARE(x->space, y->space) ?:
           BTRAIL_COMPARE(x->linear, y->linear) ?:
           BTRAIL_COMPARE(x->index, y->index) ?:
           BTRAIL_COMPARE(x->order, y->order) ?:
           BTRAIL_COMPARE(x->number, y->number);
}

static gint compare_losses(gconstpointer a, gconstpointer b)
{
    const struct loss *x = a, *y = b;

    return BTRAIL_COMPARE(x->vcpu, y->vcpu) ?:
           BTRAIL_COMPARE(x->to, y->to) ?:
           BTRAIL_COMPARE(x->order, y->order) ?:
           BTRAIL_COMPARE(x->from, y->from);
}

static gint compare_places(gconstpointer a, gconstpointer b)
{
    const struct page_place *x = a, *y = b;

    return BTRAIL_COMPARE(x->number, y->number) ?:
           BTRAIL_COMPARE(x->piece, y->piece) ?:
           BTRAIL_COMPARE(x->at, y->at);
}

static gint compare_changes(gconstpointer a, gconstpointer b)
{
    const struct change *x = a, *y = b;

    return BTRAIL_COMPARE(x->vcpu, y->vcpu) ?:
           BTRAIL_COMPARE(x->index, y->index);
}

static uint64_t space_of(uint64_t linear, uint64_t cr3)
{
    return linear >> 63 ? 0 : btrail_cr3_root(cr3);
}

static int add_piece(struct btrail_code *c, unsigned n,
                     const struct btrail_code_piece *piece)
{
    uint64_t memory = piece->entries *
        (sizeof(struct known_page) + 2 * sizeof(struct change)) +
        ((uint64_t)piece->same + piece->contents) * sizeof(struct page_place);
    uint32_t i;

    if (piece->entries > MAX_ENTRIES - c->pages->len - c->losses->len ||
        piece->same > MAX_CONTENTS - c->places->len ||
        piece->contents > MAX_CONTENTS - c->places->len - piece->same ||
        !btrail_budget_take(btrail_trace_budget(c->trace), memory)) {
        return -BTRAIL_ERR_MEMORY;
    }
    c->charged += memory;
    for (i = 0; i < piece->entries; i++) {
        struct btrail_code_entry e;

        btrail_code_piece_entry(piece, i, &e);
        if (e.number) {
            struct known_page page = {
                e.vcpu, e.order, space_of(e.linear, e.cr3),
                e.linear & -(uint64_t)PAGE, e.index, e.number, UINT64_MAX,
            };

            g_array_append_val(c->pages, page);
        } else {
            struct loss loss = { e.vcpu, e.order, e.linear, e.index };

            g_array_append_val(c->losses, loss);
        }
    }
    for (i = 0; i < piece->same; i++) {
        struct page_place place = { .piece = SAME, .at = i };

        btrail_code_piece_same(piece, i, &place.number, &place.other);
        g_array_append_val(c->places, place);
    }
    for (i = 0; i < piece->contents; i++) {
        struct page_place place = { .piece = n, .at = i };

        btrail_code_piece_content(piece, i, &place.number);
        g_array_append_val(c->places, place);
    }
    return 0;
}

/* Errors: CORRUPT, IO, MEMORY. */
static int read_piece(const struct btrail_code *c, unsigned n, void **data,
                      struct btrail_code_piece *piece)
{
    struct btrail_sideband_info info;
    int ret = btrail_trace_sideband(c->trace, n, &info, data);

    if (!ret && !btrail_code_piece_get(*data, info.size, piece)) {
        free(*data);
        ret = -BTRAIL_ERR_CORRUPT;
    }
    return ret;
}

static int read_pieces(struct btrail_code *c)
{
    struct btrail_sideband_info info;
    unsigned i;

    for (i = 0; !btrail_trace_sideband(c->trace, i, &info, NULL); i++) {
        struct btrail_code_piece piece;
        void *data;
        int ret;

        if (info.kind != BTRAIL_SIDEBAND_CODE) {
            continue;
        }
        ret = read_piece(c, i, &data, &piece);
        if (!ret) {
            ret = add_piece(c, i, &piece);
            free(data);
        }
        if (ret == -BTRAIL_ERR_CORRUPT) {
            c->bad++;
            btrail_trace_sideband_damaged(c->trace, i);
        } else if (ret) {
            return ret;
        }
    }
    return 0;
}

/* How many elements of a sorted array are not above @key */
static unsigned up_to(const GArray *array, size_t size, const void *key,
                      GCompareFunc compare)
{
    unsigned low = 0, high = array->len;

    while (low < high) {
        unsigned middle = low + (high - low) / 2;

        if (compare(array->data + middle * size, key) <= 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static const struct page_place *find_place(const struct btrail_code *c,
                                           uint64_t number)
{
    /* The last one that is there, or else the first that refers to others */
    const struct page_place key = { number, 0, SAME - 1, UINT32_MAX };
    unsigned n = up_to(c->places, sizeof(key), &key, compare_places);
    const struct page_place *p = (struct page_place *)c->places->data + n;

    if (n && p[-1].number == number) {
        return &p[-1];
    }
    return n < c->places->len && p->number == number ? p : NULL;
}

/* The number that all pages with the same bytes have */
static uint64_t content_of(const struct btrail_code *c, uint64_t number)
{
    const struct page_place *place = find_place(c, number);

    return place && place->piece == SAME ? place->other : number;
}

static bool same_page(const struct known_page *a, const struct known_page *b)
{
    return a->vcpu == b->vcpu && a->space == b->space &&
           a->linear == b->linear;
}

static void add_change(struct btrail_code *c, unsigned vcpu, uint64_t index)
{
    const struct change change = { index, vcpu };

    g_array_append_val(c->changes, change);
}

/* Was a page reported before a loss of its vCPU had ended? */
static bool before_loss(const struct known_page *p, const struct loss *l)
{
    return p->index < l->to || (p->index == l->to && p->order < l->order);
}

/* Was it reported before one that has ended by record @index? */
static bool lost_by(const struct btrail_code *c, const struct known_page *p,
                    uint64_t index)
{
    const struct loss key = { p->vcpu, UINT32_MAX, UINT64_MAX, index };
    unsigned n = up_to(c->losses, sizeof(key), &key, compare_losses);
    const struct loss *l = &g_array_index(c->losses, struct loss, n);

    return n && l[-1].vcpu == p->vcpu && before_loss(p, &l[-1]);
}

static void find_changes(struct btrail_code *c)
{
    struct known_page *pages = (struct known_page *)c->pages->data;

    for (unsigned i = c->pages->len; i-- > 1;) {
        const struct known_page *p = &pages[i];

        if (!same_page(p - 1, p)) {
            continue;
        }
        if (content_of(c, p[-1].number) != content_of(c, p->number)) {
            pages[i - 1].until = p->index;
            add_change(c, p->vcpu, p->index);
        } else {
            pages[i - 1].until = p->until;
            if (lost_by(c, p - 1, p->index)) {
                add_change(c, p->vcpu, p->index);
            }
        }
    }
    for (unsigned i = 0; i < c->losses->len; i++) {
        const struct loss *l = &g_array_index(c->losses, struct loss, i);

        add_change(c, l->vcpu, l->from);
        add_change(c, l->vcpu, l->to);
    }
    g_array_sort(c->changes, compare_changes);
}

static GArray *new_array(size_t element)
{
    /* Never NULL: even adding 0 to that is undefined. */
    return g_array_sized_new(FALSE, FALSE, element, 1);
}

int btrail_code_open(struct btrail_code **code,
                     const struct btrail_trace *trace)
{
    struct btrail_code *c;
    int ret;

    if (!code || !trace) {
        return -BTRAIL_ERR_ARGUMENT;
    }
    c = g_new0(struct btrail_code, 1);
    c->trace = trace;
    c->pages = new_array(sizeof(struct known_page));
    c->losses = new_array(sizeof(struct loss));
    c->places = new_array(sizeof(struct page_place));
    c->changes = new_array(sizeof(struct change));
    ret = read_pieces(c);
    if (ret) {
        btrail_code_close(c);
        return ret;
    }
    g_array_sort(c->pages, compare_pages);
    g_array_sort(c->losses, compare_losses);
    g_array_sort(c->places, compare_places);
    find_changes(c);
    *code = c;
    return 0;
}

void btrail_code_close(struct btrail_code *c)
{
    unsigned i;

    if (c) {
        for (i = 0; i < CACHED; i++) {
            free(c->cache[i].data);
        }
        g_array_free(c->pages, TRUE);
        g_array_free(c->losses, TRUE);
        g_array_free(c->places, TRUE);
        g_array_free(c->changes, TRUE);
        btrail_budget_give(btrail_trace_budget(c->trace), c->charged);
        g_free(c);
    }
}

uint64_t btrail_code_bad_pieces(const struct btrail_code *c)
{
    return c ? c->bad : 0;
}

/* The last loss before which nothing holds; false if all is unknown there. */
static bool find_loss(const struct btrail_code *c, unsigned vcpu,
                      uint64_t index, const struct loss **last)
{
    const struct loss key = { vcpu, UINT32_MAX, UINT64_MAX, index };
    unsigned n = up_to(c->losses, sizeof(key), &key, compare_losses);
    const struct loss *l = &g_array_index(c->losses, struct loss, n);

    *last = n && l[-1].vcpu == vcpu ? &l[-1] : NULL;
    return n == c->losses->len || l->vcpu != vcpu || l->from > index;
}

/*
 * The content that a page has at a record, NULL if it is not known; @next gets
 * the first one that it has later, or NULL
 */
static const struct known_page *find_known(const struct btrail_code *c,
                                           unsigned vcpu, uint64_t index,
                                           uint64_t cr3, uint64_t linear,
                                           const struct known_page **next)
{
    const struct known_page key = {
        vcpu, UINT32_MAX, space_of(linear, cr3), linear, index, UINT64_MAX,
    };
    unsigned n = up_to(c->pages, sizeof(key), &key, compare_pages);
    const struct known_page *t = (struct known_page *)c->pages->data + n;
    const struct loss *loss;

    *next = n < c->pages->len && same_page(t, &key) ? t : NULL;
    if (!n || !same_page(--t, &key) || !find_loss(c, vcpu, index, &loss)) {
        return NULL;
    }
    return loss && before_loss(t, loss) ? NULL : t;
}

/* The number of a page's content, 0 if it is not known */
static uint64_t find_number(const struct btrail_code *c, unsigned vcpu,
                            uint64_t index, uint64_t cr3, uint64_t linear)
{
    const struct known_page *next;
    const struct known_page *t = find_known(c, vcpu, index, cr3, linear,
                                            &next);

    return t ? t->number : 0;
}

int btrail_code_page(const struct btrail_code *c, size_t n,
                     struct btrail_code_page *page)
{
    const struct known_page *known;

    if (!c || !page) {
        return -BTRAIL_ERR_ARGUMENT;
    }
    if (n >= c->pages->len) {
        return -BTRAIL_ERR_END;
    }
    known = &g_array_index(c->pages, struct known_page, n);
    *page = (struct btrail_code_page) {
        .address = known->linear, .cr3 = known->space, .index = known->index,
        .content = content_of(c, known->number), .vcpu = known->vcpu,
    };
    return 0;
}

/* The piece, from the cache.  Errors: CORRUPT, IO, MEMORY. */
static int load_piece(struct btrail_code *c, unsigned n,
                      const struct btrail_code_piece **piece)
{
    struct cached *oldest = &c->cache[0];
    unsigned i;
    int ret;

    for (i = 0; i < CACHED; i++) {
        struct cached *e = &c->cache[i];

        if (e->data && e->piece == n) {
            e->used = ++c->uses;
            *piece = &e->parsed;
            return 0;
        }
        if (e->used < oldest->used) {
            oldest = e;
        }
    }
    free(oldest->data);
    oldest->data = NULL;
    oldest->used = 0;
    ret = read_piece(c, n, &oldest->data, &oldest->parsed);
    if (ret) {
        oldest->data = NULL;
        return ret;
    }
    oldest->piece = n;
    oldest->used = ++c->uses;
    *piece = &oldest->parsed;
    return 0;
}

/* NULL if the content is not there.  Errors: CORRUPT, IO, MEMORY. */
static int find_page(struct btrail_code *c, uint64_t number,
                     const uint8_t **page)
{
    const struct page_place *p = find_place(c, number);
    const struct btrail_code_piece *piece;
    int ret;

    *page = NULL;
    if (p && p->piece == SAME) {
        p = find_place(c, p->other);
    }
    if (!p || p->piece == SAME) {
        return 0;
    }
    ret = load_piece(c, p->piece, &piece);
    if (!ret && p->at >= piece->contents) {
        /* It has changed since. */
        ret = -BTRAIL_ERR_CORRUPT;
    }
    if (!ret) {
        *page = btrail_code_piece_content(piece, p->at, NULL);
    }
    return ret;
}

int btrail_code_read(struct btrail_code *c, unsigned vcpu, uint64_t index,
                     uint64_t cr3, uint64_t address, void *buf, size_t size)
{
    size_t done = 0;

    if (!c || (size && !buf) || size > INT_MAX) {
        return -BTRAIL_ERR_ARGUMENT;
    }
    while (done < size) {
        uint64_t at = address + done;
        size_t offset = at % PAGE, n = MIN(PAGE - offset, size - done);
        uint64_t number = find_number(c, vcpu, index, cr3, at - offset);
        const uint8_t *page = NULL;
        int ret = number ? find_page(c, number, &page) : 0;

        if (ret) {
            return ret;
        }
        if (!page) {
            break;
        }
        memcpy((uint8_t *)buf + done, page + offset, n);
        done += n;
    }
    return done;
}

uint64_t btrail_code_until(const struct btrail_code *c, unsigned vcpu,
                           uint64_t index, uint64_t cr3, uint64_t address,
                           size_t size)
{
    const struct loss lost = { vcpu, UINT32_MAX, UINT64_MAX, index };
    const struct loss *l;
    uint64_t until = UINT64_MAX;
    unsigned n;

    for (size_t i = 0; i < (size + address % PAGE + PAGE - 1) / PAGE; i++) {
        const struct known_page *next;
        const struct known_page *t =
            find_known(c, vcpu, index, cr3,
                       address - address % PAGE + i * PAGE, &next);

        until = MIN(until, t ? t->until : next ? next->index : UINT64_MAX);
    }
    n = up_to(c->losses, sizeof(lost), &lost, compare_losses);
    l = &g_array_index(c->losses, struct loss, n);
    if (n < c->losses->len && l->vcpu == vcpu) {
        until = MIN(until, l->from > index ? l->from : l->to);
    }
    return until;
}

uint64_t btrail_code_content(const struct btrail_code *c, unsigned vcpu,
                             uint64_t index, uint64_t cr3, uint64_t address)
{
    return content_of(c, find_number(c, vcpu, index, cr3,
                                     address - address % PAGE));
}

struct btrail_code_stretch
btrail_code_stretch(const struct btrail_code *c, unsigned vcpu, uint64_t index)
{
    const struct change key = { index, vcpu };
    unsigned n = up_to(c->changes, sizeof(key), &key, compare_changes);
    const struct change *next = &g_array_index(c->changes, struct change, n);

    return (struct btrail_code_stretch) {
        .number = 1 + n + vcpu,
        .begin = n && next[-1].vcpu == vcpu ? next[-1].index : 0,
        .end = n < c->changes->len && next->vcpu == vcpu ? next->index :
               UINT64_MAX,
    };
}
