/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Who lets a guest go on if this process is killed: see pt-guard.h
 */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/record/pt-guard.h"
#include "libvirt/domain-watch.h"
#include "util/agent-error.h"
#include "util/close.h"
#include "util/json.h"

#define QMP_TIMEOUT_MS  10000
/* The other process's connection to libvirt has this long to be there. */
#define OPEN_S          15
/* It lets the guest go on within this time, or does not. */
#define ACT_S           30
/* libvirt may be about to stop it, as a process has asked that has ended. */
#define PENDING_S       3

/* What is said over the socket, a byte each */
enum guard_word { READY = 'r', STOPS = 's', RELEASED = 'g' };

struct pt_guard {
    int sock;
    pid_t child;
    bool stops;
};

static void __attribute__((noreturn)) leave(void)
{
    _exit(0);
}

/* Closes all files but standard error and two. */
static void keep_files(int a, int b)
{
    int null = open("/dev/null", O_RDWR);
    unsigned first = (unsigned)MIN(a, b), last = (unsigned)MAX(a, b);

    dup2(null, STDIN_FILENO);
    dup2(null, STDOUT_FILENO);
    if (first > 3) {
        close_range(3, first - 1, 0);
    }
    if (last > first + 1) {
        close_range(first + 1, last - 1, 0);
    }
    close_range(last + 1, ~0u, 0);
}

/* Takes the words that are there; false at the end, when nobody is there. */
static bool take_words(int sock, bool *stops)
{
    char word;
    ssize_t n;

    do {
        n = recv(sock, &word, 1, 0);
    } while (n < 0 && errno == EINTR);
    if (n == 1) {
        *stops = word == STOPS;
    }
    return n == 1;
}

static void begin_acting(void)
{
    sigset_t set;

    signal(SIGALRM, SIG_DFL);
    sigemptyset(&set);
    sigaddset(&set, SIGALRM);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    alarm(ACT_S);
}

static void report(const char *name, const char *why)
{
    if (why) {
        cli_error("%s is stopped still: %s", name, why);
    } else {
        cli_error("%s goes on: who had stopped it was killed", name);
    }
}

static JsonNode *ask(struct qmp *qmp, const char *command, GError **error)
{
    return qmp_execute(qmp, command, NULL, -1, QMP_TIMEOUT_MS, -1, error);
}

static void see_event(void *opaque, const char *name)
{
    *(bool *)opaque |= !strcmp(name, "RESUME");
}

/* QEMU answers in order: what the other one has asked is done by then. */
static void act_on_monitor(const char *name, int sock)
{
    struct qmp *qmp = qmp_adopt(sock);
    g_autoptr(GError) error = NULL;
    g_autoptr(JsonNode) node = NULL, done = NULL;
    bool resumed = false;
    JsonObject *status;

    qmp_on_event(qmp, see_event, &resumed);
    node = ask(qmp, "query-status", &error);
    status = node && JSON_NODE_HOLDS_OBJECT(node) ?
             json_node_get_object(node) : NULL;
    if (!error && (resumed || !status ||
                   g_strcmp0(btrail_json_string(status, "status"),
                             "paused"))) {
        return;
    }
    done = error ? NULL : ask(qmp, "cont", &error);
    report(name, error ? error->message : NULL);
}

static void __attribute__((noreturn)) guard_monitor(const char *name, int sock,
                                                    int monitor)
{
    const char word = READY;
    bool stops = false;

    send(sock, &word, 1, MSG_NOSIGNAL);
    while (take_words(sock, &stops)) {
        continue;
    }
    if (stops) {
        begin_acting();
        act_on_monitor(name, monitor);
    }
    leave();
}

struct domain_guard {
    const char *connect, *name;
    struct domain domain;
    struct domain_watch *watch;
};

static bool open_domain(struct domain_guard *d, GError **error)
{
    if (!domain_watch_prepare(error) ||
        !domain_open(&d->domain, d->connect, d->name, error)) {
        return false;
    }
    d->watch = domain_watch_new(&d->domain, error);
    if (!d->watch) {
        domain_close(&d->domain);
    }
    return d->watch;
}

static void close_domain(struct domain_guard *d)
{
    domain_watch_free(d->watch);
    d->watch = NULL;
    domain_close(&d->domain);
}

/*
 * Of what happened while libvirt was not there nothing is known; that somebody
 * else has stopped the guest meanwhile is not likely.
 */
static bool open_again(struct domain_guard *d)
{
    g_autoptr(GError) error = NULL;

    close_domain(d);
    while (!open_domain(d, &error)) {
        if (g_error_matches(error, AGENT_ERROR, AGENT_ERROR_CLOSED)) {
            return false;       /* no such domain */
        }
        g_clear_error(&error);
        g_usleep(G_USEC_PER_SEC / 2);
    }
    return true;
}

