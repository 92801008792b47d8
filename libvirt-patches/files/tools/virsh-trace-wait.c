/*
 * virsh-trace-wait.c: Wait for a trace session of a domain, across restarts
 *
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */

#include "virsh-trace-wait.h"

/* How long to wait without a connection, how soon to try to get another one,
 * and how often; and how long to wait without an agent */
#define VIRSH_TRACE_LOST (30 * G_USEC_PER_SEC)
#define VIRSH_TRACE_FIRST_RECONNECT (1 * G_USEC_PER_SEC)
#define VIRSH_TRACE_RECONNECT (2 * G_USEC_PER_SEC)
#define VIRSH_TRACE_NO_AGENT (60 * G_USEC_PER_SEC)

/* How long a domain can seem to run whose QEMU has just been killed */
#define VIRSH_TRACE_DYING (2 * G_USEC_PER_SEC)

static gboolean
virshTraceWaitAlive(virshTraceWait *w)
{
    return virConnectIsAlive(virDomainGetConnect(w->dom)) == 1;
}

/* Connects again if need be.  Returns FALSE while there is no connection. */
static gboolean
virshTraceWaitConnect(virshTraceWait *w,
                      gint64 now)
{
    if (w->dom && virshTraceWaitAlive(w)) {
        w->lost_since = 0;
        return TRUE;
    }

    if (!w->lost_since) {
        w->lost_since = now;
        w->reconnect_at = now + VIRSH_TRACE_FIRST_RECONNECT;
    }

    if (w->dom) {
        w->dom = NULL;
        w->lost(w->opaque);
    }

    if (now >= w->reconnect_at) {
        w->reconnect_at = now + VIRSH_TRACE_RECONNECT;
        w->dom = w->connect(w->opaque);
    }

    return w->dom != NULL;
}

/**
 * virshTraceWaitPoll:
 * @w: what to wait for
 *
 * Ask for a session once.  The domain may have been shut off meanwhile, and
 * libvirtd and the agent may have been restarted.
 */
virshTraceWaitResult
virshTraceWaitPoll(virshTraceWait *w)
{
    gint64 now = g_get_monotonic_time();

    if (!virshTraceWaitConnect(w, now)) {
        return now - w->lost_since < VIRSH_TRACE_LOST ?
            VIRSH_TRACE_WAIT_AGAIN : VIRSH_TRACE_WAIT_LOST;
    }

    if (virDomainIsActive(w->dom) == 0)
        return VIRSH_TRACE_WAIT_SHUT_OFF;

    if (w->ask(w->opaque)) {
        w->silent_since = 0;
        return VIRSH_TRACE_WAIT_ANSWERED;
    }

    now = g_get_monotonic_time();
    if (!w->silent_since)
        w->silent_since = now;

    /* What was in the way may be found out the next time. */
    if (!virshTraceWaitAlive(w) || virDomainIsActive(w->dom) == 0)
        return VIRSH_TRACE_WAIT_AGAIN;

    if (now - w->silent_since < VIRSH_TRACE_DYING)
        return VIRSH_TRACE_WAIT_AGAIN;

    /* The agent of a domain that is being traced is being restarted. */
    return now - w->silent_since < VIRSH_TRACE_NO_AGENT &&
           w->captured(w->opaque) ?
           VIRSH_TRACE_WAIT_AGAIN : VIRSH_TRACE_WAIT_NO_ANSWER;
}
