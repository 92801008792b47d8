/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The agent's side of the transport
 *
 * Nothing that the producer wrote is trusted: what is in the shared memory is
 * read once, checked, and used from the copy.
 */

#ifndef BTRAIL_TRANSPORT_CLIENT_H
#define BTRAIL_TRANSPORT_CLIENT_H

#include "util/agent-error.h"
#include "backtrail/trace.h"

/**
 * struct btrail_transport_memory - where the guest's RAM is
 * @reason: enum btrail_memory_reason; if it is not BTRAIL_MEMORY_SHARED there
 *          is nothing in the rest
 * @head:   with so many ranges and files
 * @ranges: that name a file that there is; nothing else of them is checked
 * @fds:    the files; they belong to whoever has taken the memory
 */
struct btrail_transport_memory {
    uint32_t reason;
    struct btrail_memory head;
    struct btrail_memory_range ranges[BTRAIL_MEMORY_MAX_RANGES];
    int fds[BTRAIL_MEMORY_MAX_FILES];
};

/**
 * struct btrail_transport - a connection to a producer
 * @sock:   the socket
 * @slot:     which of the tails is ours
 * @ready_fd: to wait on
 * @header: a checked copy
 */
struct btrail_transport {
    int sock;
    unsigned slot;
    int ready_fd;
    int free_fd;
    uint8_t *map;
    struct btrail_shm_header header;
    struct btrail_msg in;       /* a message that is not whole yet */
    size_t in_len;
    int in_fds[1 + BTRAIL_MEMORY_MAX_FILES];    /* that came with it */
    size_t n_in_fds;
    bool wants_memory;          /* has asked for it and not got it yet */
    struct btrail_transport_memory *memory;
};

/**
 * btrail_transport_check_header - is this a layout that can be used?
 * @h:    a copy
 * @size: of the memfd
 *
 * Whatever it accepts cannot lead outside of the memory.
 */
bool btrail_transport_check_header(const struct btrail_shm_header *h,
                                   uint64_t size, GError **error);

/**
 * btrail_transport_connect - take HELLO, map the memory
 * @sock:       owned by the transport if this succeeds
 * @timeout_ms: how long to wait, -1 for ever
 * @cancel_fd:  give up when it becomes readable, -1 for never
 *
 * The producer waits for READY afterwards.
 */
struct btrail_transport *btrail_transport_connect(int sock, int timeout_ms,
                                                  int cancel_fd,
                                                  GError **error);
void btrail_transport_free(struct btrail_transport *t);

/*
 * Send READY, and with @memory ask for the guest's RAM.  False and no @error
 * if there is no room at the moment.
 */
bool btrail_transport_ready(struct btrail_transport *t, bool memory,
                            GError **error);

/* Send a message.  False and no @error if there is no room at the moment. */
bool btrail_transport_send(struct btrail_transport *t, uint16_t type,
                           GError **error);

enum btrail_transport_input {
    BTRAIL_TRANSPORT_NOTHING,
    BTRAIL_TRANSPORT_END,       /* @reason is set */
    BTRAIL_TRANSPORT_MEMORY,    /* btrail_transport_take_memory() has it */
    BTRAIL_TRANSPORT_CLOSED,    /* without an END before */
    BTRAIL_TRANSPORT_FAILED,    /* @error is set */
};

/* Look whether there is a message, without waiting. */
enum btrail_transport_input
btrail_transport_receive(struct btrail_transport *t, uint16_t *reason,
                         GError **error);

/*
 * What came with MEMORY: NULL if nothing has, or it has been taken.  To be
 * freed with btrail_transport_memory_free(), which closes what is in fds[]
 * and not -1.
 */
struct btrail_transport_memory *
btrail_transport_take_memory(struct btrail_transport *t);
void btrail_transport_memory_free(struct btrail_transport_memory *m);

/*
 * Shared memory.  @vcpu is below header.vcpus.
 */

uint64_t btrail_transport_head(const struct btrail_transport *t,
                               unsigned vcpu);
uint64_t btrail_transport_tail(const struct btrail_transport *t,
                               unsigned vcpu);
uint32_t btrail_transport_state(const struct btrail_transport *t,
                                unsigned vcpu);
/* Index of the next record when a slab was published last */
uint64_t btrail_transport_index(const struct btrail_transport *t,
                                unsigned vcpu);
uint64_t btrail_transport_lost(const struct btrail_transport *t,
                               unsigned vcpu);
uint64_t btrail_transport_paused_ns(const struct btrail_transport *t,
                                    unsigned vcpu);

/**
 * btrail_transport_slab - look at a published slab
 * @number: as counted by head and tail
 * @slab:   its records are those in shared memory, its events a copy
 * @events: room for header.events_per_slab events
 */
bool btrail_transport_slab(const struct btrail_transport *t, unsigned vcpu,
                           uint64_t number, struct btrail_slab *slab,
                           struct btrail_event *events, GError **error);

/*
 * Give slabs back, up to and without number @tail, and wake the producer if
 * it waits for them.
 */
void btrail_transport_release(struct btrail_transport *t, unsigned vcpu,
                              uint64_t tail);

/*
 * The ring of code, if header.code_items is not 0; see transport.h of the
 * library
 */
uint64_t btrail_transport_code_head(const struct btrail_transport *t,
                                    unsigned vcpu);
uint64_t btrail_transport_code_tail(const struct btrail_transport *t,
                                    unsigned vcpu);
uint64_t btrail_transport_code_lost_from(const struct btrail_transport *t,
                                         unsigned vcpu);

/**
 * btrail_transport_code_item - look at a published item
 * @number: as counted by head and tail
 * @item:   gets a copy
 * @page:   gets BTRAIL_CODE_PAGE_SIZE bytes, if it is of BTRAIL_CODE_BYTES
 */
bool btrail_transport_code_item(const struct btrail_transport *t,
                                unsigned vcpu, uint64_t number,
                                struct btrail_code_item *item, uint8_t *page,
                                GError **error);

/* As btrail_transport_release() */
void btrail_transport_code_release(struct btrail_transport *t, unsigned vcpu,
                                   uint64_t tail);

/*
 * Tell the producer that it must, or need not, signal ready_fd.  After going
 * to sleep all heads must be looked at once more.
 */
void btrail_transport_sleep(struct btrail_transport *t);
void btrail_transport_wake(struct btrail_transport *t);

#endif /* BTRAIL_TRANSPORT_CLIENT_H */
