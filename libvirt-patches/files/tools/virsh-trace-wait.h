/*
 * virsh-trace-wait.h: Wait for a trace session of a domain, across restarts
 *
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Uses nothing but libvirt's public API and GLib: "backtrail record" compiles
 * this file, too.
 */

#pragma once

#include <glib.h>
#include <libvirt/libvirt.h>

/* How often to call virshTraceWaitPoll() */
#define VIRSH_TRACE_POLL_MS 500

typedef struct _virshTraceWait virshTraceWait;
struct _virshTraceWait {
    /* NULL while there is no connection; the reference is the caller's. */
    virDomainPtr dom;
    void *opaque;

    /* The connection is lost: drop all references to it. */
    void (*lost)(void *opaque);
    /* Connect again.  Returns the domain, or NULL. */
    virDomainPtr (*connect)(void *opaque);
    /* Ask the trace agent.  Returns whether it has answered. */
    gboolean (*ask)(void *opaque);
    /* Is the domain being traced, whether its agent answers or not? */
    gboolean (*captured)(void *opaque);

    /* Private; microseconds of the monotonic clock */
    gint64 lost_since; /* or 0 */
    gint64 reconnect_at;
    gint64 silent_since; /* no answer since then, or 0 */
};

typedef enum {
    VIRSH_TRACE_WAIT_ANSWERED,
    VIRSH_TRACE_WAIT_AGAIN, /* no answer, but one may still come */
    VIRSH_TRACE_WAIT_LOST, /* no connection for too long */
    VIRSH_TRACE_WAIT_SHUT_OFF, /* the domain does not run any more */
    VIRSH_TRACE_WAIT_NO_ANSWER, /* none is to be expected */
} virshTraceWaitResult;

virshTraceWaitResult
virshTraceWaitPoll(virshTraceWait *w);
