/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What backtrail-pt-open and who starts it say to each other
 *
 * Over a unix socket of type SOCK_SEQPACKET, which is the program's standard
 * input: one request; then an answer for each thread with a descriptor of its
 * event, one with that of the memory, and then the asker's word that it has
 * mapped the rings.  Or an answer that says what is in the way.
 */

#ifndef BTRAIL_PT_OPEN_MESSAGE_H
#define BTRAIL_PT_OPEN_MESSAGE_H

#include <stdint.h>

#define PT_OPEN_MAGIC       0x31747062u
#define PT_OPEN_THREADS     512
#define PT_OPEN_FILTER      384
#define PT_OPEN_TEXT        400

/* The largest ring, as PT_RING_MAX */
#define PT_OPEN_RING_MAX    (UINT64_C(2) << 30)

/* Pages for what the kernel says of a ring: of one that it overwrites, which is
 * read once, and of one that is read while it fills */
#define PT_OPEN_DATA_PAGES  1
#define PT_OPEN_LIVE_PAGES  64

/* Bytes of a ring that fills after which the kernel says so, at most */
#define PT_OPEN_LIVE_STEP   (1u << 20)

/**
 * enum pt_open_flags
 * @PT_OPEN_LIVE: the rings are mapped to be written to, so that the kernel
 *                overwrites nothing that was not read; and it says when what
 *                was written, by CLOCK_MONOTONIC
 */
enum pt_open_flags {
    PT_OPEN_LIVE = 1,
};

/**
 * struct pt_open_request
 * @magic:     PT_OPEN_MAGIC
 * @process:   whose threads they are
 * @n_threads: how many; there are no others in the message
 * @flags:     enum pt_open_flags
 * @config:    of the events: which packets
 * @ring:      bytes of each ring: a power of 2, a page at least
 * @filter:    as for PERF_EVENT_IOC_SET_FILTER, with a NUL in the end; "" for
 *             none
 */
struct pt_open_request {
    uint32_t magic;
    int32_t process;
    uint32_t n_threads;
    uint32_t flags;
    uint64_t config;
    uint64_t ring;
    char filter[PT_OPEN_FILTER];
    int32_t threads[PT_OPEN_THREADS];
};

/**
 * enum pt_open_kind - of an answer
 * @PT_OPEN_EVENT:  with the descriptor of an event; @index: of which thread
 * @PT_OPEN_MEMORY: with that of the process's memory, to be read only
 * @PT_OPEN_FAILED: nothing is opened; @text says why, and what to do
 */
enum pt_open_kind {
    PT_OPEN_EVENT = 1,
    PT_OPEN_MEMORY,
    PT_OPEN_FAILED,
};

struct pt_open_answer {
    uint32_t kind;
    uint32_t index;
    char text[PT_OPEN_TEXT];
};

#endif /* BTRAIL_PT_OPEN_MESSAGE_H */
