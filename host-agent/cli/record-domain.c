/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail record DOMAIN: see record.h
 */

#include <glib-unix.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/progress.h"
#include "cli/record.h"
#include "libvirt/domain.h"
#include "util/json.h"
#include "virsh-trace-wait.h"

/* How long QEMU waits for the service's answer */
#define TIMEOUT_MS  30000

struct domain_recording {
    const struct record_request *options;
    struct btrail_domain domain;
    virshTraceWait wait;
    GMainLoop *loop;
    GError *error;              /* of the last question */
    JsonObject *status;         /* of the session, the last one known */
    char *file;
    gint64 started;
    bool progress;
    bool stop;                  /* a signal has asked for it */
    bool stopping;              /* the service has been asked to stop */
    int code;                   /* to exit with, -1 while it waits */
};

static int explain_refusal(const struct domain_recording *r,
                           const GError *error)
{
    const char *name = r->options->domain;

    if (g_error_matches(error, BTRAIL_AGENT_ERROR,
                        BTRAIL_AGENT_ERROR_NO_COMMAND) ||
        g_error_matches(error, BTRAIL_AGENT_ERROR,
                        BTRAIL_AGENT_ERROR_NO_DEVICE)) {
        cli_error("%s cannot be traced as it runs: backtrail enable %s, then "
                  "shut it down and start it; backtrail doctor %s says what "
                  "is missing", name, name, name);
    } else {
        cli_error("%s: %s", name, error->message);
    }
    return CLI_FAILED;
}

/* The session in the answer to "status".  Earlier ones of the same name may
 * have ended before it. */
static JsonObject *last_session(JsonObject *answer)
{
    JsonArray *array = btrail_json_array(answer, "sessions");
    unsigned n = array ? json_array_get_length(array) : 0;
    JsonNode *last = n ? json_array_get_element(array, n - 1) : NULL;

    return last && JSON_NODE_HOLDS_OBJECT(last) ?
           json_node_get_object(last) : NULL;
}

static bool has_ended(JsonObject *session)
{
    JsonNode *ended = json_object_get_member(session, "ended");

    return ended && !JSON_NODE_HOLDS_NULL(ended);
}

static guint64 status_number(JsonObject *session, const char *name)
{
    return MAX(0, btrail_json_int(session, name, 0));
}

static struct progress progress_of(JsonObject *session)
{
    return (struct progress) {
        .records = status_number(session, "records"),
        .bytes = status_number(session, "bytes"),
        .record_bytes = status_number(session, "record-bytes"),
        .lost = status_number(session, "lost"),
        .paused_ns = status_number(session, "paused-ns"),
    };
}

static void print_status(const struct domain_recording *r)
{
    struct progress p = progress_of(r->status);

    if (r->progress) {
        progress_print(stderr, (g_get_monotonic_time() - r->started) * 1000,
                       &p, PROGRESS_NO_RATE);
    }
}

/* Ends the line of the progress. */
static void end_progress(const struct domain_recording *r)
{
    if (r->progress) {
        cli_fprintf(stderr, "\n");
    }
}

static int end_domain(const struct domain_recording *r)
{
    const char *why = btrail_json_string(r->status, "why");
    const char *state = btrail_json_string(r->status, "state");
    struct progress p = progress_of(r->status);

    print_status(r);
    end_progress(r);
    if (!r->options->quiet) {
        progress_sum(stderr, r->file, &p, why);
    }
    if (!g_strcmp0(state, "failed")) {
        cli_error("%s is incomplete: %s", r->file, why ? why : "the service "
                  "does not say why");
        return CLI_DAMAGED;
    }
    return CLI_OK;
}

/*
 * What the wait calls
 */

static gboolean is_captured(void *opaque)
{
    struct domain_recording *r = opaque;
    g_autoptr(JsonObject) info = btrail_domain_execute(&r->domain,
                                                       "query-branch-trace",
                                                       NULL, NULL);
    const char *state = info ? btrail_json_string(info, "state") : NULL;

    return state && strcmp(state, "inactive");
}

static void connection_lost(void *opaque)
{
    struct domain_recording *r = opaque;

    end_progress(r);
    if (!r->options->quiet) {
        cli_fprintf(stderr, "the connection to libvirt is lost; trying to "
                    "reconnect\n");
    }
    btrail_domain_close(&r->domain);
}

static virDomainPtr reconnect(void *opaque)
{
    struct domain_recording *r = opaque;

    btrail_domain_open(&r->domain, r->options->connect, r->options->domain,
                       NULL);
    return r->domain.domain;
}

