/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail record --qmp SOCKET: see record.h
 */

#include <errno.h>
#include <glib-unix.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/record/record.h"
#include "cli/sessions.h"
#include "client/progress.h"
#include "drain/capture.h"
#include "monitor/qmp.h"
#include "util/clock.h"
#include "util/deadline.h"
#include "util/json.h"
#include "util/unix-socket.h"

#define QMP_TIMEOUT_MS      10000
/* Includes the wait for the capture to take the device's HELLO. */
#define START_TIMEOUT_MS    40000
#define PROGRESS_MS         1000

struct file_recording {
    const struct record_request *options;
    struct qmp *qmp;
    struct btrail_store *store;
    struct capture *capture;
    struct session *session;
    int guest;                  /* connection to it for names, or -1 */
    GMainLoop *loop;
    unsigned signals;
    uint64_t started;
    uint64_t last_progress;
    uint64_t last_records;
};

static JsonNode *execute(struct file_recording *r, const char *command,
                         JsonObject *arguments, int fd, int timeout_ms,
                         GError **error)
{
    return qmp_execute(r->qmp, command, arguments, fd, timeout_ms,
                       r->options->signal_fd, error);
}

static void explain_monitor(const struct file_recording *r, const GError *error)
{
    if (g_error_matches(error, AGENT_ERROR,
                        AGENT_ERROR_NO_COMMAND)) {
        cli_error("this QEMU (%s) cannot trace branches: it was built without "
                  "Backtrail's patches", qmp_version(r->qmp) ?
                  qmp_version(r->qmp) : "unknown version");
    } else if (g_error_matches(error, AGENT_ERROR,
                               AGENT_ERROR_NO_DEVICE)) {
        cli_error("this guest has no branch-trace device: start QEMU with "
                  "-device branch-trace");
    } else if (g_error_matches(error, AGENT_ERROR,
                               AGENT_ERROR_COMMAND)) {
        /* The reason is the user's, the name of the command is not. */
        const char *reason = strstr(error->message, ": ");

        cli_error("QEMU refuses: %s", reason ? reason + 2 : error->message);
    } else {
        cli_error("%s", error->message);
    }
}

/* Is there a device, and is its capture in the state that is wanted? */
static bool check_device(struct file_recording *r)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(JsonNode) node = execute(r, "query-branch-trace", NULL, -1,
                                       QMP_TIMEOUT_MS, &error);
    const char *state, *capture;
    JsonObject *info;
    bool active;

    if (!node) {
        explain_monitor(r, error);
        return false;
    }
    if (!JSON_NODE_HOLDS_OBJECT(node)) {
        cli_error("the reply of QEMU to query-branch-trace is malformed");
        return false;
    }
    info = json_node_get_object(node);
    state = btrail_json_string(info, "state");
    capture = btrail_json_string(info, "capture");
    active = state && strcmp(state, "inactive");
    if (active && !r->options->attach) {
        cli_error("capture '%s' is active already; end it with backtrail "
                  "stop --qmp, or take it over with --attach",
                  capture ? capture : "");
        return false;
    }
    if (!active && r->options->attach) {
        cli_error("no capture is active that could be taken over; "
                  "leave out --attach");
        return false;
    }
    return true;
}

/* Does the guest have the vCPUs that are asked for? */
static bool check_vcpus(struct file_recording *r)
{
    JsonObject *o = r->options->arguments;
    JsonArray *wanted = btrail_json_array(o, "vcpus");
    g_autoptr(JsonNode) node = NULL;
    guint n;
    gint64 last;

    if (!wanted) {
        return true;
    }
    node = execute(r, "query-cpus-fast", NULL, -1, QMP_TIMEOUT_MS, NULL);
    n = node && JSON_NODE_HOLDS_ARRAY(node) ?
        json_array_get_length(json_node_get_array(node)) : 0;
    last = btrail_json_element(wanted, json_array_get_length(wanted) - 1, -1);
    if (n && last >= n) {
        cli_error("the guest has no vCPU %" G_GINT64_FORMAT "; the last one it "
                  "has is %u", last, n - 1);
        return false;
    }
    return true;
}

/* Has the guest, which is to be traced from its start, not run yet? */
static bool check_not_run(struct file_recording *r)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(JsonNode) node = NULL;
    const char *status;

    if (!r->options->from_start) {
        return true;
    }
    node = execute(r, "query-status", NULL, -1, QMP_TIMEOUT_MS, &error);
    if (!node) {
        explain_monitor(r, error);
        return false;
    }
    status = JSON_NODE_HOLDS_OBJECT(node) ?
             btrail_json_string(json_node_get_object(node), "status") : NULL;
    if (g_strcmp0(status, "prelaunch")) {
        cli_error("--from-start: this guest has run already; start QEMU with "
                  "-S, which has it wait");
        return false;
    }
    return true;
}

static bool let_run(struct file_recording *r)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(JsonNode) node = NULL;

    if (!r->options->from_start) {
        return true;
    }
    node = execute(r, "cont", NULL, -1, QMP_TIMEOUT_MS, &error);
    if (!node) {
        explain_monitor(r, error);
    }
    return node;
}

