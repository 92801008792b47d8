/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The part of a lane that gdb has as its branch trace: see walk-window.h
 */

#include <inttypes.h>
#include <string.h>

#include "gdb/walk-window.h"
#include "symbolize/instruction.h"
#include "util/hash.h"

#define PAGE        4096
/* gdb warns of each piece of code that is not known. */
#define MAX_HOLES   16

/**
 * struct window_piece - instructions that follow each other
 * @spot:   of the first one
 * @number: that gdb has for it
 * @n:      how many; 0 is a hole, which has one number
 */
struct window_piece {
    struct walker_spot spot;
    uint64_t begin;
    uint64_t end;
    unsigned number;
    unsigned n;
};

/* Code that ran; a bit of @known for each byte */
struct window_page {
    uint8_t bytes[PAGE];
    uint8_t known[PAGE / 8];
};

struct walk_window {
    struct symbolizer *symbols;
    GArray *pieces;
    GHashTable *pages;          /* address -> struct window_page */
    GHashTable *blocks;         /* struct known -> itself */
    struct walker_spot end;
    unsigned numbers;
    unsigned holes;
};

/**
 * struct known - a block that has been decoded
 * @until: before this record of the vCPU, its code is the same
 */
struct known {
    uint64_t begin;
    uint64_t from;
    uint64_t to;
    uint64_t space;
    unsigned vcpu;
    uint64_t until;
    uint64_t end;
    unsigned n;
};

static guint hash_of(gconstpointer key)
{
    const struct known *k = key;

    return btrail_hash3(k->begin ^ k->vcpu, k->from ^ k->to, k->space) >> 32;
}

static gboolean same(gconstpointer a, gconstpointer b)
{
    const struct known *x = a, *y = b;

    return x->begin == y->begin && x->from == y->from && x->to == y->to &&
           x->space == y->space && x->vcpu == y->vcpu;
}

static void clear(struct walk_window *w)
{
    g_array_set_size(w->pieces, 0);
    g_hash_table_remove_all(w->pages);
    g_hash_table_remove_all(w->blocks);
    w->numbers = w->holes = 0;
}

static struct walk_window *new_window(struct symbolizer *symbols)
{
    struct walk_window *w = g_new0(struct walk_window, 1);

    w->symbols = symbols;
    w->pieces = g_array_new(FALSE, FALSE, sizeof(struct window_piece));
    w->pages = g_hash_table_new_full(btrail_int64_hash, g_int64_equal, g_free,
                                     g_free);
    w->blocks = g_hash_table_new_full(hash_of, same, g_free, NULL);
    return w;
}

void walk_window_free(struct walk_window *w)
{
    if (w) {
        g_array_unref(w->pieces);
        g_hash_table_unref(w->pages);
        g_hash_table_unref(w->blocks);
        g_free(w);
    }
}

static struct window_page *page_of(struct walk_window *w, uint64_t address)
{
    gint64 key = address / PAGE;
    struct window_page *page = g_hash_table_lookup(w->pages, &key);

    if (!page) {
        page = g_new0(struct window_page, 1);
        g_hash_table_insert(w->pages, g_memdup2(&key, sizeof(key)), page);
    }
    return page;
}

/* Has no other code run there? */
static bool fits(const struct walk_window *w, uint64_t address,
                 const uint8_t *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint8_t byte;

        if (walk_window_read(w, address + i, &byte, 1) && byte != bytes[i]) {
            return false;
        }
    }
    return true;
}

/* Keeps code that ran; false, and nothing, if other code has run there. */
static bool keep(struct walk_window *w, uint64_t address, const uint8_t *bytes,
                 size_t n)
{
    if (!fits(w, address, bytes, n)) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        struct window_page *page = page_of(w, address + i);
        unsigned at = (address + i) % PAGE;

        page->known[at / 8] |= 1 << at % 8;
        page->bytes[at] = bytes[i];
    }
    return true;
}

/* The same of all that a block has run, whose last instruction is at @last */
static bool keep_block(struct walk_window *w, const struct process *process,
                       const struct symbolizer_where *where, uint64_t begin,
                       uint64_t last, unsigned bits)
{
    g_autofree uint8_t *bytes = g_malloc(last - begin + INSTRUCTION_MAX);
    size_t n = block_code(w->symbols, process, where, begin, bytes,
                          last - begin + INSTRUCTION_MAX);
    struct instruction insn;

    if (n <= last - begin) {
        return keep(w, begin, bytes, n);
    }
    instruction_decode(bytes + (last - begin), n - (last - begin), bits, last,
                       &insn);
    return keep(w, begin, bytes, last - begin + insn.length);
}

static void add_piece(struct walk_window *w, const struct lane_record *r,
                      unsigned number, uint64_t begin, uint64_t end, unsigned n)
{
    const struct window_piece piece = {
        .spot = { r->at, number }, .begin = begin, .end = end,
        .number = w->numbers + 1, .n = n,
    };

    w->numbers += MAX(n, 1);
    g_array_append_val(w->pieces, piece);
}