static void set_status(struct domain_recording *r, JsonObject *status)
{
    g_clear_pointer(&r->status, json_object_unref);
    r->status = status ? json_object_ref(status) : NULL;
}

/* Asks for the session, or stops it if that has been asked for. */
static gboolean ask(void *opaque)
{
    struct domain_recording *r = opaque;
    bool stop = r->stop && !r->stopping;
    g_autoptr(JsonObject) answer = NULL;

    g_clear_error(&r->error);
    answer = btrail_domain_ask_agent(
        &r->domain, btrail_json_new("s:do", stop ? "stop" : "status",
                                    "s:session", r->options->session, NULL),
        TIMEOUT_MS, &r->error);
    if (!answer) {
        return FALSE;
    }
    r->stopping |= stop;
    set_status(r, stop ? answer : last_session(answer));
    return TRUE;
}

/* Asks once.  Returns an exit code, or -1 to continue. */
static int poll_session(struct domain_recording *r)
{
    const struct record_request *o = r->options;

    switch (virshTraceWaitPoll(&r->wait)) {
    case VIRSH_TRACE_WAIT_AGAIN:
        return -1;
    case VIRSH_TRACE_WAIT_LOST:
        cli_error("no connection to libvirt; session '%s' continues: "
                  "backtrail-virsh trace-stop %s --session %s ends it",
                  o->session, o->domain, o->session);
        return CLI_FAILED;
    case VIRSH_TRACE_WAIT_SHUT_OFF:
        end_progress(r);
        if (!o->quiet) {
            cli_fprintf(stderr, "%s: the guest has ended, and the session with "
                        "it\n", r->file);
        }
        return CLI_OK;
    case VIRSH_TRACE_WAIT_NO_ANSWER:
        return explain_refusal(r, r->error);
    case VIRSH_TRACE_WAIT_ANSWERED:
        break;
    }
    if (!r->status) {
        cli_error("%s: the service no longer knows session '%s'", o->domain,
                  o->session);
        return CLI_FAILED;
    }
    if (has_ended(r->status)) {
        return end_domain(r);
    }
    print_status(r);
    return -1;
}

static gboolean on_time(void *opaque)
{
    struct domain_recording *r = opaque;

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
    struct domain_recording *r = opaque;
    struct signalfd_siginfo info;
    sigset_t set;

    if (read(fd, &info, sizeof(info)) != sizeof(info)) {
        return G_SOURCE_CONTINUE;
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

static int wait_for_service(struct domain_recording *r)
{
    r->wait = (virshTraceWait) {
        .dom = r->domain.domain,
        .opaque = r,
        .lost = connection_lost,
        .connect = reconnect,
        .ask = ask,
        .captured = is_captured,
    };
    r->code = -1;
    r->loop = g_main_loop_new(NULL, FALSE);
    g_timeout_add(VIRSH_TRACE_POLL_MS, on_time, r);
    g_unix_fd_add(r->options->signal_fd, G_IO_IN, on_stop_signal, r);
    g_main_loop_run(r->loop);
    g_main_loop_unref(r->loop);
    return r->code;
}

int record_domain(const struct record_request *options)
{
    struct domain_recording r = { .options = options };
    g_autoptr(GError) error = NULL;
    g_autoptr(JsonObject) answer = NULL;
    const char *file, *folder;

    if (!btrail_domain_open(&r.domain, options->connect, options->domain,
                            &error)) {
        cli_error("%s", error->message);
        return CLI_FAILED;
    }
    answer = btrail_domain_ask_agent(&r.domain,
                                     json_object_ref(options->arguments),
                                     TIMEOUT_MS, &error);
    if (!answer) {
        r.code = explain_refusal(&r, error);
    } else {
        file = btrail_json_string(answer, "file");
        folder = btrail_json_string(answer, "folder");
        r.file = g_strdup(file ? file : options->session);
        r.started = g_get_monotonic_time();
        r.progress = !options->quiet && isatty(STDERR_FILENO);
        if (!options->quiet) {
            cli_fprintf(stderr, "%s is being traced into %s%s%s on its host\n",
                        options->domain, folder ? folder : "",
                        folder ? "/" : "", r.file);
        }
        r.code = wait_for_service(&r);
    }
    btrail_domain_close(&r.domain);
    set_status(&r, NULL);
    g_clear_error(&r.error);
    g_free(r.file);
    return r.code;
}