static void act_on_domain(struct domain_guard *d, bool lost)
{
    gint64 until = g_get_monotonic_time() + PENDING_S * G_USEC_PER_SEC;
    g_autoptr(GError) error = NULL;
    bool went_on;

    if (lost && !open_again(d)) {
        return;
    }
    went_on = domain_watch_resumed(d->watch);
    while (!went_on && !domain_watch_paused(d->watch) &&
           g_get_monotonic_time() < until) {
        g_usleep(50000);
        went_on = domain_watch_resumed(d->watch);
    }
    if (went_on || !domain_watch_paused(d->watch)) {
        return;
    }
    domain_watch_go_on(d->watch, &error);
    report(d->name, error ? error->message : NULL);
}

static void __attribute__((noreturn)) guard_domain(const char *connect,
                                                   const char *name, int sock)
{
    struct domain_guard d = { .connect = connect, .name = name };
    g_autoptr(GError) error = NULL;
    bool stops = false, lost = false;
    const char word = READY;

    if (!open_domain(&d, &error)) {
        send(sock, error->message, strlen(error->message), MSG_NOSIGNAL);
        leave();
    }
    send(sock, &word, 1, MSG_NOSIGNAL);
    for (;;) {
        bool did = stops;

        lost = lost || !domain_watch_attend(d.watch, sock, NULL);
        if (!take_words(sock, &stops)) {
            break;
        }
        if (stops && !did) {
            domain_watch_stops(d.watch);
        }
    }
    if (stops) {
        begin_acting();
        act_on_domain(&d, lost);
    }
    leave();
}

/* Returns it in the parent.  In the child: NULL, without @error, and @sock */
static struct pt_guard *start(int other, int *sock, GError **error)
{
    struct pt_guard *g;
    int pair[2];
    pid_t child;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair)) {
        agent_error_errno(error, "socketpair");
        return NULL;
    }
    child = fork();
    if (!child) {
        /* Who ends all of a terminal's, or of a group, means the other one. */
        setsid();
        prctl(PR_SET_NAME, "pt-guard");
        keep_files(pair[1], other < 0 ? pair[1] : other);
        *sock = pair[1];
        return NULL;
    }
    btrail_close(pair[1]);
    if (child < 0) {
        agent_error_errno(error, "fork");
        btrail_close(pair[0]);
        return NULL;
    }
    g = g_new0(struct pt_guard, 1);
    *g = (struct pt_guard){ .sock = pair[0], .child = child };
    return g;
}

/*
 * Until it says so it can be ended as one of this process's group.  Frees what
 * is not ready, with an @error: what it says, or @silent.
 */
static struct pt_guard *wait_ready(struct pt_guard *g, const char *silent,
                                   GError **error)
{
    struct timeval patience = { OPEN_S, 0 };
    char text[400];
    ssize_t n;

    if (!g) {
        return NULL;
    }
    setsockopt(g->sock, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    do {
        n = recv(g->sock, text, sizeof(text) - 1, 0);
    } while (n < 0 && errno == EINTR);
    if (n == 1 && *text == READY) {
        return g;
    }
    text[n > 0 ? n : 0] = '\0';
    agent_fail(error, AGENT_ERROR_SYSTEM, "%s", n > 0 ? text : silent);
    pt_guard_free(g);
    return NULL;
}

struct pt_guard *pt_guard_monitor(const char *name, struct qmp *qmp,
                                  GError **error)
{
    int sock = -1;
    struct pt_guard *g = start(qmp_socket(qmp), &sock, error);

    if (sock >= 0) {
        guard_monitor(name, sock, qmp_socket(qmp));
    }
    return wait_ready(g, "a process to guard the guest does not begin", error);
}

struct pt_guard *pt_guard_domain(const char *connect, const char *domain,
                                 GError **error)
{
    int sock = -1;
    struct pt_guard *g = start(-1, &sock, error);

    if (sock >= 0) {
        guard_domain(connect, domain, sock);
    }
    return wait_ready(g, "libvirt does not answer", error);
}

static void say(struct pt_guard *g, enum guard_word what)
{
    const char word = (char)what;

    if (g) {
        g->stops = what == STOPS;
        send(g->sock, &word, 1, MSG_NOSIGNAL);
    }
}

void pt_guard_stops(struct pt_guard *g)
{
    say(g, STOPS);
}

void pt_guard_released(struct pt_guard *g)
{
    say(g, RELEASED);
}

void pt_guard_free(struct pt_guard *g)
{
    if (!g) {
        return;
    }
    btrail_close(g->sock);
    if (!g->stops) {
        /* It has nothing to do, and the monitor is to be free for others. */
        kill(g->child, SIGKILL);
        while (waitpid(g->child, NULL, 0) < 0 && errno == EINTR) {
        }
    }
    g_free(g);
}
