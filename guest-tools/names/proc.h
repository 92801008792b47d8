/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Processes as /proc has them
 */

#ifndef BTRAIL_PROC_H
#define BTRAIL_PROC_H

#include "outbox.h"
#include "tsc.h"

/* A list of all processes that is being sent, bit by bit */
struct proc_list {
    uint64_t time;              /* what begins later may not be in it */
    uint32_t *pids;
    unsigned n;
    unsigned next;
    bool begun;                 /* LISTING was sent */
    bool active;
};

/* Gets the numbers of all processes. */
void proc_list_begin(struct proc_list *list);

/* Sends as many as there is room for, until a time of CLOCK_MONOTONIC. */
void proc_list_step(struct proc_list *list, struct outbox *out,
                    const struct tsc_clock *clock, uint64_t until);

void proc_list_end(struct proc_list *list);

/**
 * proc_describe - send PROCESS, THREAD and MAPPING messages of a process
 * @keep: room that must be left
 *
 * Returns false if there is no room; it can be tried again.  A process that is
 * gone is not described.
 */
bool proc_describe(struct outbox *out, const struct tsc_clock *clock,
                   uint32_t pid, size_t keep);

/*
 * The build-id of a file that a process sees at a path, 0 if it has none or
 * cannot be read; device and inode are as in /proc/PID/maps.
 */
unsigned proc_build_id(uint32_t pid, const char *path, uint32_t device,
                       uint64_t inode, uint8_t id[BTRAIL_GUEST_BUILD_ID_MAX]);

/* Has the name of a mapping that of a deleted file?  It is removed then. */
bool proc_cut_deleted(char *path);

/* Is a mapping memory that no file on a disk has, for code of its own? */
bool proc_is_anonymous(const char *path);

#endif /* BTRAIL_PROC_H */
