/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How the guest's kernel is entered: see entries.h
 */

#include <glib.h>
#include <stdlib.h>
#include <string.h>

#include "guest-linux/entries.h"
#include "util/entry-names.h"
#include "util/hash.h"
#include "util/kallsyms-line.h"
#include "util/search.h"

/* How many pages and contents are remembered; contents are 16 MiB */
#define MAX_PAGES       65536
#define MAX_CONTENTS    4096

/* An entry, up to the next symbol or an end line */
struct entry_range {
    uint64_t start;
    uint64_t end;
    uint64_t pseudo;
};

struct entry_page {
    /* The key */
    uint64_t linear;
    uint64_t root;

    uint64_t number;
};

struct page_content {
    uint64_t number;
    uint8_t bytes[BTRAIL_CODE_PAGE_SIZE];
};

struct entries {
    GMutex lock;
    GArray *ranges;             /* of entry_range, sorted; under the lock */

    /* What follows belongs to the thread that adds code. */
    GHashTable *pages;          /* of struct entry_page */
    GHashTable *contents;       /* of struct page_content, by number */
    GQueue order;               /* of the same, the oldest first */
};

struct entries *entries_new(void)
{
    struct entries *e = g_new0(struct entries, 1);

    g_mutex_init(&e->lock);
    e->ranges = g_array_new(FALSE, FALSE, sizeof(struct entry_range));
    e->pages = g_hash_table_new_full(btrail_pair_hash, btrail_pair_equal,
                                     g_free, NULL);
    e->contents = g_hash_table_new(btrail_int64_hash, g_int64_equal);
    g_queue_init(&e->order);
    return e;
}

void entries_free(struct entries *e)
{
    if (e) {
        g_mutex_clear(&e->lock);
        g_array_unref(e->ranges);
        g_hash_table_destroy(e->pages);
        g_hash_table_destroy(e->contents);
        g_queue_clear_full(&e->order, g_free);
        g_free(e);
    }
}

static int compare_ranges(gconstpointer p, gconstpointer q)
{
    const struct entry_range *a = p, *b = q;

    /* Of symbols with one address, entries come first. */
    return a->start < b->start ? -1 : a->start > b->start ? 1 :
           a->pseudo < b->pseudo ? 1 : a->pseudo > b->pseudo ? -1 : 0;
}

void entries_symbols(struct entries *e, const char *text,
                     size_t size)
{
    GArray *all = g_array_new(FALSE, FALSE, sizeof(struct entry_range));
    GArray *ranges = g_array_new(FALSE, FALSE, sizeof(struct entry_range));
    const char *end = text + size;
    struct btrail_kallsyms_line line;
    struct entry_range *sorted;
    bool own = false;
    GArray *old;
    guint i, k;

    while (btrail_kallsyms_next(&text, end, &line)) {
        struct entry_range range = { .start = line.address };

        own |= !line.module;
        if (btrail_kallsyms_is_end(&line)) {
            g_array_append_val(all, range);
        } else if (strchr("tTwW", line.type) && !line.module) {
            range.pseudo = entry_kind(line.name, line.name_size);
            g_array_append_val(all, range);
        }
    }
    g_array_sort(all, compare_ranges);
    sorted = (struct entry_range *)all->data;
    for (i = 0; i < all->len; i = k) {
        struct entry_range *range = &sorted[i];

        for (k = i + 1; k < all->len && sorted[k].start == range->start; k++) {
            continue;
        }
        range->end = k < all->len ? sorted[k].start : UINT64_MAX;
        if (range->pseudo) {
            g_array_append_vals(ranges, range, 1);
        }
    }
    g_array_unref(all);
    if (!own) {
        /* These are of modules only; the kernel is the same. */
        g_array_unref(ranges);
        return;
    }
    g_mutex_lock(&e->lock);
    old = e->ranges;
    e->ranges = ranges;
    g_mutex_unlock(&e->lock);
    g_array_unref(old);
}

