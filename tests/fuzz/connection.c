/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Fuzz target: the messages and the shared memory of a producer
 *
 * A header that passes the check must not lead outside of the memory, whatever
 * the rest of it holds and however that changes between two reads.  The input
 * is described in producer.h.
 */

#include <unistd.h>

#include "fuzz.h"
#include "producer.h"
#include "lib/agent/stream.h"
#include "drain/connection.h"

#define MAX_SLABS   8

static struct btrail_block *get_block(struct btrail_block_sink *sink)
{
    return btrail_block_new();
}

static int put_block(struct btrail_block_sink *sink,
                     struct btrail_block *block)
{
    btrail_block_free(block);
    return 0;
}

/* Checks that all is inside of its area, in numbers that cannot overflow. */
static void check_layout(const struct btrail_shm_header *h)
{
    __uint128_t stride = h->vcpu_stride, slab_size = h->slab_size;
    __uint128_t descs = h->slabs * (__uint128_t)sizeof(struct btrail_slab_desc);
    __uint128_t records = h->records_per_slab *
                          (__uint128_t)sizeof(struct btrail_record);
    __uint128_t events = h->events_per_slab *
                         (__uint128_t)sizeof(struct btrail_event);

    fuzz_require(h->vcpu_offset >= sizeof(*h));
    fuzz_require(h->vcpu_offset + h->vcpus * stride <= h->total_size);
    fuzz_require(h->desc_offset >= sizeof(struct btrail_shm_vcpu));
    fuzz_require(h->desc_offset + descs <= h->slab_offset);
    fuzz_require(h->slab_offset + h->slabs * slab_size <= stride);
    fuzz_require(records <= h->event_offset);
    fuzz_require(h->event_offset + events <= slab_size);
    if (h->code_items) {
        __uint128_t items = h->code_items *
                            (__uint128_t)sizeof(struct btrail_code_item);

        fuzz_require(h->slab_offset + h->slabs * slab_size <= h->code_offset);
        fuzz_require(h->code_offset + sizeof(struct btrail_shm_code) + items <=
                     h->code_page_offset);
        fuzz_require(h->code_page_offset + h->code_items *
                     (__uint128_t)BTRAIL_CODE_PAGE_SIZE <= stride);
        fuzz_require(!((h->code_offset | h->code_page_offset) & 7));
    }
    fuzz_require(!((h->vcpu_offset | h->vcpu_stride | h->desc_offset |
                    h->slab_offset | h->slab_size | h->event_offset) & 7));
}

static void drain_vcpu(struct drain_connection *conn, unsigned vcpu,
                       struct producer *p)
{
    struct btrail_block_sink sink = { get_block, put_block };
    struct btrail_stream *stream = btrail_stream_new(vcpu, &sink, false);
    struct btrail_event *events = g_new(struct btrail_event,
                                        conn->header.events_per_slab);
    uint64_t tail = drain_connection_tail(conn, vcpu);
    unsigned n;

    for (n = 0; n < MAX_SLABS && tail != drain_connection_head(conn, vcpu);
         n++, tail++) {
        const uint8_t *end = conn->map + conn->header.total_size;
        struct btrail_slab slab;
        g_autoptr(GError) error = NULL;

        if (!drain_connection_slab(conn, vcpu, tail, &slab, events, &error)) {
            fuzz_require(error != NULL);
            break;
        }
        fuzz_require((const uint8_t *)slab.records >= conn->map &&
                     slab.n_records <= conn->header.records_per_slab &&
                     (const uint8_t *)(slab.records + slab.n_records) <= end &&
                     slab.n_events <= conn->header.events_per_slab);
        /* It has been checked; now it changes. */
        producer_later(p);
        if (btrail_stream_append(stream, &slab, BTRAIL_GAP_CORRUPT)) {
            break;
        }
        drain_connection_release(conn, vcpu, tail + 1);
        fuzz_require(drain_connection_tail(conn, vcpu) == tail + 1);
    }
    drain_connection_lost(conn, vcpu);
    drain_connection_paused_ns(conn, vcpu);
    btrail_stream_flush(stream);
    btrail_stream_free(stream);
    g_free(events);
}

static void drain_code(struct drain_connection *conn, unsigned vcpu,
                       struct producer *p)
{
    uint64_t tail = drain_connection_code_tail(conn, vcpu);
    uint8_t page[BTRAIL_CODE_PAGE_SIZE];
    struct btrail_code_item item;
    unsigned n;

    for (n = 0; n < MAX_SLABS &&
         tail != drain_connection_code_head(conn, vcpu); n++, tail++) {
        g_autoptr(GError) error = NULL;

        if (!drain_connection_code_item(conn, vcpu, tail, &item, page,
                                        &error)) {
            fuzz_require(error != NULL);
            break;
        }
        producer_later(p);
        fuzz_require(item.type >= BTRAIL_CODE_BYTES &&
                     item.type <= BTRAIL_CODE_LOST);
        drain_connection_code_release(conn, vcpu, tail + 1);
    }
    drain_connection_code_lost_from(conn, vcpu);
}

static void use(struct drain_connection *conn, struct producer *p)
{
    enum drain_connection_input input;
    uint16_t reason;
    unsigned i;

    drain_connection_ready(conn, BTRAIL_READY_MEMORY, NULL);
    do {
        g_autoptr(GError) error = NULL;

        input = drain_connection_receive(conn, &reason, &error);
        fuzz_require((input == DRAIN_CONNECTION_FAILED) == !!error);
        fuzz_require(input != DRAIN_CONNECTION_NOTHING);
        fuzz_require(input != DRAIN_CONNECTION_END ||
                     (reason >= BTRAIL_END_STOPPED &&
                      reason <= BTRAIL_END_UNPLUGGED));
        if (input == DRAIN_CONNECTION_MEMORY) {
            drain_connection_want_memory(conn, NULL);
        }
    } while (input == DRAIN_CONNECTION_END ||
             input == DRAIN_CONNECTION_MEMORY);
    for (i = 0; i < conn->header.vcpus; i++) {
        drain_vcpu(conn, i, p);
        if (conn->header.code_items) {
            drain_code(conn, i, p);
        }
    }
    drain_connection_sleep(conn);
    drain_connection_wake(conn);
}

int fuzz_input(const uint8_t *data, size_t size)
{
    g_autoptr(GError) error = NULL;
    struct drain_connection *conn;
    struct btrail_shm_header h;
    struct producer p;

    producer_init(&p, data, size);
    /* Also headers of layouts that are too large for this memory */
    memcpy(&h, p.memory, sizeof(h));
    if (drain_connection_check_header(&h, h.total_size, NULL)) {
        check_layout(&h);
    }
    conn = drain_connection_accept(p.agent_sock, 1000, -1, &error);
    fuzz_require(!conn == !!error);
    if (conn) {
        fuzz_accepted();
        check_layout(&conn->header);
        use(conn, &p);
        drain_connection_free(conn);
    } else {
        fuzz_require(error->code != AGENT_ERROR_TIMEOUT);
        close(p.agent_sock);
    }
    producer_clear(&p);
    return 0;
}
