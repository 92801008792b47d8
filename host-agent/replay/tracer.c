/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The trace of a recording: see tracer.h
 */

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "drain/capture.h"
#include "replay/fingerprint.h"
#include "replay/saved-checkpoints.h"
#include "replay/tracer.h"
#include "util/json.h"

/*
 * More than the caches of a host, so that the vCPU does not write to what the
 * agent's CPU has just read, and waits less often: while tasks are found, the
 * agent takes nothing.
 */
#define BUFFER_SIZE (UINT64_C(64) << 20)
#define CAPTURE     "replay"
#define FD_NAME     "replay-trace"
/* Includes the wait for the capture to take the device's HELLO. */
#define START_MS    60000
#define STOP_MS     600000
#define SAVE_NAME   "save-checkpoints"
/*
 * Host time of this replay between two checkpoints, each of which takes one
 * more of it.  A replay that is not traced comes as far in three quarters of
 * the time, and takes as long again for code that it has not executed yet.  So
 * 95 of 100 random places are reached in less than 100 ms.
 */
#define INTERVAL_MS 50

struct tracer {
    struct player *player;
    struct session *session;
    struct capture *capture;
    struct fingerprinter *fingerprinter;
};

static JsonObject *metadata(const struct recording *r)
{
    return btrail_json_new("s:recording", r->folder, "S:qemu",
                           r->qemu_version, NULL);
}

static bool open_session(struct tracer *t, const struct recording *r,
                         const char *path, GError **error)
{
    const struct btrail_store_options store = { .path = path };
    g_autoptr(JsonObject) facts = metadata(r);
    struct session_settings options = {
        .metadata = facts,
        .observer = fingerprinter_observer(t->fingerprinter),
    };

    /* A link in somebody's recording would lead out of it. */
    if ((unlink(path) && errno != ENOENT) ||
        btrail_store_open(&options.store, &store)) {
        return agent_error_errno(error, path);
    }
    t->session = session_new(&options, error);
    return t->session;
}

/* Has the device make a capture over a connection to us. */
static bool start_capture(struct tracer *t, GError **error)
{
    struct capture_options options = {
        .names = true,
        /* The guest does not notice, and its names are kept for good. */
        .wait_for_scan = true,
        .sessions = &t->session,
        .n_sessions = 1,
    };
    g_autoptr(JsonNode) started = NULL;
    int socks[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, socks) < 0) {
        return agent_error_errno(error, "socketpair");
    }
    options.sock = socks[0];
    t->capture = capture_start(&options);
    started = player_pass(t->player, FD_NAME, socks[1], error) ?
        player_execute(
            t->player, "branch-trace-start", btrail_json_new(
                "s:capture", CAPTURE, "s:overflow", "pause",
                "U:buffer-size", BUFFER_SIZE, "u:agent-timeout", 0,
                "o:agent", btrail_json_new("s:type", "fd", "s:str", FD_NAME,
                                           NULL), NULL),
            -1, START_MS, error) : NULL;
    close(socks[1]);
    return started;
}

/* The capture of a machine that was switched off has ended by itself. */
static bool stop_capture(struct tracer *t, GError **error)
{
    g_autoptr(GError) local = NULL;
    g_autoptr(JsonNode) stopped = player_execute(
        t->player, "branch-trace-stop",
        btrail_json_new("s:capture", CAPTURE, NULL), -1, STOP_MS, &local);

    if (!stopped && !g_error_matches(local, AGENT_ERROR,
                                     AGENT_ERROR_COMMAND)) {
        g_propagate_error(error, g_steal_pointer(&local));
        return false;
    }
    return true;
}

