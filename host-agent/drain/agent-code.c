/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Draining rings of code: see agent-code.h
 */

#include "drain/agent-code.h"

/* Items of a vCPU before it is the turn of the next one */
#define ITEMS_PER_TURN  64

struct btrail_agent_code {
    struct btrail_connection *connection;
    uint64_t *tails;
    btrail_agent_code_fn *fn;
    void *opaque;
};

struct btrail_agent_code *
btrail_agent_code_new(struct btrail_connection *conn, btrail_agent_code_fn *fn,
                      void *opaque)
{
    struct btrail_agent_code *c = g_new0(struct btrail_agent_code, 1);
    unsigned i;

    c->connection = conn;
    c->fn = fn;
    c->opaque = opaque;
    c->tails = g_new0(uint64_t, conn->header.vcpus);
    for (i = 0; conn->header.code_items && i < conn->header.vcpus; i++) {
        c->tails[i] = btrail_connection_code_tail(conn, i);
    }
    return c;
}

void btrail_agent_code_free(struct btrail_agent_code *c)
{
    if (c) {
        g_free(c->tails);
        g_free(c);
    }
}

bool btrail_agent_code_urgent(const struct btrail_agent_code *c)
{
    const struct btrail_shm_header *h = &c->connection->header;
    unsigned i;

    for (i = 0; h->code_items && i < h->vcpus; i++) {
        if (btrail_connection_code_head(c->connection, i) - c->tails[i] >
            h->code_items / 4) {
            return true;
        }
    }
    return false;
}

static bool drain_items(struct btrail_agent_code *c, unsigned vcpu, bool all,
                        unsigned *n, GError **error)
{
    struct btrail_connection *conn = c->connection;
    uint64_t head = btrail_connection_code_head(conn, vcpu);
    uint64_t *tail = &c->tails[vcpu];
    uint64_t stop = head;

    if (head < *tail || head - *tail > conn->header.code_items) {
        g_set_error(error, BTRAIL_AGENT_ERROR, BTRAIL_AGENT_ERROR_PROTOCOL,
                    "the producer broke the protocol: vCPU %u has published %"
                    G_GUINT64_FORMAT " items of code, and %" G_GUINT64_FORMAT
                    " of them were drained", vcpu, head, *tail);
        return false;
    }
    if (!all && head - *tail > ITEMS_PER_TURN) {
        stop = *tail + ITEMS_PER_TURN;
    }
    for (; *tail != stop; (*tail)++, (*n)++) {
        struct btrail_code_item item;
        uint8_t page[BTRAIL_CODE_PAGE_SIZE];

        if (!btrail_connection_code_item(conn, vcpu, *tail, &item, page,
                                         error)) {
            return false;
        }
        c->fn(c->opaque, vcpu, *tail, &item, page);
    }
    btrail_connection_code_release(conn, vcpu, *tail);
    return true;
}

bool btrail_agent_code_drain(struct btrail_agent_code *c, bool all,
                             unsigned *n, GError **error)
{
    const struct btrail_shm_header *h = &c->connection->header;
    unsigned i;

    *n = 0;
    for (i = 0; h->code_items && i < h->vcpus; i++) {
        if (btrail_connection_code_head(c->connection, i) != c->tails[i] &&
            !drain_items(c, i, all, n, error)) {
            return false;
        }
    }
    return true;
}

bool btrail_agent_code_drain_vcpu(struct btrail_agent_code *c, unsigned vcpu,
                                  GError **error)
{
    unsigned n = 0;

    return !c->connection->header.code_items ||
           btrail_connection_code_head(c->connection, vcpu) == c->tails[vcpu] ||
           drain_items(c, vcpu, true, &n, error);
}

void btrail_agent_code_end(struct btrail_agent_code *c)
{
    const struct btrail_shm_header *h = &c->connection->header;
    unsigned i;

    for (i = 0; h->code_items && i < h->vcpus; i++) {
        uint64_t from = btrail_connection_code_lost_from(c->connection, i);

        if (c->tails[i] && from != BTRAIL_CODE_NONE_LOST) {
            const struct btrail_code_item item = {
                .type = BTRAIL_CODE_LOST, .index = UINT64_MAX,
                .linear = from,
            };

            c->fn(c->opaque, i, c->tails[i], &item, NULL);
        }
    }
}
