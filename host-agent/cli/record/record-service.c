/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail record of a session that the service runs: see record.h
 */

#include <glib-unix.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/record/record.h"
#include "cli/sessions.h"
#include "client/answer.h"
#include "client/session-wait.h"
#include "util/deadline.h"
#include "util/json.h"

struct service_recording {
    const struct record_request *options;
    struct cli_guest *guest;
    struct session_wait wait;
    GMainLoop *loop;
    GError *error;              /* of the last question */
    JsonObject *status;         /* of the session, the last one known */
    char *folder;
    char *file;                 /* with its folder */
    gint64 started;
    bool progress;
    bool told_missing;          /* what was not found at the beginning */
    bool stop;                  /* a signal has asked for it */
    bool stopping;              /* the service has been asked to stop */
    int code;                   /* to exit with, -1 while it waits */
};

static void print_status(const struct service_recording *r)
{
    struct progress p = answer_progress(r->status);
    g_autofree char *line = progress_line(
        (g_get_monotonic_time() - r->started) * 1000, &p, PROGRESS_NO_RATE);

    if (r->progress) {
        cli_fprintf(stderr, "\r%s", line);
    }
}

/* Ends the line of the progress. */
static void end_progress(const struct service_recording *r)
{
    if (r->progress) {
        cli_fprintf(stderr, "\n");
    }
}

static int end_domain(const struct service_recording *r)
{
    const char *why = answer_why(r->status);
    struct progress p = answer_progress(r->status);
    g_autofree char *sum = progress_sum(r->file, &p, why);

    print_status(r);
    end_progress(r);
    if (!r->options->quiet) {
        cli_fprintf(stderr, "%s\n", sum);
    }
    cli_session_explain_missing(r->guest, r->status);
    if (answer_has_failed(r->status)) {
        cli_error("%s is incomplete: %s", r->file, why ? why : "the service "
                  "does not say why");
        return CLI_DAMAGED;
    }
    return CLI_OK;
}

/*
 * What the wait calls
 */

static bool is_captured(void *opaque)
{
    struct service_recording *r = opaque;
    g_autoptr(JsonObject) info = cli_guest_execute(r->guest,
                                                   "query-branch-trace", NULL,
                                                   NULL);
    const char *state = info ? btrail_json_string(info, "state") : NULL;

    return state && strcmp(state, "inactive");
}

static void connection_lost(void *opaque)
{
    struct service_recording *r = opaque;

    end_progress(r);
    if (!r->options->quiet) {
        cli_fprintf(stderr, "the connection to libvirt is lost; trying to "
                    "reconnect\n");
    }
    cli_guest_close(r->guest);
}

static bool reconnect(void *opaque)
{
    struct service_recording *r = opaque;

    return cli_guest_open(r->guest, r->options->domain, NULL);
}

static bool is_connected(void *opaque)
{
    struct service_recording *r = opaque;

    return virConnectIsAlive(r->guest->domain.connection) == 1;
}

static bool is_off(void *opaque)
{
    struct service_recording *r = opaque;

    return cli_guest_is_off(r->guest);
}

static void set_status(struct service_recording *r, JsonObject *status)
{
    g_clear_pointer(&r->status, json_object_unref);
    r->status = status ? json_object_ref(status) : NULL;
}

/* Asks for the session, or stops it if that has been asked for. */
static bool ask(void *opaque)
{
    struct service_recording *r = opaque;
    bool stop = r->stop && !r->stopping;
    g_autoptr(JsonObject) answer = NULL;

    g_clear_error(&r->error);
    answer = cli_guest_ask(r->guest, btrail_json_new(
        "s:do", stop ? "stop" : "status",
        "s:session", r->options->session.session, NULL), &r->error);
    if (!answer) {
        return false;
    }
    r->stopping |= stop;
    set_status(r, stop ? answer : answer_last(answer, ANSWER_SESSIONS, NULL,
                                              NULL));
    return true;
}

/* The user can end it at once if a name is wrong. */
static void explain_missing(struct service_recording *r)
{
    if (!r->told_missing &&
        g_get_monotonic_time() - r->started > G_USEC_PER_SEC) {
        r->told_missing = true;
        cli_session_explain_missing(r->guest, r->status);
    }
}

