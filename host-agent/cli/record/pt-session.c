/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail start --pt: see pt-session.h
 */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/own-service.h"
#include "cli/pt-sessions.h"
#include "cli/record/pt-session.h"
#include "cli/record/record-pt.h"
#include "client/answer.h"
#include "service/folder.h"
#include "util/agent-error.h"
#include "util/close.h"
#include "util/deadline.h"
#include "util/event-fd.h"
#include "util/json.h"
#include "util/server-socket.h"
#include "util/wait.h"
#include "util/whole-io.h"

#define MAX_REQUEST     65536
#define REQUEST_US      (5 * G_USEC_PER_SEC)
#define NAMES           1000
#define QMP_TIMEOUT_MS  10000

/**
 * struct pt_session
 * @process: its socket, facts and log
 * @facts:   as pt_sessions_find() finds them; @session is a part
 * @file:    of the last trace, or NULL
 * @waiting: sockets that have connected
 * @events:  readable when there is a signal, or somebody has connected
 */
struct pt_session {
    struct record_request *request;
    struct pt_recording *recording;
    struct folder *folder;
    struct server_socket *server;
    char *socket, *file_of_facts, *log;
    JsonObject *facts, *session;
    const char *file;
    GQueue *waiting;
    int connected;
    int events;
    bool ended;
    int code;
};

/*
 * Traces
 */

static const char *name_of(const struct pt_session *s)
{
    return btrail_json_string(s->session, "session");
}

/* The path of a trace, below the guest's folder; sets *@name. */
static char *place(struct pt_session *s, const char *file, char **name,
                   GError **error)
{
    g_autofree char *path = NULL;
    int fd = -1;

    *name = file ? folder_check_name(file, error) :
            folder_default_name(name_of(s), NULL);
    /* Folders on the way are made; they are this user's. */
    path = *name ? folder_place(s->folder, *name, &fd, error) : NULL;
    btrail_close(fd);
    return path ? g_build_filename(s->folder->path, *name, NULL) : NULL;
}

/* Writes one, and says what there is of it in @answer. */
static int write_trace(struct pt_session *s, const char *file, int cancel_fd,
                       JsonObject *answer)
{
    g_autoptr(GError) error = NULL;
    g_autofree char *name = NULL;
    g_autofree char *path = place(s, file, &name, &error);
    struct pt_written written = { 0 };
    int code = CLI_FAILED;

    if (path) {
        s->request->store.path = path;
        code = pt_recording_write(s->recording, cancel_fd, &written);
        s->request->store.path = NULL;
    } else {
        cli_error("%s", error->message);
    }
    btrail_json_add(answer, "s:folder", s->folder->path, "S:file", name,
                    "U:records", written.records, "U:bytes", written.bytes,
                    "s:state", code == CLI_FAILED ? "failed" : "written",
                    NULL);
    return code;
}

/*
 * Requests
 */

static void on_connected(void *opaque, int sock)
{
    struct pt_session *s = opaque;

    g_queue_push_tail(s->waiting, GINT_TO_POINTER(sock));
    event_fd_set(s->connected);
}

/* The last descriptor that came along, as *@fd; others are closed. */
static ssize_t receive(int sock, char *bytes, size_t size, int *fd)
{
    struct iovec iov = { bytes, size };
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    struct msghdr message = {
        .msg_iov = &iov, .msg_iovlen = 1,
        .msg_control = &control, .msg_controllen = sizeof(control),
    };
    ssize_t n = recvmsg(sock, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    struct cmsghdr *c = n >= 0 ? CMSG_FIRSTHDR(&message) : NULL;

    if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
        c->cmsg_len == CMSG_LEN(sizeof(int))) {
        btrail_close(*fd);
        memcpy(fd, CMSG_DATA(c), sizeof(*fd));
    }
    return n;
}

/* A line of JSON; NULL if there is none in time */
static JsonNode *read_request(int sock, int *fd)
{
    gint64 deadline = g_get_monotonic_time() + REQUEST_US;
    g_autoptr(GString) text = g_string_new(NULL);
    char bytes[4096];

    while (text->len < MAX_REQUEST && !strchr(text->str, '\n')) {
        ssize_t n;

        if (!wait_for_fd(sock, POLLIN, deadline, -1, "", NULL)) {
            return NULL;
        }
        n = receive(sock, bytes, sizeof(bytes), fd);
        if (n < 0 && (errno == EINTR || errno == EAGAIN)) {
            continue;
        }
        if (n <= 0) {
            return NULL;
        }
        g_string_append_len(text, bytes, n);
    }
    return btrail_json_parse_object(text->str);
}

/* Standard error is another's for a while; it was the log. */
static int lend_errors(int fd)
{
    int own = fd >= 0 ? fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3) : -1;

    if (own >= 0) {
        dup2(fd, STDERR_FILENO);
    }
    return own;
}

