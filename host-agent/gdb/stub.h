/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The connection to QEMU's gdbstub
 *
 * A request that lets the guest run is answered when the guest stops; all
 * others are answered at once.  While the guest runs, QEMU takes any byte that
 * it reads for an interrupt, so nothing is sent then.
 */

#ifndef BTRAIL_GDB_STUB_H
#define BTRAIL_GDB_STUB_H

#include "util/agent-error.h"

struct stub;

/* Takes a connected socket. */
struct stub *stub_new(int sock);
void stub_free(struct stub *s);

/* To wait for the end of a run: it becomes readable. */
int stub_fd(const struct stub *s);

/**
 * stub_ask - a request that is answered at once
 * @output: gets what QEMU's monitor prints; may be NULL
 *
 * Returns the payload of the answer, to be freed; @n, if not NULL, gets its
 * length.
 *
 * Errors: CLOSED, TIMEOUT, PROTOCOL, SYSTEM.
 */
char *stub_ask(struct stub *s, const char *request, GString *output,
               size_t *n, GError **error);

/* The same for a request that can have any bytes */
char *stub_forward(struct stub *s, const char *request, size_t length,
                   size_t *n, GError **error);

/* Lets the guest run; stub_stopped() has the answer. */
bool stub_run(struct stub *s, const char *request, GError **error);

/**
 * stub_stopped - what a run has ended with
 * @timeout_ms: how long to wait for it
 * @answer:     gets the payload, to be freed, or NULL if the guest still runs
 */
bool stub_stopped(struct stub *s, int timeout_ms, char **answer,
                  GError **error);

/* Stops the guest; the answer to what lets it run follows. */
bool stub_interrupt(struct stub *s, GError **error);

#endif /* BTRAIL_GDB_STUB_H */