/* Asks once.  Returns an exit code, or -1 to continue. */
static int poll_session(struct service_recording *r)
{
    const struct record_request *o = r->options;

    switch (session_wait_poll(&r->wait)) {
    case SESSION_WAIT_AGAIN:
        return -1;
    case SESSION_WAIT_LOST:
        cli_error("no connection to libvirt; session '%s' continues: "
                  "backtrail stop %s --session %s ends it",
                  o->session.session, o->domain, o->session.session);
        return CLI_FAILED;
    case SESSION_WAIT_OFF:
        end_progress(r);
        if (!o->quiet) {
            cli_fprintf(stderr, "%s: the guest has ended, and the session with "
                        "it\n", r->file);
        }
        return CLI_OK;
    case SESSION_WAIT_NO_ANSWER:
        cli_guest_explain(r->guest, r->error);
        return CLI_FAILED;
    case SESSION_WAIT_ANSWERED:
        break;
    }
    if (!r->status) {
        cli_error("%s: the service no longer knows session '%s'",
                  r->guest->name, o->session.session);
        return CLI_FAILED;
    }
    if (answer_has_ended(r->status)) {
        return end_domain(r);
    }
    explain_missing(r);
    print_status(r);
    return -1;
}

static gboolean on_time(void *opaque)
{
    struct service_recording *r = opaque;

    if (r->code < 0) {
        r->code = poll_session(r);
    }
    if (r->code >= 0) {
        g_main_loop_quit(r->loop);
    }
    return G_SOURCE_CONTINUE;
}

/* The session must end; another signal ends this process. */
static gboolean on_stop_signal(int fd, GIOCondition condition, void *opaque)
{
    struct service_recording *r = opaque;
    struct signalfd_siginfo info;
    sigset_t set;

    if (read(fd, &info, sizeof(info)) != sizeof(info)) {
        return G_SOURCE_CONTINUE;
    }
    if (info.ssi_signo == SIGTERM) {
        deadline_begin();
    }
    r->stop = true;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    on_time(r);
    return G_SOURCE_REMOVE;
}

/* Writes what a session of mode "last" has kept. */
static gboolean on_dump_signal(void *opaque)
{
    struct service_recording *r = opaque;
    g_autoptr(GError) error = NULL;
    g_autoptr(JsonObject) answer = cli_guest_ask(r->guest, btrail_json_new(
        "s:do", "dump", "s:session", r->options->session.session, NULL),
        &error);
    const char *file = answer ? btrail_json_string(answer, "file") : NULL;

    end_progress(r);
    if (!answer) {
        cli_guest_explain(r->guest, error);
    } else if (!r->options->quiet) {
        cli_fprintf(stderr, "dumped into %s/%s\n", r->folder,
                    file ? file : "");
    }
    return G_SOURCE_CONTINUE;
}

static int wait_for_service(struct service_recording *r)
{
    r->wait = (struct session_wait) {
        .opaque = r,
        .is_connected = r->options->domain ? is_connected : NULL,
        .lost = connection_lost,
        .connect = reconnect,
        .ask = ask,
        .is_off = is_off,
        .is_captured = is_captured,
    };
    r->code = -1;
    r->loop = g_main_loop_new(NULL, FALSE);
    g_timeout_add(SESSION_WAIT_MS, on_time, r);
    g_unix_fd_add(r->options->signal_fd, G_IO_IN, on_stop_signal, r);
    g_unix_signal_add(SIGUSR1, on_dump_signal, r);
    g_main_loop_run(r->loop);
    g_main_loop_unref(r->loop);
    return r->code;
}

int record_by_service(struct record_request *options)
{
    struct service_recording r = {
        .options = options,
        .guest = &options->guest,
    };
    g_autoptr(GError) error = NULL;
    g_autoptr(JsonObject) answer = NULL;
    const char *folder;

    if (!cli_guest_open(r.guest, options->domain, &error)) {
        cli_error("%s", error->message);
        return CLI_FAILED;
    }
    answer = cli_guest_ask(r.guest, json_object_ref(options->arguments),
                           &error);
    if (!answer) {
        cli_guest_explain(r.guest, error);
        r.code = CLI_FAILED;
    } else {
        folder = btrail_json_string(answer, "folder");
        r.folder = g_strdup(folder ? folder : "");
        r.file = answer_path(answer);
        r.started = g_get_monotonic_time();
        r.progress = !options->quiet && isatty(STDERR_FILENO);
        if (!options->quiet) {
            cli_fprintf(stderr, "%s is being traced into %s%s\n",
                        r.guest->name, r.file,
                        options->domain ? " on its host" : "");
        }
        r.code = wait_for_service(&r);
    }
    cli_guest_close(r.guest);
    set_status(&r, NULL);
    g_clear_error(&r.error);
    g_free(r.file);
    g_free(r.folder);
    return r.code;
}
