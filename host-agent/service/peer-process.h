/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which process is at the other end of a socket, by the word of the kernel
 *
 * A process has a number that others get after it, and a time at which it
 * began.  Number, time and boot together belong to no other process.
 */

#ifndef BTRAIL_PEER_PROCESS_H
#define BTRAIL_PEER_PROCESS_H

#include <stdbool.h>
#include <sys/types.h>

/* Bytes of an id, with a NUL: "PID-TIME-BOOT" */
#define PROCESS_ID   96

/**
 * struct peer_process
 * @process: its id; empty if /proc does not show the process
 */
struct peer_process {
    pid_t pid;
    uid_t uid;
    char process[PROCESS_ID];
};

/* Who has connected?  False if that process is gone, or hidden. */
bool peer_process_get(struct peer_process *peer, int sock);

/* Is it one process? */
bool peer_process_is_same(const struct peer_process *a,
                          const struct peer_process *b);

/* The id of a process that runs; empty if there is none, or it is hidden. */
void process_id(char id[PROCESS_ID], pid_t pid);

/*
 * Does no process of this id, which was not empty, run any more?  False if that
 * is not known at the moment.
 */
bool process_is_gone(const char *id);

#endif /* BTRAIL_PEER_PROCESS_H */
