/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Processes and threads of a guest's Linux
 */

#ifndef LINUX_TASKS_H
#define LINUX_TASKS_H

#include "backtrail/names.h"
#include "guest-linux/kernel.h"
#include "guest-linux/mappings.h"

#define LINUX_COMMAND_LINE_MAX  (64u << 10)

/**
 * linux_known - is all known of a process that a snapshot has found?
 * @p:      its pid, start_time, mm and pgd are set; if it is known this sets
 *          its user_pgd
 * @shape:  a number that changes when executable mappings or threads come or
 *          go, or the process has another name or program
 *
 * Returns: true if the snapshot need not read more.  What it reads otherwise is
 * of this @shape, or of a later one.
 */
typedef bool linux_known(struct btrail_process *p, uint64_t shape,
                         void *opaque);

/**
 * linux_snapshot() - take a snapshot of the processes of a guest
 * @k:     its kernel, of which the tasks are known
 * @clock: returns the time, in nanoseconds
 * @known: NULL to read everything.  Processes that are known are
 *         BTRAIL_PROCESS_SEEN, and processes of the kernel are left out.
 *
 * Nothing in it is torn: what changed while it was read is read again, or left
 * out, and then the snapshot is not BTRAIL_SNAPSHOT_WHOLE.
 *
 * Returns: the snapshot, to be freed with linux_snapshot_free().
 */
struct btrail_snapshot *linux_snapshot(struct linux_kernel *k,
                                       uint64_t (*clock)(void),
                                       linux_known *known, void *opaque);

void linux_snapshot_free(struct btrail_snapshot *snapshot);

/**
 * linux_vdsos() - find the images of the vdso of processes in a snapshot
 *
 * Calls @found for each image, once.
 */
void linux_vdsos(struct linux_kernel *k, const struct btrail_snapshot *snapshot,
                 void (*found)(const uint8_t *data, size_t size, void *opaque),
                 void *opaque);

/**
 * linux_executed_files() - find the programs and libraries in a snapshot
 *
 * Calls @found for each file with a build-id that a process has mapped to be
 * executed, of processes that are not BTRAIL_PROCESS_SEEN.
 */
void linux_executed_files(const struct btrail_snapshot *snapshot,
                          void (*found)(const struct linux_mapped_file *file,
                                        void *opaque),
                          void *opaque);

#endif /* LINUX_TASKS_H */
