/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The capture of a guest
 *
 * One capture records everything that the sessions of a guest request
 * together.  It is started for the first session, changed when the requests
 * change, and stopped after the last session.
 */

#ifndef BTRAIL_GUEST_CAPTURE_H
#define BTRAIL_GUEST_CAPTURE_H

#include <json-glib/json-glib.h>

#include "drain/capture.h"
#include "service/guest-member.h"
#include "service/host.h"

/**
 * enum guest_capture_state
 *
 * @GUEST_CAPTURE_NONE:       there is none
 * @GUEST_CAPTURE_INSPECTING: another process has started it, and a thread
 *                            inspects its traces
 * @GUEST_CAPTURE_STARTING:   the device starts it, and has to make a data
 *                            connection
 * @GUEST_CAPTURE_ATTACHING:  the same of one that another process has started
 * @GUEST_CAPTURE_RUNNING:    it is drained
 * @GUEST_CAPTURE_ENDING:     it is drained to its end
 * @GUEST_CAPTURE_DETACHING:  it is handed over to another process
 */
enum guest_capture_state {
    GUEST_CAPTURE_NONE,
    GUEST_CAPTURE_INSPECTING,
    GUEST_CAPTURE_STARTING,
    GUEST_CAPTURE_ATTACHING,
    GUEST_CAPTURE_RUNNING,
    GUEST_CAPTURE_ENDING,
    GUEST_CAPTURE_DETACHING,
};

/**
 * struct guest_capture
 * @host:      of the guest
 * @link:      to its device
 * @members:   its sessions that are not done; of struct guest_member
 * @folder:    of its traces
 * @cpu:       limit of the CPU time that draining may use
 * @state:     changes only in guest-capture.c
 * @executing: commands that QEMU executes.  Their answers come before or after
 *             the end of the capture, so this is no part of @state
 * @name:      that the device knows the capture by; NULL without a capture
 * @capture:   the drain: while it runs or ends, and while it detaches from a
 *             data connection
 * @names:     what its sessions wanted when draining began: names or none
 * @filter:    as the device has it, see capture-filter.h
 * @given_up:  why the device has given up on this service, or NULL
 * @starting:  the session that the capture is started for
 */
struct guest_capture {
    struct host *host;
    struct guest_link *link;
    GPtrArray *members;
    struct folder *folder;
    struct cpu_limit *cpu;

    enum guest_capture_state state;
    unsigned executing;
    char *name;
    struct capture *capture;
    guint source;
    bool names;
    JsonObject *filter;
    char *given_up;
    struct guest_member *starting;
};

/* Takes the next step, if any, towards what the sessions request. */
void guest_capture_advance(struct guest_capture *c);

/* Does the capture wait for a data connection?  Pass it one; takes @sock. */
bool guest_capture_awaits_data(const struct guest_capture *c);
void guest_capture_data(struct guest_capture *c, int sock);

/* Can the guest be asked for names now?  Has it asked; takes @sock. */
bool guest_capture_asks(const struct guest_capture *c);
void guest_capture_ask(struct guest_capture *c, int sock);

/* Updates how long the capture has paused vCPUs, for the sessions. */
void guest_capture_update_paused(struct guest_capture *c);

/* Ends the sessions in the capture, and with @queued those that wait. */
void guest_capture_end_members(struct guest_capture *c, const char *why,
                               bool queued);

/* Stops or hands over the capture, if there is one. */
void guest_capture_stop(struct guest_capture *c);
void guest_capture_detach(struct guest_capture *c);

/*
 * Continue a capture that another process has started: first say its name,
 * then, once its sessions are queued, have QEMU connect to this process.
 */
void guest_capture_expect(struct guest_capture *c, const char *name);
void guest_capture_attach(struct guest_capture *c);

/* Forgets the capture, which the device does not have any more either. */
void guest_capture_forget(struct guest_capture *c);

/* Has the device stop the capture @name, which has no sessions. */
void guest_capture_stop_orphan(struct guest_capture *c, const char *name);

/* The event "agent-lost": QEMU has given up on this service. */
void guest_capture_lost(struct guest_capture *c, const char *name,
                        const char *reason);

/* What the next process must know, see state.h; NULL if there is no session */
JsonObject *guest_capture_save(const struct guest_capture *c);

/* The part of "status" about the capture */
JsonObject *guest_capture_status(const struct guest_capture *c);

#endif /* BTRAIL_GUEST_CAPTURE_H */
