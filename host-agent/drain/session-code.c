/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The code of a session: see session-code.h
 */

#include <string.h>

#include "drain/session-code.h"
#include "lib/agent/code-piece.h"
#include "util/hash.h"

/* A piece of this size is written. */
#define PIECE_SIZE      (1u << 20)

/* Contents that wait for an item that refers to them; 4 MiB */
#define MAX_WAITING     1024
/* Numbers of contents that have not come, or have been written */
#define MAX_WANTED      (1u << 20)

/* A content that waits for an item */
struct waiting_content {
    uint64_t number;
    uint8_t page[BTRAIL_CODE_PAGE_SIZE];
};

struct session_code {
    struct output *output;
    struct btrail_budget *budget;
    struct btrail_code_builder *builder;

    /* With @chosen */
    bool chosen;
    GHashTable *waiting;        /* of struct waiting_content */
    GQueue order;               /* of the same, the oldest first */
    GHashTable *wanted;         /* uint64_t: to be written when they come */
};

struct session_code *
session_code_new(struct output *o, struct btrail_budget *budget,
                 bool chosen)
{
    struct session_code *c = g_new0(struct session_code, 1);

    c->output = o;
    c->budget = budget;
    c->builder = btrail_code_builder_new();
    c->chosen = chosen;
    g_queue_init(&c->order);
    c->waiting = g_hash_table_new(btrail_int64_hash, g_int64_equal);
    c->wanted = g_hash_table_new_full(btrail_int64_hash, g_int64_equal, g_free,
                                      NULL);
    return c;
}

/* Forgets a content that waits. */
static void drop_content(struct session_code *c,
                         struct waiting_content *content)
{
    g_hash_table_remove(c->waiting, &content->number);
    g_queue_remove(&c->order, content);
    btrail_budget_drop(c->budget, sizeof(*content));
    g_free(content);
}

static bool remove_wanted(struct session_code *c, uint64_t number)
{
    bool wanted = g_hash_table_remove(c->wanted, &number);

    if (wanted) {
        btrail_budget_drop(c->budget, sizeof(number));
    }
    return wanted;
}

void session_code_free(struct session_code *c)
{
    while (c->order.length) {
        drop_content(c, g_queue_peek_head(&c->order));
    }
    for (guint i = g_hash_table_size(c->wanted); i; i--) {
        btrail_budget_drop(c->budget, sizeof(uint64_t));
    }
    btrail_code_builder_free(c->builder);
    g_hash_table_destroy(c->waiting);
    g_hash_table_destroy(c->wanted);
    g_free(c);
}

/* Writes a content if an item has referred to it, or else keeps it. */
static void got_content(struct session_code *c, uint64_t number,
                        const uint8_t *page)
{
    struct waiting_content *content;

    if (!c->chosen || remove_wanted(c, number)) {
        btrail_code_builder_content(c->builder, number, page);
        return;
    }
    if (g_hash_table_contains(c->waiting, &number)) {
        /* A sound producer does not send one twice. */
        return;
    }
    if (c->order.length == MAX_WAITING) {
        drop_content(c, g_queue_peek_head(&c->order));
    }
    if (!btrail_budget_take(c->budget,
                            sizeof(*content) + BTRAIL_BUDGET_ENTRY)) {
        return;
    }
    content = g_new(struct waiting_content, 1);
    content->number = number;
    memcpy(content->page, page, sizeof(content->page));
    g_hash_table_insert(c->waiting, &content->number, content);
    g_queue_push_tail(&c->order, content);
}

/* An item refers to a content. */
static void want_content(struct session_code *c, uint64_t number)
{
    struct waiting_content *content = g_hash_table_lookup(c->waiting, &number);

    if (content) {
        btrail_code_builder_content(c->builder, number, content->page);
        drop_content(c, content);
    } else if (g_hash_table_size(c->wanted) < MAX_WANTED &&
               !g_hash_table_contains(c->wanted, &number) &&
               btrail_budget_take(c->budget,
                                  sizeof(number) + BTRAIL_BUDGET_ENTRY)) {
        g_hash_table_add(c->wanted, g_memdup2(&number, sizeof(number)));
    }
}

void session_code_item(struct session_code *c, unsigned vcpu,
                       uint64_t number,
                       const struct btrail_code_item *item,
                       const uint8_t *page)
{
    struct btrail_code_entry entry = {
        .vcpu = vcpu, .order = number, .index = item->index,
        .cr3 = item->cr3, .linear = item->linear,
        .physical = item->physical,
    };

    switch (item->type) {
    case BTRAIL_CODE_BYTES:
        got_content(c, item->number, page);
        break;
    case BTRAIL_CODE_PAGE:
        entry.number = item->number;
        if (c->chosen) {
            want_content(c, item->number);
        }
        /* fall through */
    default:
        btrail_code_builder_entry(c->builder, &entry);
        break;
    }
    if (btrail_code_builder_size(c->builder) >= PIECE_SIZE) {
        session_code_flush(c);
    }
}

void session_code_flush(struct session_code *c)
{
    output_code(c->output, c->builder);
}