static void take_errors(int own)
{
    if (own >= 0) {
        dup2(own, STDERR_FILENO);
        close(own);
    }
}

static void end(struct pt_session *s, const char *why)
{
    btrail_json_set_time(s->session, "ended", g_get_real_time() /
                         G_USEC_PER_SEC);
    btrail_json_add(s->session, "S:why", why, NULL);
    if (!g_strcmp0(btrail_json_string(s->session, "state"), "active")) {
        json_object_set_string_member(s->session, "state", "ended");
    }
    s->ended = true;
}

/* The last trace, and the end */
static void finish(struct pt_session *s, int cancel_fd, const char *why)
{
    s->code = write_trace(s, s->file, cancel_fd, s->session);
    if (s->code != CLI_FAILED) {
        json_object_set_string_member(s->session, "state", "ended");
    }
    end(s, why);
}

static JsonObject *answer_to(struct pt_session *s, JsonObject *request,
                             int sock)
{
    const char *what = btrail_json_string(request, "do");
    JsonObject *answer;

    if (!g_strcmp0(what, "status")) {
        return json_object_ref(s->facts);
    }
    if (!g_strcmp0(what, "dump")) {
        answer = btrail_json_new("s:session", name_of(s), NULL);
        write_trace(s, btrail_json_string(request, "file"), sock, answer);
        return answer;
    }
    if (!g_strcmp0(what, "stop")) {
        finish(s, sock, NULL);
        return json_object_ref(s->session);
    }
    return btrail_json_new("s:error", "the session is one of another version "
                           "of Backtrail", NULL);
}

static void serve(struct pt_session *s, int sock)
{
    int fd = -1;
    g_autoptr(JsonNode) request = read_request(sock, &fd);
    g_autoptr(JsonObject) answer = NULL;
    g_autofree char *text = NULL;
    int own;

    if (request) {
        own = lend_errors(fd);
        answer = answer_to(s, json_node_get_object(request), sock);
        fflush(stderr);
        take_errors(own);
        text = btrail_json_text(answer, FALSE);
        /* It is as small as what a socket takes at once. */
        send(sock, text, strlen(text), MSG_NOSIGNAL);
    }
    btrail_close(fd);
    close(sock);
}

static void serve_waiting(struct pt_session *s)
{
    server_socket_accept(s->server);
    event_fd_clear(s->connected);
    while (!g_queue_is_empty(s->waiting) && !s->ended) {
        serve(s, GPOINTER_TO_INT(g_queue_pop_head(s->waiting)));
    }
}

/*
 * The process
 */

static bool watch_fd(struct pt_session *s, int fd)
{
    struct epoll_event e = { .events = EPOLLIN, .data.fd = fd };

    return !epoll_ctl(s->events, EPOLL_CTL_ADD, fd, &e);
}

static bool take_signal(const struct pt_session *s)
{
    struct signalfd_siginfo info;

    if (read(s->request->signal_fd, &info, sizeof(info)) != sizeof(info)) {
        return false;
    }
    if (info.ssi_signo == SIGTERM) {
        deadline_begin();
    }
    return true;
}

/* Until it is to end; false after an error: the guest is gone. */
static bool trace(struct pt_session *s)
{
    struct pt_guest *guest = pt_recording_guest(s->recording);
    uint64_t us = s->request->session.duration_ns / 1000;
    gint64 begin = g_get_monotonic_time();
    gint64 until = us && us < (uint64_t)(INT64_MAX - begin) ?
                   begin + (gint64)us : 0;
    bool cancelled, runs;

    while (!s->ended) {
        if (!pt_guest_wait(guest, until, s->events, &cancelled)) {
            return false;
        }
        if (cancelled && take_signal(s)) {
            /* A second one ends the decoding. */
            finish(s, -1, "a signal");
        } else if (cancelled) {
            serve_waiting(s);
        } else if (until && g_get_monotonic_time() >= until) {
            finish(s, -1, "its time is over");
        } else if (!pt_guest_runs(guest, -1, &runs)) {
            return false;
        } else if (!runs || !guest->watch) {
            /* libvirt can say late that it was stopped for a trace. */
            finish(s, -1, "the guest was stopped, or has panicked");
        }
    }
    return true;
}

static void add_guest_facts(struct pt_session *s)
{
    struct pt_guest *g = pt_recording_guest(s->recording);
    char uuid[VIR_UUID_STRING_BUFLEN] = "";
    g_autofree char *number = NULL, *path = NULL;

    if (!g->watch) {
        path = g_canonicalize_filename(g->name, NULL);
        btrail_json_add(s->facts, "s:guest", g->name, "s:qmp", path, NULL);
        return;
    }
    number = g_strdup_printf("%u", virDomainGetID(g->domain.domain));
    virDomainGetUUIDString(g->domain.domain, uuid);
    btrail_json_add(s->facts, "s:guest", virDomainGetName(g->domain.domain),
                    "s:uuid", uuid, "s:number", number, "S:connect",
                    s->request->guest.connect, NULL);
}

