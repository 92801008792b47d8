/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail record DOMAIN: see record-domain.h
 */

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "cli/cli.h"
#include "libvirt/guest.h"
#include "util/json.h"
#include "cli/progress.h"
#include "cli/record-domain.h"

#define START_TIMEOUT_MS    30000
#define STATUS_TIMEOUT_MS   30000
#define POLL_MS             500

/* How long a wait goes on without a connection, when it tries to get one at
 * first and again, and how long it goes on without the service; microseconds */
#define LOST                (30 * G_USEC_PER_SEC)
#define FIRST_RECONNECT     (1 * G_USEC_PER_SEC)
#define RECONNECT           (2 * G_USEC_PER_SEC)
#define NO_SERVICE          (60 * G_USEC_PER_SEC)

struct recording {
    const struct cli_record_domain *options;
    struct cli_guest guest;
    gint64 started;
    bool progress;
    bool interrupted;           /* the session is to be stopped */
    bool stopped;               /* it was told to */
    gint64 lost;                /* when the connection was, or 0 */
    gint64 again;               /* when the next one is tried */
    gint64 mute;                /* since when the service is, or 0 */
    char *file;
};

static int explain(const struct recording *r, enum cli_guest_refusal refusal,
                   const char *why)
{
    const char *name = r->options->name;

    if (refusal == CLI_GUEST_NO_COMMAND || refusal == CLI_GUEST_NO_DEVICE) {
        cli_error("%s cannot be traced as it runs: backtrail enable %s, then "
                  "shut it down and start it; backtrail doctor %s says what "
                  "is missing", name, name, name);
    } else {
        cli_error("%s: %s", name, why);
    }
    return CLI_FAILED;
}

static JsonObject *about(const struct recording *r, const char *what)
{
    JsonObject *command = json_object_new();

    json_object_set_string_member(command, "do", what);
    json_object_set_string_member(command, "session", r->options->session);
    return command;
}

/* The session in the answer to "status", which belongs to @node.  Others of
 * this name may have ended before it. */
