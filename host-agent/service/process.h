/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which process is at the other end of a socket, by the word of the kernel
 *
 * A process has a number that others get after it, and a time at which it has
 * begun.  Both together, and the boot that they are of, belong to no other.
 */

#ifndef BTRAIL_PROCESS_H
#define BTRAIL_PROCESS_H

#include <stdbool.h>
#include <sys/types.h>

/* Bytes of an id, with a NUL: "PID-TIME-BOOT" */
#define BTRAIL_PROCESS_ID   96

/**
 * struct btrail_peer
 * @process: its id; empty if /proc does not show the process
 */
struct btrail_peer {
    pid_t pid;
    uid_t uid;
    char process[BTRAIL_PROCESS_ID];
};

/* Who has connected?  False if that process is gone, or is not to be seen. */
bool btrail_peer_get(struct btrail_peer *peer, int sock);

/* Is it one process? */
bool btrail_peer_is_same(const struct btrail_peer *a,
                         const struct btrail_peer *b);

/* The id of a process that runs; empty if there is none, or it is hidden. */
void btrail_process_id(char id[BTRAIL_PROCESS_ID], pid_t pid);

/*
 * Does no process of this id, which was not empty, run any more?  False if that
 * is not known at the moment.
 */
bool btrail_process_is_gone(const char *id);

#endif /* BTRAIL_PROCESS_H */
