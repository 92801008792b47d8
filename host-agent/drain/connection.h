/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The agent's side of a data connection: the socket and the memory that it
 * shares with a producer, as include/backtrail/transport.h describes them
 *
 * Nothing that the producer wrote is trusted: what is in the shared memory is
 * read once, checked, and used from the copy.
 */

#ifndef BTRAIL_CONNECTION_H
#define BTRAIL_CONNECTION_H

#include "backtrail/trace.h"
#include "guest-linux/guest-memory.h"
#include "util/agent-error.h"

/**
 * struct drain_connection - a connection to a producer
 * @slot:         which of the tails is ours
 * @ready_fd:     the producer signals it when it publishes and we sleep
 * @free_fd:      we signal it when we release and the producer waits
 * @header:       a checked copy
 * @in:           a message that is not complete yet: its first @in_len bytes
 * @in_fds:       that came with it, @n_in_fds of them
 * @wants_memory: it was requested and has not come yet
 * @memory:       it has come and was not taken yet
 */
struct drain_connection {
    int sock;
    unsigned slot;
    int ready_fd;
    int free_fd;
    uint8_t *map;
    struct btrail_shm_header header;
    struct btrail_msg in;
    size_t in_len;
    int in_fds[1 + BTRAIL_MEMORY_MAX_FILES];
    size_t n_in_fds;
    bool wants_memory;
    struct guest_memory_files *memory;
};

/**
 * drain_connection_check_header - check whether a layout can be used
 * @h:    a copy
 * @size: of the memfd
 *
 * A layout that it accepts does not lead outside of the memory.
 */
bool drain_connection_check_header(const struct btrail_shm_header *h,
                                   uint64_t size, GError **error);

/**
 * drain_connection_accept - wait for HELLO and map the memory
 * @sock:       belongs to the connection if this succeeds
 * @timeout_ms: how long to wait, -1 for ever
 * @cancel_fd:  the wait ends when it becomes readable; -1 for none
 *
 * The producer then waits for READY.
 */
struct drain_connection *drain_connection_accept(int sock, int timeout_ms,
                                                 int cancel_fd,
                                                 GError **error);
void drain_connection_free(struct drain_connection *conn);

/*
 * Sends READY with BTRAIL_READY_*.  Returns false without @error if the socket
 * is full at the moment.
 */
bool drain_connection_ready(struct drain_connection *conn, uint64_t flags,
                            GError **error);

/* Sends a message; returns as drain_connection_ready(). */
bool drain_connection_send(struct drain_connection *conn, uint16_t type,
                           GError **error);

/*
 * Requests MEMORY again, for when RAM has come or gone, unless it is still to
 * come.  The producer must accept that (header.accepts) and have sent it
 * before; returns as drain_connection_ready().
 */
bool drain_connection_want_memory(struct drain_connection *conn,
                                  GError **error);

/*
 * Sends how the producer finds tasks, which it must accept (header.accepts), of
 * @n kernels, the first of which is the guest's own; others only if it accepts
 * these.  Returns as drain_connection_ready().
 */
bool drain_connection_send_tasks(struct drain_connection *conn,
                                 const struct btrail_tasks *tasks, unsigned n,
                                 GError **error);

enum drain_connection_input {
    DRAIN_CONNECTION_NOTHING,
    DRAIN_CONNECTION_END,       /* @reason is set */
    DRAIN_CONNECTION_MEMORY,    /* drain_connection_take_memory() has it */
    DRAIN_CONNECTION_CLOSED,    /* without an END before */
    DRAIN_CONNECTION_FAILED,    /* @error is set */
};

/* Takes the next message if there is one; does not wait. */
enum drain_connection_input
drain_connection_receive(struct drain_connection *conn, uint16_t *reason,
                         GError **error);

/*
 * Returns what came with MEMORY, which the caller frees with
 * guest_memory_files_free(); NULL if nothing came or it was taken before.
 */
struct guest_memory_files *
drain_connection_take_memory(struct drain_connection *conn);