/* The name that QEMU's option has for a guest that is no domain, or NULL */
static char *ask_name(struct pt_guest *g)
{
    g_autoptr(JsonNode) node = qmp_execute(g->qmp, "query-name", NULL, -1,
                                           QMP_TIMEOUT_MS, -1, NULL);

    return node && JSON_NODE_HOLDS_OBJECT(node) ?
           g_strdup(btrail_json_string(json_node_get_object(node), "name")) :
           NULL;
}

/* The guest's folder, where its traces are */
static bool open_folder(struct pt_session *s, GError **error)
{
    struct pt_guest *g = pt_recording_guest(s->recording);
    g_autofree char *traces = cli_own_service_traces();
    const char *uuid = btrail_json_string(s->facts, "uuid");
    struct folder *all;
    g_autofree char *name = g->watch ? g_strdup(virDomainGetName(
                                           g->domain.domain)) : ask_name(g);

    if (!name) {
        name = g_path_get_basename(g->name);
    }
    all = folder_open(traces, error);
    s->folder = all ? folder_guest(all, name, uuid ? uuid : "-", getuid(),
                                   error) : NULL;
    g_clear_pointer(&all, folder_free);
    return s->folder;
}

/* Better now than when all is lost */
static bool check_file(struct pt_session *s, GError **error)
{
    g_autofree char *name = NULL;
    g_autofree char *path = place(s, s->file, &name, error);

    return path;
}

/* A name that no other session of this guest has */
static bool choose_name(struct pt_session *s, GError **error)
{
    const char *given = s->request->session.session;
    const char *qmp = btrail_json_string(s->facts, "qmp");
    const char *domain = qmp ? NULL : btrail_json_string(s->facts, "uuid");

    for (unsigned i = 1; i < NAMES; i++) {
        g_autofree char *name = given ? g_strdup(given) :
                                g_strdup_printf("pt-%u", i);
        g_autoptr(GPtrArray) same = pt_sessions_find(NULL, domain, qmp, name);

        if (!same->len) {
            json_object_set_string_member(s->session, "session", name);
            g_free(s->request->session.session);
            s->request->session.session = g_steal_pointer(&name);
            return true;
        }
        if (given) {
            return agent_fail(error, AGENT_ERROR_COMMAND, "the guest has a "
                              "session '%s' by Intel PT already", name);
        }
    }
    return agent_fail(error, AGENT_ERROR_COMMAND, "too many sessions");
}

static bool open_session(struct pt_session *s, GError **error)
{
    JsonArray *sessions = json_array_new();
    g_autofree char *text = NULL;

    s->session = btrail_json_new(
        "s:owner", g_get_user_name(), "s:state", "active", "s:mode", "pt",
        "S:file", s->file, "o:size", btrail_json_new(
            "U:bytes", s->request->pt_size, NULL), NULL);
    btrail_json_set_time(s->session, "started", g_get_real_time() /
                         G_USEC_PER_SEC);
    json_array_add_object_element(sessions, json_object_ref(s->session));
    s->facts = btrail_json_new("a:" ANSWER_SESSIONS, sessions, NULL);
    add_guest_facts(s);
    if (!choose_name(s, error) || !open_folder(s, error) ||
        !check_file(s, error)) {
        return false;
    }
    btrail_json_add(s->session, "s:folder", s->folder->path, NULL);
    s->server = server_socket_unix(s->socket, on_connected, s, error);
    s->events = epoll_create1(EPOLL_CLOEXEC);
    if (!s->server || s->events < 0 || !watch_fd(s, s->connected) ||
        !watch_fd(s, server_socket_fd(s->server)) ||
        !watch_fd(s, s->request->signal_fd)) {
        return s->server ? agent_error_errno(error, "epoll") : false;
    }
    text = btrail_json_text(s->facts, FALSE);
    return g_file_set_contents_full(s->file_of_facts, text, -1,
                                    G_FILE_SET_CONTENTS_CONSISTENT, 0600,
                                    error);
}

static void close_session(struct pt_session *s)
{
    pt_recording_free(s->recording);
    server_socket_free(s->server);
    unlink(s->socket);
    unlink(s->file_of_facts);
    if (s->code == CLI_OK) {
        unlink(s->log);
    }
    while (!g_queue_is_empty(s->waiting)) {
        close(GPOINTER_TO_INT(g_queue_pop_head(s->waiting)));
    }
    g_queue_free(s->waiting);
    btrail_close(s->events);
    btrail_close(s->connected);
    g_clear_pointer(&s->folder, folder_free);
    g_clear_pointer(&s->session, json_object_unref);
    g_clear_pointer(&s->facts, json_object_unref);
}

