/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What happens in the guest, as its kernel says: perf's records of tasks,
 * mappings and switches, or else the process connector's of tasks
 */

#ifndef BTRAIL_EVENTS_H
#define BTRAIL_EVENTS_H

#include "outbox.h"
#include "tsc.h"

struct events;

/* May this program use perf, as far as the kernel has it at all? */
bool events_permitted(void);

/* Processes to be described soon: they have begun another program. */
typedef void events_exec_fn(void *opaque, uint32_t pid);

/**
 * events_open - begin to follow all tasks
 * @switches: also which task each CPU runs
 * @has: gets BTRAIL_GUEST_HAS_*
 * @cpus: gets how many CPUs there are
 *
 * Returns NULL if the kernel permits none of it.
 */
struct events *events_open(bool switches, uint32_t *has, uint32_t *cpus);
void events_close(struct events *e);

/* Descriptors that become readable, at most @max; returns how many. */
unsigned events_fds(const struct events *e, int *fds, unsigned max);

/*
 * Sends what has happened, and UP_TO.  The clock is updated.
 */
void events_send(struct events *e, struct tsc_clock *clock, struct outbox *out,
                 events_exec_fn *exec, void *opaque);

#endif /* BTRAIL_EVENTS_H */
