/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Waiting for a session: see session-wait.h
 */

#include "client/session-wait.h"

/* How long to wait without a connection, how soon to try to get another one,
 * and how often; and how long to wait without a service */
#define LOST            (30 * G_USEC_PER_SEC)
#define FIRST_RECONNECT (1 * G_USEC_PER_SEC)
#define RECONNECT       (2 * G_USEC_PER_SEC)
#define NO_SERVICE      (60 * G_USEC_PER_SEC)

/* How long a guest can seem to run whose QEMU has just been killed */
#define DYING           (2 * G_USEC_PER_SEC)

static bool is_connected(struct session_wait *w)
{
    return !w->is_connected || (!w->disconnected && w->is_connected(w->opaque));
}

/* Connects again if need be.  Returns false while there is no connection. */
static bool reconnect(struct session_wait *w, gint64 now)
{
    if (is_connected(w)) {
        w->lost_since = 0;
        return true;
    }
    if (!w->lost_since) {
        w->lost_since = now;
        w->reconnect_at = now + FIRST_RECONNECT;
    }
    if (!w->disconnected) {
        w->disconnected = true;
        w->lost(w->opaque);
    }
    if (now >= w->reconnect_at) {
        w->reconnect_at = now + RECONNECT;
        w->disconnected = !w->connect(w->opaque);
    }
    return !w->disconnected;
}

enum session_wait_result session_wait_poll(struct session_wait *w)
{
    gint64 now = g_get_monotonic_time();

    if (!reconnect(w, now)) {
        return now - w->lost_since < LOST ? SESSION_WAIT_AGAIN :
               SESSION_WAIT_LOST;
    }
    if (w->ask(w->opaque)) {
        w->silent_since = 0;
        return SESSION_WAIT_ANSWERED;
    }
    /* A connection that is lost does not know of the guest. */
    if (is_connected(w) && w->is_off(w->opaque)) {
        return SESSION_WAIT_OFF;
    }
    now = g_get_monotonic_time();
    if (!w->silent_since) {
        w->silent_since = now;
    }
    /* What was in the way may be found out the next time. */
    if (!is_connected(w) || now - w->silent_since < DYING) {
        return SESSION_WAIT_AGAIN;
    }
    /* The service of a guest that is traced is being restarted. */
    return now - w->silent_since < NO_SERVICE && w->is_captured(w->opaque) ?
           SESSION_WAIT_AGAIN : SESSION_WAIT_NO_ANSWER;
}