/* What the guest does is traced from here on; @ready gets the facts. */
static int run(struct pt_session *s, int ready)
{
    g_autoptr(GError) error = NULL;
    g_autofree char *text = NULL;

    s->code = CLI_FAILED;
    s->waiting = g_queue_new();
    s->connected = event_fd_new();
    s->events = -1;
    s->recording = pt_recording_begin(s->request);
    if (s->recording && !open_session(s, &error)) {
        cli_error("%s", error->message);
    } else if (s->recording) {
        text = btrail_json_text(s->facts, FALSE);
        whole_write(ready, text, strlen(text));
        btrail_close(ready);
        if (!trace(s)) {
            s->code = CLI_FAILED;
        }
    }
    close_session(s);
    return s->code;
}

/* Its standard error is the log from the begin: it has processes of its own. */
static void __attribute__((noreturn)) run_process(struct pt_session *s,
                                                  const char *folder,
                                                  int ready)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int log;

    setsid();
    umask(077);
    s->socket = pt_sessions_path(folder, getpid(), ".sock");
    s->file_of_facts = pt_sessions_path(folder, getpid(), ".json");
    s->log = pt_sessions_path(folder, getpid(), ".log");
    unlink(s->socket);
    unlink(s->log);
    log = open(s->log, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC,
               0600);
    if (null < 0 || log < 0) {
        cli_error("%s: %s", s->log, g_strerror(errno));
        _exit(CLI_FAILED);
    }
    dup2(null, STDIN_FILENO);
    dup2(null, STDOUT_FILENO);
    dup2(log, STDERR_FILENO);
    if (chdir("/")) {
        _exit(CLI_FAILED);
    }
    signal(SIGXFSZ, SIG_IGN);
    cli_set_records("backtrail: ending before all was written; backtrail "
                    "repair completes the trace, which has what was written\n");
    s->request->signal_fd = cli_open_signals();
    _exit(s->request->signal_fd < 0 ? CLI_FAILED : run(s, ready));
}

/* Why others have ended need not be known for ever. */
static void remove_logs(const char *folder)
{
    GDir *dir = g_dir_open(folder, 0, NULL);
    const char *name;

    while (dir && (name = g_dir_read_name(dir))) {
        g_autofree char *path = g_build_filename(folder, name, NULL);
        long process = strtol(name, NULL, 10);

        if (g_str_has_suffix(name, ".log") && process > 0 &&
            kill((pid_t)process, 0) && errno == ESRCH) {
            unlink(path);
        }
    }
    if (dir) {
        g_dir_close(dir);
    }
}

/* What the process has said so far */
static void print_log(const char *path)
{
    g_autofree char *text = NULL;

    if (g_file_get_contents(path, &text, NULL, NULL)) {
        fputs(text, stderr);
    }
}

static JsonObject *await_ready(int fd)
{
    g_autoptr(GString) text = g_string_new(NULL);
    g_autoptr(JsonNode) node = NULL;
    char bytes[4096];
    ssize_t n;

    while ((n = read(fd, bytes, sizeof(bytes))) > 0 ||
           (n < 0 && errno == EINTR)) {
        g_string_append_len(text, bytes, MAX(n, 0));
    }
    node = btrail_json_parse_object(text->str);
    return node ? json_object_ref(json_node_get_object(node)) : NULL;
}

JsonObject *pt_session_start(struct record_request *request, const char *file)
{
    struct pt_session s = { .request = request, .file = file };
    g_autoptr(GError) error = NULL;
    g_autofree char *folder = pt_sessions_folder(&error);
    g_autofree char *log = NULL, *qmp = NULL;
    JsonObject *facts;
    int pair[2];
    pid_t child;

    if (!folder) {
        cli_error("%s", error->message);
        return NULL;
    }
    remove_logs(folder);
    if (request->guest.qmp) {
        /* It is asked for in another folder. */
        qmp = request->guest.qmp;
        request->guest.qmp = g_canonicalize_filename(qmp, NULL);
    }
    if (pipe2(pair, O_CLOEXEC)) {
        cli_error("pipe: %s", g_strerror(errno));
        return NULL;
    }
    child = fork();
    if (!child) {
        close(pair[0]);
        run_process(&s, folder, pair[1]);
    }
    close(pair[1]);
    facts = child > 0 ? await_ready(pair[0]) : NULL;
    close(pair[0]);
    if (child < 0) {
        cli_error("fork: %s", g_strerror(errno));
        return NULL;
    }
    log = pt_sessions_path(folder, child, ".log");
    if (!facts) {
        waitpid(child, NULL, 0);
    }
    print_log(log);
    if (!facts) {
        unlink(log);
    }
    return facts;
}