/* gdb cannot decode code of another mode: it gets each instruction. */
static void add_singles(struct walk_window *w, const struct lane_record *r,
                        const struct block *b, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        uint64_t address = block_address(b, i);

        add_piece(w, r, i, address, address, 1);
    }
}

/* Adds instructions [0, @n) of a block. */
static bool add_decoded(struct walk_window *w, const struct lane_record *r,
                        const struct lane_record *next, const struct block *b,
                        unsigned n)
{
    const struct process *process = next ? next->process : r->process;
    const struct symbolizer_where where = block_where(r, next);
    unsigned whole = b->hole && b->hole < n ? b->hole : n;

    if (b->bits != 64) {
        add_singles(w, r, b, n);
    } else {
        add_piece(w, r, 0, block_address(b, 0), block_address(b, whole - 1),
                  whole);
        if (whole < n) {
            add_piece(w, r, whole, block_address(b, whole), 0, 0);
            add_piece(w, r, whole, block_address(b, whole),
                      block_address(b, n - 1), n - whole);
            w->holes++;
        }
    }
    return keep_block(w, process, &where, block_address(b, 0),
                      block_address(b, whole - 1), b->bits) &&
           (whole == n ||
            keep_block(w, process, &where, block_address(b, whole),
                       block_address(b, n - 1), b->bits)) &&
           w->holes <= MAX_HOLES;
}

/* Notes a block that is whole, so that it is not decoded again. */
static void note(struct walk_window *w, const struct known *key,
                 const struct symbolizer_where *where, const struct block *b)
{
    struct known *k = g_memdup2(key, sizeof(*key));

    k->n = b->addresses->len;
    k->end = block_address(b, k->n - 1);
    k->until = symbolizer_code_until(w->symbols, where, k->begin,
                                     k->end - k->begin + INSTRUCTION_MAX);
    g_hash_table_replace(w->blocks, k, k);
}

/*
 * Adds the block between two records; false if it cannot be in one window with
 * those before it.
 */
static bool add_block(struct walk_window *w, const struct lane_record *r,
                      const struct lane_record *next)
{
    const struct symbolizer_where where = block_where(r, next);
    const struct known key = {
        .begin = r->record.to, .from = next->record.from,
        .to = next->record.to, .vcpu = next->vcpu,
        .space = btrail_cr3_root(next->cr3) | (next->cr3 & BTRAIL_CR3_CODE),
    };
    const struct known *known = g_hash_table_lookup(w->blocks, &key);
    struct block b;
    bool ok = true;

    if (next->lost) {
        return false;
    }
    if (known && where.index < known->until) {
        add_piece(w, r, 0, key.begin, known->end, known->n);
        return true;
    }
    b = block_read(w->symbols, r, next);
    if (b.addresses->len && (block_near_call(w->symbols, next) ||
                             block_iret(w->symbols, next))) {
        g_array_set_size(b.addresses, b.addresses->len - 1);
    }
    if (b.addresses->len) {
        ok = add_decoded(w, r, next, &b, b.addresses->len);
        if (!b.hole && b.bits == 64 && block_address(&b, 0) == key.begin) {
            note(w, &key, &where, &b);
        }
    }
    block_clear(&b);
    return ok;
}

/* Adds what has run of the block in which the window ends. */
static bool add_last(struct walk_window *w, const struct lane_record *r,
                     const struct lane_record *next, unsigned number)
{
    struct block b = block_read(w->symbols, r, next);
    unsigned n = MIN(number + 1, b.addresses->len);
    bool ok = !n || add_decoded(w, r, next, &b, n);

    block_clear(&b);
    return ok;
}

/* The last of the instructions that there are is the window's last. */
static bool end_here(struct walk_window *w)
{
    const struct window_piece *last;

    if (!w->pieces->len) {
        return false;
    }
    last = &g_array_index(w->pieces, struct window_piece, w->pieces->len - 1);
    w->end = last->spot;
    w->end.number += MAX(last->n, 1) - 1;
    return true;
}

/* Removes what was added after number @n. */
static void cut(struct walk_window *w, unsigned n)
{
    while (w->pieces->len &&
           g_array_index(w->pieces, struct window_piece,
                         w->pieces->len - 1).number > n) {
        g_array_set_size(w->pieces, w->pieces->len - 1);
    }
    w->numbers = n;
}

/*
 * Is this the jump to a retpoline, whose records follow?  gdb takes its return
 * for one.
 */
static bool is_retpoline(const struct walk_window *w,
                         const struct lane_record *r)
{
    return !r[1].lost && r[0].record.to == r[1].record.from &&
           block_retpoline(w->symbols, &r[1], &r[2]);
}

