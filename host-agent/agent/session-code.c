/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The code that a session gets: see session-code.h
 */

#include "session-code.h"

#include "code.h"

/* A piece that has come to this is written. */
#define PIECE_SIZE      (1u << 20)

struct btrail_session_code {
    struct btrail_output *output;
    struct btrail_code_builder *builder;
};

struct btrail_session_code *btrail_session_code_new(struct btrail_output *o)
{
    struct btrail_session_code *c = g_new0(struct btrail_session_code, 1);

    c->output = o;
    c->builder = btrail_code_builder_new();
    return c;
}

void btrail_session_code_free(struct btrail_session_code *c)
{
    btrail_code_builder_free(c->builder);
    g_free(c);
}

void btrail_session_code_item(struct btrail_session_code *c, unsigned vcpu,
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
        btrail_code_builder_content(c->builder, item->number, page);
        break;
    case BTRAIL_CODE_PAGE:
        entry.number = item->number;
        /* fall through */
    default:
        btrail_code_builder_entry(c->builder, &entry);
        break;
    }
    if (btrail_code_builder_size(c->builder) >= PIECE_SIZE) {
        btrail_session_code_flush(c);
    }
}

void btrail_session_code_flush(struct btrail_session_code *c)
{
    struct btrail_sideband_info info = { .kind = BTRAIL_SIDEBAND_CODE };
    uint8_t *data;
    size_t size;

    if (btrail_code_builder_size(c->builder)) {
        data = btrail_code_builder_take(c->builder, &size);
        info.size = size;
        btrail_output_sideband(c->output, &info, data);
    }
}