/* What the producer and the agent share for a vCPU below header.vcpus */
static inline struct btrail_shm_vcpu *
drain_connection_vcpu(const struct drain_connection *conn, unsigned vcpu)
{
    return (struct btrail_shm_vcpu *)(conn->map + conn->header.vcpu_offset +
                                      vcpu * conn->header.vcpu_stride);
}

/* Its ring of code, if header.code_items is not 0 */
static inline struct btrail_shm_code *
drain_connection_code(const struct drain_connection *conn, unsigned vcpu)
{
    return (struct btrail_shm_code *)
           ((uint8_t *)drain_connection_vcpu(conn, vcpu) +
            conn->header.code_offset);
}

/* drain_connection_NAME() reads a member of one of the two. */
#define DRAIN_CONNECTION_READ(type, name, from, member, order)          \
    static inline type                                                  \
    drain_connection_##name(const struct drain_connection *conn,        \
                             unsigned vcpu)                             \
    {                                                                   \
        return __atomic_load_n(&drain_connection_##from(conn, vcpu)     \
                               ->member, order);                        \
    }
DRAIN_CONNECTION_READ(uint64_t, head, vcpu, head, __ATOMIC_ACQUIRE)
DRAIN_CONNECTION_READ(uint64_t, tail, vcpu, tail[conn->slot],
                      __ATOMIC_ACQUIRE)
DRAIN_CONNECTION_READ(uint32_t, state, vcpu, state, __ATOMIC_RELAXED)
/* The index of the next record when the last slab was published */
DRAIN_CONNECTION_READ(uint64_t, index, vcpu, records, __ATOMIC_RELAXED)
DRAIN_CONNECTION_READ(uint64_t, lost, vcpu, lost, __ATOMIC_RELAXED)
DRAIN_CONNECTION_READ(uint64_t, paused_ns, vcpu, paused_ns, __ATOMIC_RELAXED)
DRAIN_CONNECTION_READ(uint64_t, flushed, vcpu, flushed, __ATOMIC_ACQUIRE)
DRAIN_CONNECTION_READ(uint64_t, code_head, code, head, __ATOMIC_ACQUIRE)
DRAIN_CONNECTION_READ(uint64_t, code_tail, code, tail[conn->slot],
                      __ATOMIC_ACQUIRE)
DRAIN_CONNECTION_READ(uint64_t, code_lost_from, code, lost_from,
                      __ATOMIC_RELAXED)
#undef DRAIN_CONNECTION_READ

/**
 * drain_connection_slab - get a published slab
 * @number: as counted by head and tail
 * @slab:   its records are those in shared memory, its events a copy.  Only
 *          their numbers are checked: see btrail_slab_check()
 * @events: room for header.events_per_slab events
 */
bool drain_connection_slab(const struct drain_connection *conn, unsigned vcpu,
                           uint64_t number, struct btrail_slab *slab,
                           struct btrail_event *events, GError **error);

/*
 * Gives the slabs before number @tail back to the producer, and wakes it if it
 * waits for them.
 */
void drain_connection_release(struct drain_connection *conn, unsigned vcpu,
                              uint64_t tail);

/**
 * drain_connection_code_item - get a published item
 * @number: as counted by head and tail
 * @item:   gets a copy
 * @page:   gets BTRAIL_CODE_PAGE_SIZE bytes, if it is of BTRAIL_CODE_BYTES
 */
bool drain_connection_code_item(const struct drain_connection *conn,
                                unsigned vcpu, uint64_t number,
                                struct btrail_code_item *item, uint8_t *page,
                                GError **error);

/* As drain_connection_release() */
void drain_connection_code_release(struct drain_connection *conn,
                                   unsigned vcpu, uint64_t tail);

/*
 * Says that the producer must, or need not, signal ready_fd.  After
 * drain_connection_sleep() the caller must check all heads once more.
 */
void drain_connection_sleep(struct drain_connection *conn);
void drain_connection_wake(struct drain_connection *conn);

#endif /* BTRAIL_CONNECTION_H */