/* @here is the record of @spot, and @first the first one that is wanted. */
static bool fill(struct walk_window *w, const GArray *records, size_t first,
                 size_t here, const struct walker_spot *spot, size_t after)
{
    const struct lane_record *r = (const struct lane_record *)records->data;
    /* If records are missing right after it, no window continues there. */
    bool stops = !after || (here + 1 < records->len && r[here + 1].lost);
    size_t last = stops ? here : MIN(here + after, records->len - 1);

    for (size_t i = first; i <= last; i++) {
        unsigned before = w->numbers;

        if (i + 2 <= last && is_retpoline(w, &r[i])) {
            i++;
            continue;
        }
        bool open = i == last;
        unsigned number = i == here && stops ? spot->number : 0;
        const struct lane_record *next = i + 1 < records->len ? &r[i + 1] :
                                                                NULL;

        if (open ? add_last(w, &r[i], next, number) :
                   add_block(w, &r[i], next)) {
            continue;
        }
        if (i > here) {
            cut(w, before);
            break;
        }
        clear(w);
        if (open) {
            add_last(w, &r[i], next, number);
        } else if (!next->lost) {
            add_block(w, &r[i], next);
        }
    }
    return end_here(w);
}

struct walk_window *walk_window_new(struct symbolizer *symbols,
                                    struct lane *lane,
                                    const struct walker_spot *spot,
                                    size_t before, size_t after)
{
    struct walk_window *w = new_window(symbols);
    ssize_t here;
    /* The record after it says how its block ends. */
    GArray *records = lane_read(lane, &spot->at, before, after + 1, &here);

    if (here < 0 || !fill(w, records, here - MIN((size_t)here, before), here,
                          spot, after)) {
        walk_window_free(w);
        w = NULL;
    }
    lane_release(lane, records);
    return w;
}

const struct walker_spot *walk_window_begin(const struct walk_window *w)
{
    return &g_array_index(w->pieces, struct window_piece, 0).spot;
}

const struct walker_spot *walk_window_end(const struct walk_window *w)
{
    return &w->end;
}

GString *walk_window_xml(const struct walk_window *w)
{
    GString *xml = g_string_sized_new(64 * (w->pieces->len + 4));

    g_string_append(xml, "<!DOCTYPE btrace SYSTEM \"btrace.dtd\">\n"
                    "<btrace version=\"1.0\">\n");
    /* The newest one comes first. */
    for (unsigned i = w->pieces->len; i--;) {
        const struct window_piece *p = &g_array_index(w->pieces,
                                                      struct window_piece, i);

        g_string_append_printf(xml, "<block begin=\"0x%" PRIx64 "\" end=\"0x%"
                               PRIx64 "\"/>\n", p->begin, p->end);
    }
    g_string_append(xml, "</btrace>\n");
    return xml;
}

bool walk_window_has(const struct walk_window *w,
                     const struct walker_spot *spot)
{
    return !lane_before(&spot->at, &walk_window_begin(w)->at) &&
           (lane_before(&spot->at, &w->end.at) ||
            (!lane_before(&w->end.at, &spot->at) &&
             spot->number <= w->end.number));
}

unsigned walk_window_number(const struct walk_window *w,
                            const struct walker_spot *spot)
{
    unsigned low = 0, high = w->pieces->len;

    while (low < high) {
        unsigned middle = low + (high - low) / 2;
        const struct window_piece *p = &g_array_index(w->pieces,
                                                      struct window_piece,
                                                      middle);

        if (lane_before(&spot->at, &p->spot.at) ||
            (!lane_before(&p->spot.at, &spot->at) &&
             spot->number < p->spot.number)) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    if (low) {
        const struct window_piece *p = &g_array_index(w->pieces,
                                                      struct window_piece,
                                                      low - 1);
        unsigned number = spot->number - p->spot.number;

        if (lane_before(&p->spot.at, &spot->at)) {
            number = p->n;
        }
        return p->number + MIN(number, MAX(p->n, 1) - 1);
    }
    return 1;
}

bool walk_window_spot(const struct walk_window *w, unsigned number,
                      struct walker_spot *spot)
{
    unsigned low = 0, high = w->pieces->len;

    while (low < high) {
        unsigned middle = low + (high - low) / 2;

        if (g_array_index(w->pieces, struct window_piece,
                          middle).number <= number) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (!low || number > w->numbers) {
        return false;
    }
    const struct window_piece *p = &g_array_index(w->pieces,
                                                  struct window_piece, low - 1);

    *spot = p->spot;
    spot->number += MIN(number - p->number, MAX(p->n, 1) - 1);
    return true;
}

size_t walk_window_read(const struct walk_window *w, uint64_t address,
                        void *buf, size_t n)
{
    uint8_t *bytes = buf;
    size_t i;

    for (i = 0; i < n; i++) {
        gint64 key = (address + i) / PAGE;
        unsigned at = (address + i) % PAGE;
        const struct window_page *page = g_hash_table_lookup(w->pages, &key);

        if (!page || !(page->known[at / 8] >> at % 8 & 1)) {
            break;
        }
        bytes[i] = page->bytes[at];
    }
    return i;
}