static void collect_metadata(struct file_recording *r)
{
    g_autoptr(JsonNode) node = execute(r, "query-name", NULL, -1,
                                       QMP_TIMEOUT_MS, NULL);

    btrail_json_add(r->options->metadata, "S:guest",
                    node && JSON_NODE_HOLDS_OBJECT(node) ?
                    btrail_json_string(json_node_get_object(node), "name") :
                    NULL, "S:qemu", qmp_version(r->qmp), NULL);
}

static bool connect_monitor(struct file_recording *r)
{
    g_autoptr(GError) error = NULL;

    r->qmp = (r->options->from_start ? qmp_await : qmp_connect)(
        r->options->guest.qmp, QMP_TIMEOUT_MS, r->options->signal_fd, &error);
    if (!r->qmp) {
        cli_error("%s", error->message);
        return false;
    }
    if (!check_device(r) || !check_vcpus(r) || !check_not_run(r)) {
        return false;
    }
    collect_metadata(r);
    return true;
}

static void remove_output(struct file_recording *r)
{
    const char *path = r->options->store.path;
    struct stat st;

    if (!lstat(path, &st) && S_ISREG(st.st_mode)) {
        unlink(path);
    }
}

/* Passes @sock to QEMU and starts tracing into it. */
static bool start_tracing(struct file_recording *r, int sock, GError **error)
{
    g_autofree char *name = g_strdup_printf("backtrail-%d", (int)getpid());
    g_autoptr(JsonNode) got = NULL, started = NULL, closed = NULL;
    bool attach = r->options->attach;
    JsonObject *arguments;

    got = execute(r, "getfd", btrail_json_new("s:fdname", name, NULL), sock,
                  QMP_TIMEOUT_MS, error);
    if (!got) {
        return false;
    }
    arguments = attach ? json_object_new() :
                json_object_ref(r->options->arguments);
    btrail_json_add(arguments, "o:agent",
                    btrail_json_new("s:type", "fd", "s:str", name, NULL),
                    NULL);
    started = execute(r, attach ? "branch-trace-attach" : "branch-trace-start",
                      arguments, -1, START_TIMEOUT_MS, error);
    if (!started) {
        /* QEMU may have taken the descriptor, or not. */
        closed = qmp_execute(r->qmp, "closefd",
                             btrail_json_new("s:fdname", name, NULL),
                             -1, 1000, -1, NULL);
    }
    return started;
}

/* Connects to the guest's own program for names, if that is asked for. */
static bool connect_guest(struct file_recording *r)
{
    g_autoptr(GError) error = NULL;

    if (r->options->guest_names) {
        r->guest = unix_connect(r->options->guest_names, &error);
    }
    if (error) {
        cli_error("--guest-names: %s", error->message);
    }
    return !error;
}

/* Ends both, whichever has ended first. */
static void finish_capture(struct file_recording *r,
                           struct capture_result *capture,
                           struct session_result *session)
{
    capture_stop(r->capture);
    capture_finish(r->capture, capture);
    /* The session has the same error. */
    g_clear_error(&capture->error);
    session_finish(r->session, session);
}

static bool start(struct file_recording *r)
{
    struct session_settings options = {
        .store = r->store,
        .metadata = r->options->metadata,
    };
    struct capture_options capture = {
        .attached = r->options->attach,
        .names = g_strcmp0(r->options->session.names, "off"),
        .wait_for_scan = !g_strcmp0(r->options->session.names, "all"),
        .sessions = &r->session,
        .n_sessions = 1,
    };
    struct capture_result capture_result;
    struct session_result result;
    g_autoptr(GError) error = NULL;
    int socks[2];
    bool ok;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, socks) < 0) {
        cli_error("socketpair: %s", g_strerror(errno));
        btrail_store_close(r->store, NULL);
        remove_output(r);
        return false;
    }
    capture.sock = socks[0];
    r->session = session_new(&options, NULL);
    r->capture = capture_start(&capture);
    if (r->guest >= 0) {
        capture_ask_guest(r->capture, r->guest);
        r->guest = -1;
    }
    ok = start_tracing(r, socks[1], &error);
    close(socks[1]);
    if (ok) {
        return true;
    }

    finish_capture(r, &capture_result, &result);
    if (result.error && (result.error->code == AGENT_ERROR_PROTOCOL ||
                         result.error->code == AGENT_ERROR_OUTPUT)) {
        cli_error("%s", result.error->message);
    }
    g_clear_error(&result.error);
    g_free(result.no_names);
    explain_monitor(r, error);
    remove_output(r);
    return false;
}

static void print_progress(struct file_recording *r)
{
    uint64_t now = clock_ns();
    struct capture_progress c;
    struct session_progress s;
    g_autofree char *line = NULL;
    struct progress p;
    double rate;

    capture_progress(r->capture, &c);
    session_progress(r->session, &s);
    p = (struct progress) {
        .records = s.records,
        .bytes = s.bytes,
        .record_bytes = s.record_bytes,
        .lost = c.lost,
        .paused_ns = c.paused_ns,
    };
    rate = now > r->last_progress ?
           (p.records - r->last_records) * 1e9 / (now - r->last_progress) : 0;
    r->last_records = p.records;
    r->last_progress = now;
    line = progress_line(now - r->started, &p, rate);
    cli_fprintf(stderr, "\r%s", line);
}

