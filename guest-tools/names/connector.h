/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The kernel's process connector: what happens to tasks, where perf may not be
 * used.  It has neither mappings nor switches.
 */

#ifndef BTRAIL_CONNECTOR_H
#define BTRAIL_CONNECTOR_H

#include "batch.h"
#include "events.h"

struct connector;

/* Returns NULL if the kernel has none, or forbids it. */
struct connector *connector_open(void);
void connector_close(struct connector *c);

int connector_fd(const struct connector *c);

/* Adds what has happened to a batch. */
void connector_read(struct connector *c, struct batch *batch,
                    struct outbox *out, events_exec_fn *exec, void *opaque);

#endif /* BTRAIL_CONNECTOR_H */