static void forget_oldest(struct entries *e)
{
    struct page_content *content = g_queue_pop_head(&e->order);

    g_hash_table_remove(e->contents, &content->number);
    g_free(content);
}

void entries_code(struct entries *e,
                  const struct btrail_code_item *item,
                  const uint8_t *page)
{
    if (item->type == BTRAIL_CODE_BYTES) {
        struct page_content *content;

        if (g_hash_table_contains(e->contents, &item->number)) {
            return;
        }
        if (e->order.length == MAX_CONTENTS) {
            forget_oldest(e);
        }
        content = g_new(struct page_content, 1);
        content->number = item->number;
        memcpy(content->bytes, page, sizeof(content->bytes));
        g_hash_table_insert(e->contents, &content->number, content);
        g_queue_push_tail(&e->order, content);
    } else if (item->type == BTRAIL_CODE_PAGE && !(item->linear >> 63)) {
        struct entry_page *p = g_new(struct entry_page, 1);

        *p = (struct entry_page) {
            item->linear, btrail_cr3_root(item->cr3), item->number,
        };
        if (g_hash_table_size(e->pages) == MAX_PAGES) {
            g_hash_table_remove_all(e->pages);
        }
        g_hash_table_replace(e->pages, p, p);
    }
}

static uint64_t by_symbol(struct entries *e, uint64_t to, bool *known_to)
{
    uint64_t pseudo = BTRAIL_PSEUDO_TO_KERNEL;
    size_t n;

    g_mutex_lock(&e->lock);
    *known_to = e->ranges->len;
    n = BTRAIL_UP_TO(e->ranges->data, e->ranges->len, struct entry_range, start,
                     to);
    if (n && to < g_array_index(e->ranges, struct entry_range, n - 1).end) {
        pseudo = g_array_index(e->ranges, struct entry_range, n - 1).pseudo;
    }
    g_mutex_unlock(&e->lock);
    return pseudo;
}

/* Of two bytes of the instruction, the second may be in the next page. */
static uint64_t by_instruction(struct entries *e, uint64_t cr3,
                               uint64_t from)
{
    const struct entry_page key = {
        from & ~(uint64_t)(BTRAIL_CODE_PAGE_SIZE - 1), btrail_cr3_root(cr3),
        0,
    };
    const struct entry_page *page = g_hash_table_lookup(e->pages, &key);
    size_t at = from % BTRAIL_CODE_PAGE_SIZE;
    const struct page_content *content;
    uint8_t next;

    if (!page) {
        return BTRAIL_PSEUDO_TO_KERNEL;
    }
    content = g_hash_table_lookup(e->contents, &page->number);
    if (!content) {
        return BTRAIL_PSEUDO_TO_KERNEL;
    }
    next = at + 1 < BTRAIL_CODE_PAGE_SIZE ? content->bytes[at + 1] : 0;
    switch (content->bytes[at]) {
    case 0x0f:
        return next == 0x05 || next == 0x34 ? BTRAIL_PSEUDO_SYSCALL :
               next == 0x0b ? BTRAIL_PSEUDO_EXCEPTION :
               BTRAIL_PSEUDO_TO_KERNEL;
    case 0xcd:
        return next == 0x80 ? BTRAIL_PSEUDO_SYSCALL :
               BTRAIL_PSEUDO_EXCEPTION;
    case 0xcc:
    case 0xce:
    case 0xf1:
        return BTRAIL_PSEUDO_EXCEPTION;
    default:
        return BTRAIL_PSEUDO_TO_KERNEL;
    }
}

uint64_t entries_find(void *opaque, unsigned vcpu, uint64_t cr3,
                      uint64_t from, uint64_t to)
{
    struct entries *e = opaque;
    bool known_symbols;
    uint64_t pseudo = by_symbol(e, to, &known_symbols);

    return known_symbols ? pseudo : by_instruction(e, cr3, from);
}
