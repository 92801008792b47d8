/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Waiting for a session of a guest, also when the connection is lost, the
 * service is restarted, or the guest ends
 */

#ifndef BTRAIL_CLIENT_SESSION_WAIT_H
#define BTRAIL_CLIENT_SESSION_WAIT_H

#include <glib.h>
#include <stdbool.h>

/* How often to call session_wait_poll() */
#define SESSION_WAIT_MS 500

/**
 * struct session_wait - what to wait for; all functions get @opaque
 * @is_connected: to what passes commands on to QEMU.  It is at the beginning
 * @lost:         the connection is: drop it
 * @connect:      connect again; false if that has failed
 * @ask:          ask for the session; false if there was no answer
 * @is_off:       has the guest ended?
 * @is_captured:  is it traced, whether its service answers or not?
 *
 * The first three are NULL where each question has a connection of its own.
 * What follows is private: times in microseconds of the monotonic clock.
 */
struct session_wait {
    void *opaque;
    bool (*is_connected)(void *opaque);
    void (*lost)(void *opaque);
    bool (*connect)(void *opaque);
    bool (*ask)(void *opaque);
    bool (*is_off)(void *opaque);
    bool (*is_captured)(void *opaque);

    bool disconnected;
    gint64 lost_since;      /* or 0 */
    gint64 reconnect_at;
    gint64 silent_since;    /* no answer since then, or 0 */
};

enum session_wait_result {
    SESSION_WAIT_ANSWERED,
    SESSION_WAIT_AGAIN,     /* no answer, but one may still come */
    SESSION_WAIT_LOST,      /* no connection for too long */
    SESSION_WAIT_OFF,       /* the guest has ended */
    SESSION_WAIT_NO_ANSWER, /* none is to be expected */
};

/* Asks once. */
enum session_wait_result session_wait_poll(struct session_wait *w);

#endif /* BTRAIL_CLIENT_SESSION_WAIT_H */
