/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Processes and threads of a guest's Linux
 */

#ifndef LINUX_TASKS_H
#define LINUX_TASKS_H

#include "backtrail/names.h"
#include "kernel.h"

#define LINUX_COMMAND_LINE_MAX  (64u << 10)

/**
 * linux_look() - look at the processes of a guest
 * @k: its kernel
 * @clock: tells the time, in nanoseconds
 *
 * Nothing that is torn is in it: what changed while it was read is read again,
 * or left out, and then the look is not BTRAIL_LOOK_WHOLE.
 *
 * Returns: the look, to be freed with linux_look_free().
 */
struct btrail_look *linux_look(struct linux_kernel *k,
                               uint64_t (*clock)(void));
void linux_look_free(struct btrail_look *look);

/**
 * linux_vdsos() - images of the vdso that processes of a look have
 *
 * Calls @found for each image, once.
 */
void linux_vdsos(struct linux_kernel *k, const struct btrail_look *look,
                 void (*found)(const uint8_t *data, size_t size, void *opaque),
                 void *opaque);

#endif /* LINUX_TASKS_H */