static JsonObject *last_session(JsonNode *node)
{
    JsonNode *sessions = json_object_get_member(json_node_get_object(node),
                                                "sessions");
    JsonArray *array = sessions && JSON_NODE_HOLDS_ARRAY(sessions) ?
                       json_node_get_array(sessions) : NULL;
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

static guint64 number(JsonObject *session, const char *name)
{
    return MAX(0, btrail_json_int(session, name, 0));
}

static void read_progress(JsonObject *session, struct progress *p)
{
    *p = (struct progress) {
        .records = number(session, "records"),
        .bytes = number(session, "bytes"),
        .lost = number(session, "lost"),
        .paused_ns = number(session, "paused-ns"),
    };
}

static void print_progress(const struct recording *r, JsonObject *session)
{
    struct progress p;

    if (r->progress) {
        read_progress(session, &p);
        progress_print(stderr, (g_get_monotonic_time() - r->started) * 1000,
                       &p, PROGRESS_NO_RATE);
    }
}

static int finish(const struct recording *r, JsonObject *session)
{
    const char *why = btrail_json_string(session, "why");
    const char *state = btrail_json_string(session, "state");
    struct progress p;

    print_progress(r, session);
    if (r->progress) {
        fputc('\n', stderr);
    }
    if (!r->options->quiet) {
        read_progress(session, &p);
        progress_sum(stderr, r->file, &p, why);
    }
    if (!g_strcmp0(state, "failed")) {
        cli_error("%s is incomplete: %s", r->file, why ? why : "the service "
                  "does not say why");
        return CLI_DAMAGED;
    }
    return CLI_OK;
}

/* Is the guest being traced, although its agent cannot be asked?  Then the
 * service is about to be there again. */
static bool is_captured(struct recording *r)
{
    g_autofree char *why = NULL;
    g_autoptr(JsonNode) node = cli_guest_execute(&r->guest,
                                                 "query-branch-trace", NULL,
                                                 NULL, &why);
    const char *state = node ? btrail_json_string(json_node_get_object(node),
                                                  "state") : NULL;

    return state && strcmp(state, "inactive");
}

/* Have a connection again, if it is lost, or false */
static bool connected(struct recording *r)
{
    gint64 now = g_get_monotonic_time();
    g_autofree char *why = NULL;

    if (r->guest.connection && virConnectIsAlive(r->guest.connection) == 1) {
        r->lost = 0;
        return true;
    }
    if (!r->lost) {
        if (r->progress) {
            fputc('\n', stderr);
        }
        if (!r->options->quiet) {
            fprintf(stderr, "the connection to libvirt is lost; trying to get "
                    "another one\n");
        }
        r->lost = now;
        r->again = now + FIRST_RECONNECT;
        cli_guest_close(&r->guest);
    }
    if (now < r->again) {
        return false;
    }
    r->again = now + RECONNECT;
    return cli_guest_open(&r->guest, r->options->connect, r->options->name,
                          &why);
}

static int leave(const struct recording *r)
{
    cli_error("no connection to libvirt; session '%s' goes on: virsh "
              "trace-stop %s --session %s ends it", r->options->session,
              r->options->name, r->options->session);
    return CLI_FAILED;
}

/* Is it too early to say that there is no answer?  The guest may have ended,
 * libvirt or the service may be about to be there again. */
static bool may_return(struct recording *r)
{
    gint64 now = g_get_monotonic_time();

    if (!r->mute) {
        r->mute = now;
    }
    return virConnectIsAlive(r->guest.connection) != 1 ||
           virDomainIsActive(r->guest.domain) == 0 ||
           (now - r->mute < NO_SERVICE && is_captured(r));
}

/* One look at the session, after having stopped it if that is due: -1 to go
 * on, or an exit code */
static int look(struct recording *r)
{
    enum cli_guest_refusal refusal = CLI_GUEST_REFUSED;
    bool stop = r->interrupted && !r->stopped;
    g_autofree char *why = NULL;
    g_autoptr(JsonNode) node = NULL;
    JsonObject *session;

    if (!connected(r)) {
        return g_get_monotonic_time() - r->lost < LOST ? -1 : leave(r);
    }
    if (virDomainIsActive(r->guest.domain) == 0) {
        if (r->progress) {
            fputc('\n', stderr);
        }
        if (!r->options->quiet) {
            fprintf(stderr, "%s: the guest has ended, and the session with "
                    "it\n", r->file);
        }
        return CLI_OK;
    }
    node = cli_guest_ask_agent(&r->guest, about(r, stop ? "stop" : "status"),
                               STATUS_TIMEOUT_MS, &refusal, &why);
    if (!node) {
        return may_return(r) ? -1 : explain(r, refusal, why);
    }
    r->mute = 0;
    r->stopped |= stop;
    session = stop ? json_node_get_object(node) : last_session(node);
    if (!session) {
        return explain(r, refusal, "the service does not know the session "
                       "any more");
    }
    if (has_ended(session)) {
        return finish(r, session);
    }
    print_progress(r, session);
    return -1;
}

/* The session is to end; another signal ends this process. */
static void interrupt(struct recording *r)
{
    sigset_t set;

    r->interrupted = true;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
}

static int wait_for_end(struct recording *r)
{
    struct pollfd fd = { .fd = r->options->signal_fd, .events = POLLIN };
    struct signalfd_siginfo info;
    int code = -1;

    while (code < 0) {
        if (poll(&fd, 1, POLL_MS) < 0 && errno != EINTR) {
            cli_error("poll: %s", g_strerror(errno));
            return CLI_FAILED;
        }
        if (fd.revents) {
            if (read(fd.fd, &info, sizeof(info)) != sizeof(info)) {
                return CLI_FAILED;
            }
            interrupt(r);
        }
        code = look(r);
    }
    return code;
}

int cli_record_domain(const struct cli_record_domain *options)
{
    struct recording r = { .options = options };
    enum cli_guest_refusal refusal;
    g_autofree char *why = NULL;
    g_autoptr(JsonNode) node = NULL;
    const char *file;
    int code;

    if (!cli_guest_open(&r.guest, options->connect, options->name, &why)) {
        cli_error("%s", why);
        return CLI_FAILED;
    }
    node = cli_guest_ask_agent(&r.guest, json_object_ref(options->command),
                               START_TIMEOUT_MS, &refusal, &why);
    if (!node) {
        code = explain(&r, refusal, why);
    } else {
        file = btrail_json_string(json_node_get_object(node), "file");
        r.file = g_strdup(file ? file : options->session);
        r.started = g_get_monotonic_time();
        r.progress = !options->quiet && isatty(STDERR_FILENO);
        if (!options->quiet) {
            fprintf(stderr, "%s is being traced into %s on its host\n",
                    options->name, r.file);
        }
        code = wait_for_end(&r);
    }
    cli_guest_close(&r.guest);
    g_free(r.file);
    return code;
}
