/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Sequences of edges: see diff-sequence.h
 */

#include <string.h>

#include "analyze/diff-sequence.h"

struct diff_block *diff_block_new(const uint32_t *edges, uint32_t n,
                                  const struct diff_run *run, uint32_t runs)
{
    struct diff_block *b = g_malloc(sizeof(*b) + (size_t)n * sizeof(*edges));

    *b = (struct diff_block) { .n = n, .runs = runs };
    memcpy(b->edges, edges, (size_t)n * sizeof(*edges));
    b->run = g_new(struct diff_run, runs);
    memcpy(b->run, run, (size_t)runs * sizeof(*run));
    return b;
}

void diff_block_free(struct diff_block *block)
{
    if (block) {
        g_free(block->run);
        g_free(block);
    }
}

static struct diff_block *block_at(const struct diff_sequence *s, unsigned i)
{
    return s->blocks->pdata[i];
}

void diff_sequence_init(struct diff_sequence *s)
{
    *s = (struct diff_sequence) { .blocks = g_ptr_array_new() };
}

void diff_sequence_clear(struct diff_sequence *s)
{
    for (unsigned i = s->first; s->blocks && i < s->blocks->len; i++) {
        diff_block_free(s->blocks->pdata[i]);
    }
    g_clear_pointer(&s->blocks, g_ptr_array_unref);
}

void diff_sequence_add(struct diff_sequence *s, struct diff_block *block)
{
    block->start = s->end;
    s->end += block->n;
    g_ptr_array_add(s->blocks, block);
}

/* The block that has a position, or NULL */
static struct diff_block *find(struct diff_sequence *s, uint64_t position)
{
    unsigned low = s->first, high = s->blocks->len;

    if (position >= s->end) {
        return NULL;
    }
    for (unsigned i = s->last; i < high && i < s->last + 2; i++) {
        const struct diff_block *b = block_at(s, i);

        if (position >= b->start && position < b->start + b->n) {
            s->last = i;
            return block_at(s, i);
        }
    }
    while (high - low > 1) {
        unsigned middle = low + (high - low) / 2;

        if (position < block_at(s, middle)->start) {
            high = middle;
        } else {
            low = middle;
        }
    }
    s->last = low;
    return block_at(s, low);
}

const uint32_t *diff_sequence_at(struct diff_sequence *s, uint64_t position,
                                 size_t *n)
{
    struct diff_block *b = find(s, position);

    if (!b) {
        *n = 0;
        return NULL;
    }
    *n = b->start + b->n - position;
    return b->edges + (position - b->start);
}

bool diff_sequence_record(struct diff_sequence *s, uint64_t position,
                          unsigned *vcpu, uint64_t *index)
{
    const struct diff_block *b = find(s, position);
    unsigned i = 0;

    if (!b || !b->runs) {
        return false;
    }
    while (i + 1 < b->runs && b->run[i + 1].position <= position - b->start) {
        i++;
    }
    *vcpu = b->run[i].vcpu;
    *index = b->run[i].index + (position - b->start - b->run[i].position);
    return true;
}

uint64_t diff_sequence_drop(struct diff_sequence *s, uint64_t position)
{
    uint64_t dropped = 0;

    while (s->first < s->blocks->len) {
        struct diff_block *b = block_at(s, s->first);

        if (b->start + b->n > position) {
            break;
        }
        dropped += b->n;
        diff_block_free(b);
        s->first++;
    }
    if (s->first > 64 && s->first > s->blocks->len / 2) {
        g_ptr_array_remove_range(s->blocks, 0, s->first);
        s->first = 0;
    }
    s->last = s->first;
    return dropped;
}
