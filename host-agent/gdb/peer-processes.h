/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A process for each peer
 *
 * What takes long for one peer takes nothing from the others, what one makes
 * the server keep ends with it, and each can be ended at any moment.  The
 * process is a copy of the server as it is when the peer comes, and dies with
 * it.
 */

#ifndef BTRAIL_GDB_PEER_PROCESSES_H
#define BTRAIL_GDB_PEER_PROCESSES_H

#include <glib.h>
#include <stdint.h>

/* Bytes that each can have for itself; one that needs more is ended. */
#define PEER_MEMORY_MAX     (UINT64_C(2) << 30)

struct peer_processes;

/**
 * struct peer_functions - what is called, with the pointer of
 * peer_processes_new()
 * @serve: in the new process: serve the peer with this number, from 1; the two
 *         files, which can be one socket, are its own.  The process ends when
 *         it returns.
 * @ended: in the server: that process has ended
 */
struct peer_functions {
    void (*serve)(void *opaque, unsigned number, int in, int out);
    void (*ended)(void *opaque, unsigned number);
};

struct peer_processes *
peer_processes_new(const struct peer_functions *functions, void *opaque);

/* Ends all; the server learns nothing of it. */
void peer_processes_free(struct peer_processes *p);

/*
 * Takes the files.  A peer beyond GDB_SERVERS_MAX is disconnected.  No other
 * thread may hold a lock, since the new process has no thread that would
 * release it.
 */
void peer_processes_add(struct peer_processes *p, int in, int out);

/* How many are served */
unsigned peer_processes_count(const struct peer_processes *p);

#endif /* BTRAIL_GDB_PEER_PROCESSES_H */
