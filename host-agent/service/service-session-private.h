/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A session of a guest: shared by service-session-life.c, which makes and ends
 * it, -state.c, which describes it, and -dump.c
 */

#ifndef BTRAIL_SERVICE_SESSION_PRIVATE_H
#define BTRAIL_SERVICE_SESSION_PRIVATE_H

#include "service/service-session.h"

/**
 * struct btrail_service_session
 * @session:   of the drain; NULL once this one is done
 * @folder:    that the trace is in
 * @path:      of the trace, through @folder
 * @part:      path of the part that is written; NULL in mode "last"
 * @ring:      name of the ring's folder in the guest's folder, or NULL
 * @why:       the reason for the end, or NULL
 * @spoilt:    it counts as failed
 * @abandoned: nothing of it may stay
 * @detached:  the next process continues it
 * @added:     it is, or was, in a capture
 * @whole:     btrail_session_whole()
 * @keeping:   btrail_session_keeping()
 * @started, @ended: by g_get_real_time()
 * @past:      progress of the processes before
 * @paused_base, @limited_base: of the capture, when it was added
 * @resumed:   another process has started it
 * @ready:     BTRAIL_SERVICE_SESSION_READY is reported
 * @found:     triggers whose places were found
 * @over:      the drain session needs no source any more
 * @finishing: a thread finishes @session
 * @dumps:     threads that dump @session
 */
struct btrail_service_session {
    struct btrail_service_session_options options;
    unsigned refs;
    struct btrail_command *command;
    enum btrail_service_session_state state;
    struct btrail_session *session;
    int folder;
    char *path;
    char *part;
    char *ring;
    char *why;
    bool spoilt;
    bool abandoned;
    bool detached;
    bool added;
    bool whole;
    bool keeping;
    gint64 started, ended;
    struct btrail_session_progress progress, past;
    uint64_t paused_ns, paused_base;
    uint64_t limited_ns, limited_base;
    bool waited_known;
    guint done_source, fired_source, duration_source;
    bool resumed;
    bool ready;
    bool *found;
    bool over;
    bool finishing;
    unsigned dumps;
};

void service_session_unref(struct btrail_service_session *s);

/* Finishes the session once it is over and no thread uses it any more. */
void service_session_finish(struct btrail_service_session *s);

/* Updates @progress, @keeping and @whole from the drain. */
void service_session_update(struct btrail_service_session *s);

#endif /* BTRAIL_SERVICE_SESSION_PRIVATE_H */