/*
 * The first signal stops the session; after the second one its end is not
 * waited for.
 */
static gboolean on_signal(int fd, GIOCondition condition, void *opaque)
{
    struct file_recording *r = opaque;
    struct signalfd_siginfo info;
    sigset_t set;

    if (read(fd, &info, sizeof(info)) != sizeof(info)) {
        return G_SOURCE_CONTINUE;
    }
    if (info.ssi_signo == SIGTERM) {
        deadline_begin();
    }
    if (r->signals++) {
        signal(info.ssi_signo, SIG_DFL);
        sigemptyset(&set);
        sigaddset(&set, info.ssi_signo);
        sigprocmask(SIG_UNBLOCK, &set, NULL);
        raise(info.ssi_signo);
    }
    capture_stop(r->capture);
    return G_SOURCE_CONTINUE;
}

static gboolean on_duration(void *opaque)
{
    struct file_recording *r = opaque;

    capture_stop(r->capture);
    return G_SOURCE_REMOVE;
}

static gboolean on_progress(void *opaque)
{
    print_progress(opaque);
    return G_SOURCE_CONTINUE;
}

static gboolean on_done(int fd, GIOCondition condition, void *opaque)
{
    struct file_recording *r = opaque;

    g_main_loop_quit(r->loop);
    return G_SOURCE_CONTINUE;
}

static void wait_until_done(struct file_recording *r)
{
    bool progress = !r->options->quiet && isatty(STDERR_FILENO);
    GSource *end;

    r->loop = g_main_loop_new(NULL, FALSE);
    g_unix_fd_add(session_done_fd(r->session), G_IO_IN, on_done, r);
    g_unix_fd_add(r->options->signal_fd, G_IO_IN, on_signal, r);
    if (r->options->session.duration_ns) {
        /* May be longer than g_timeout_add() can wait */
        end = g_timeout_source_new(0);
        g_source_set_ready_time(
            end, (r->started + r->options->session.duration_ns) / 1000);
        g_source_set_callback(end, on_duration, r, NULL);
        g_source_attach(end, NULL);
        g_source_unref(end);
    }
    if (progress) {
        g_timeout_add(PROGRESS_MS, on_progress, r);
    }
    g_main_loop_run(r->loop);
    g_main_loop_unref(r->loop);
    if (progress) {
        /* The last rate is that of the whole recording. */
        r->last_progress = r->started;
        r->last_records = 0;
        print_progress(r);
        cli_fprintf(stderr, "\n");
    }
}

static int finish_file(struct file_recording *r)
{
    const char *path = r->options->store.path;
    struct capture_result capture;
    struct session_result result;
    int code = CLI_OK;

    finish_capture(r, &capture, &result);
    if (!r->options->quiet) {
        const struct progress p = {
            .records = result.progress.records,
            .bytes = result.progress.bytes,
            .record_bytes = result.progress.record_bytes,
            .lost = result.progress.lost,
            .paused_ns = capture.progress.paused_ns,
        };
        g_autofree char *sum = progress_sum(
            path, &p, btrail_reason_name(BTRAIL_EVENT_END, result.reason));

        cli_fprintf(stderr, "%s\n", sum);
    }
    if (result.no_names && !r->options->quiet) {
        cli_fprintf(stderr, "%s lacks names: %s\n", path, result.no_names);
    }
    g_free(result.no_names);
    if (r->options->session.cr3 && !result.progress.records && !result.error) {
        cli_session_explain_cr3(r->options->guest.qmp);
    }
    if (result.unexplained) {
        cli_error("%" G_GUINT64_FORMAT " records are missing, and QEMU has "
                  "reported no reason; the trace has GAP events in their "
                  "places",
                  result.unexplained);
        code = CLI_DAMAGED;
    }
    if (result.error) {
        cli_error("%s", result.error->message);
        code = result.error->code == AGENT_ERROR_CLOSED ?
               CLI_DAMAGED : CLI_FAILED;
        g_error_free(result.error);
    }
    return code;
}

int record_qmp(const struct record_request *options)
{
    struct file_recording r = { .options = options, .guest = -1 };
    int code = CLI_FAILED;

    if (connect_monitor(&r) && connect_guest(&r) &&
        (r.store = record_open_store(options)) && start(&r)) {
        bool runs = let_run(&r);

        /* Free the monitor for others: the capture has its own channel. */
        g_clear_pointer(&r.qmp, qmp_free);
        r.started = r.last_progress = clock_ns();
        if (!runs) {
            capture_stop(r.capture);
        }
        wait_until_done(&r);
        code = finish_file(&r);
        code = runs ? code : CLI_FAILED;
    }
    g_clear_pointer(&r.qmp, qmp_free);
    if (r.guest >= 0) {
        close(r.guest);
    }
    return code;
}