/* Ends what has begun; the trace is then closed. */
static bool finish(struct tracer *t, bool ok, struct tracer_result *result,
                   GError **error)
{
    struct session_result session = { 0 };
    struct capture_result capture = { 0 };

    if (t->capture) {
        if (!ok) {
            capture_stop(t->capture);
            /* The guest that waits is not there any more. */
            g_clear_pointer(&t->player, player_free);
        }
        capture_finish(t->capture, &capture);
        /* The session has the same error. */
        g_clear_error(&capture.error);
    }
    if (t->session) {
        session_finish(t->session, &session);
    }
    result->records = session.progress.records;
    result->no_names = session.no_names;
    if (session.error && ok) {
        g_propagate_error(error, session.error);
        ok = false;
    } else {
        g_clear_error(&session.error);
    }
    if (ok && session.progress.lost + session.unexplained) {
        g_set_error(error, AGENT_ERROR, AGENT_ERROR_PROTOCOL,
                    "the trace of the replay lacks records");
        ok = false;
    }
    result->prints = ok ? fingerprinter_finish(t->fingerprinter, error) : NULL;
    return result->prints;
}

static bool play(struct tracer *t, uint64_t until,
                 struct tracer_result *result, GError **error)
{
    bool ok = until == UINT64_MAX ? player_finish(t->player, error) :
              player_goto(t->player, until, error);

    result->diverged = !ok && player_diverged(t->player, &result->icount);
    return ok;
}

static bool write_checkpoints(struct tracer *t, int to, GError **error)
{
    bool passed = player_pass(t->player, SAVE_NAME, to, error);
    g_autoptr(JsonNode) saved = NULL;

    /* QEMU alone can end what is read from it. */
    close(to);
    saved = passed ? player_execute(
        t->player, "replay-checkpoints-save",
        btrail_json_new("s:fdname", SAVE_NAME, NULL), -1, STOP_MS, error) :
        NULL;
    return saved;
}

static bool save_checkpoints(struct tracer *t, const struct recording *r,
                             unsigned *count, GError **error)
{
    g_autoptr(JsonNode) node = player_checkpoints(t->player, error);
    JsonArray *icounts = node ? btrail_json_array(json_node_get_object(node),
                                                  "icounts") : NULL;
    struct checkpoint_saver *saver;
    g_autoptr(GError) local = NULL;
    int ends[2];
    bool ok;

    *count = icounts ? json_array_get_length(icounts) : 0;
    if (!node) {
        return false;
    }
    if (!*count) {
        return agent_fail(error, AGENT_ERROR_COMMAND,
                          "not even one of the guest's memory fits "
                          "into what they may have");
    }
    if (pipe2(ends, O_CLOEXEC)) {
        return agent_error_errno(error, "pipe");
    }
    saver = checkpoint_saver_start(r, player_program_sha256(t->player), *count,
                                   ends[0]);
    ok = write_checkpoints(t, ends[1], &local);
    /* If saving has failed, that is why QEMU could not write. */
    ok = checkpoint_saver_finish(saver, ok, error) && ok;
    if (!ok && error && !*error) {
        g_propagate_error(error, g_steal_pointer(&local));
    }
    return ok;
}

/* The trace is worth having without them. */
static void try_save_checkpoints(struct tracer *t, const struct recording *r,
                                 struct tracer_result *result)
{
    g_autoptr(GError) error = NULL;

    if (!save_checkpoints(t, r, &result->checkpoints, &error)) {
        result->checkpoints = 0;
        result->no_checkpoints = g_strdup(error->message);
    }
}

bool tracer_run(const struct player_options *options, uint64_t until,
                const char *path, struct tracer_result *result,
                GError **error)
{
    struct player_options o = *options;
    struct tracer t = { .fingerprinter = fingerprinter_new() };
    bool ok;

    memset(result, 0, sizeof(*result));
    o.trace = true;
    o.interval_ms = INTERVAL_MS;
    t.player = player_start(&o, error);
    if (!t.player) {
        fingerprinter_free(t.fingerprinter);
        return false;
    }
    ok = open_session(&t, o.recording, path, error) &&
         start_capture(&t, error) && play(&t, until, result, error) &&
         player_icount(t.player, &result->icount, error) &&
         stop_capture(&t, error);
    if (ok && o.checkpoints) {
        try_save_checkpoints(&t, o.recording, result);
    }
    ok = finish(&t, ok, result, error);
    player_free(t.player);
    fingerprinter_free(t.fingerprinter);
    if (!ok) {
        unlink(path);
        g_clear_pointer(&result->no_names, g_free);
        g_clear_pointer(&result->no_checkpoints, g_free);
    }
    return ok;
}
