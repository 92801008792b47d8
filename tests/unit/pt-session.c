/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The process of a session by Intel PT, with a guest that only says what it is
 * asked: what it answers to whom, and what it leaves
 */

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/pt-sessions.h"
#include "cli/record/pt-session.h"
#include "cli/record/record-pt.h"
#include "client/answer.h"
#include "scratch.h"
#include "util/agent-error.h"
#include "util/json.h"
#include "util/unix-socket.h"

#define GUEST   "/run/q"

/* How it behaves: names of files in the scratch folder */
#define NONE    "no-guest"
#define SLOW    "slow"
#define STANDS  "stands"
#define GONE    "gone"

static char *scratch, *folder;

static bool is_so(const char *what)
{
    g_autofree char *path = g_build_filename(scratch, what, NULL);

    return !access(path, F_OK);
}

static void make_so(const char *what, bool so)
{
    g_autofree char *path = g_build_filename(scratch, what, NULL);

    if (so) {
        g_assert_true(g_file_set_contents(path, "", 0, NULL));
    } else {
        unlink(path);
    }
}

/* In the place of record-pt.c and pt-guest.c */

struct pt_recording {
    const struct record_request *options;
    struct pt_guest guest;
};

static JsonNode *execute(void *opaque, const char *command,
                         JsonObject *arguments, int fd, GError **error)
{
    return btrail_json_parse_object("{\"name\": \"box\"}");
}

struct pt_recording *pt_recording_begin(const struct record_request *options)
{
    struct pt_recording *r;

    if (is_so(NONE)) {
        cli_error("there is no such guest");
        return NULL;
    }
    cli_error("it is not as good as it could be");
    r = g_new0(struct pt_recording, 1);
    r->options = options;
    r->guest.name = options->guest.qmp;
    r->guest.qmp = qmp_through(execute, NULL);
    return r;
}

void pt_recording_free(struct pt_recording *r)
{
    if (r) {
        qmp_free(r->guest.qmp);
        g_free(r);
    }
}

struct pt_guest *pt_recording_guest(struct pt_recording *r)
{
    return &r->guest;
}

int pt_recording_write(struct pt_recording *r, int cancel_fd,
                       struct pt_written *written)
{
    struct pollfd hung_up = { cancel_fd, POLLIN, 0 };

    if (is_so(SLOW)) {
        poll(&hung_up, 1, 60000);
    }
    g_assert_true(g_file_set_contents(r->options->store.path, "trace", 5,
                                      NULL));
    cli_error("written");
    *written = (struct pt_written){ 70, 5 };
    return CLI_OK;
}

bool pt_guest_wait(struct pt_guest *g, gint64 until, int cancel_fd,
                   bool *cancelled)
{
    struct pollfd cancel = { cancel_fd, POLLIN, 0 };

    *cancelled = false;
    while (!is_so(STANDS) && !is_so(GONE) &&
           (!until || g_get_monotonic_time() < until)) {
        if (poll(&cancel, 1, 20) == 1) {
            *cancelled = true;
            break;
        }
    }
    return !is_so(GONE);
}

bool pt_guest_runs(struct pt_guest *g, int cancel_fd, bool *runs)
{
    *runs = !is_so(STANDS);
    return true;
}

/* A session, and what it has printed */
static JsonObject *start(const char *session, const char *file, uint64_t ns,
                         char **said)
{
    struct record_request r = {
        .guest.qmp = g_strdup(GUEST),
        .session = { .session = g_strdup(session), .duration_ns = ns },
        .pt_size = 65536,
    };
    g_autofree char *path = g_build_filename(scratch, "stderr", NULL);
    int own = dup(STDERR_FILENO);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    JsonObject *facts;

    dup2(fd, STDERR_FILENO);
    facts = pt_session_start(&r, file);
    fflush(stderr);
    dup2(own, STDERR_FILENO);
    close(own);
    close(fd);
    if (said) {
        g_assert_true(g_file_get_contents(path, said, NULL, NULL));
    }
    g_free(r.guest.qmp);
    g_free(r.session.session);
    return facts;
}

static char *socket_of(const char *session)
{
    bool several;
    char *path = pt_sessions_choose(NULL, NULL, GUEST, session, &several);

    g_assert_nonnull(path);
    return path;
}

static JsonObject *ask(const char *session, const char *what, const char *file)
{
    g_autofree char *path = socket_of(session);
    g_autoptr(GError) error = NULL;
    JsonObject *answer = pt_sessions_ask(path, btrail_json_new(
        "s:do", what, "S:file", file, NULL), -1, &error);

    g_assert_no_error(error);
    return answer;
}

static unsigned left(void)
{
    GDir *dir = g_dir_open(folder, 0, NULL);
    unsigned n = 0;

    while (g_dir_read_name(dir)) {
        n++;
    }
    g_dir_close(dir);
    return n;
}

/* Until so many files are left */
static void await_left(unsigned n)
{
    for (unsigned i = 0; i < 1000 && left() != n; i++) {
        g_usleep(10000);
    }
    g_assert_cmpuint(left(), ==, n);
    while (waitpid(-1, NULL, WNOHANG) > 0) {
        continue;
    }
}

static void stop(const char *session)
{
    g_autoptr(JsonObject) answer = ask(session, "stop", NULL);

    g_assert_cmpstr(btrail_json_string(answer, "state"), ==, "ended");
    g_assert_true(answer_has_ended(answer));
    g_assert_cmpint(answer_number(answer, "records"), ==, 70);
    await_left(0);
}

static void test_starts(void)
{
    g_autofree char *said = NULL, *more = NULL;
    g_autoptr(JsonObject) facts = start(NULL, "x/end", 0, &said);
    JsonObject *session = answer_member(facts, ANSWER_SESSIONS, 0), *answer;
    struct stat st;
    char *path;

    g_assert_nonnull(strstr(said, "not as good"));
    g_assert_cmpstr(btrail_json_string(facts, "qmp"), ==, GUEST);
    g_assert_cmpstr(btrail_json_string(session, "session"), ==, "pt-1");
    g_assert_true(g_str_has_suffix(btrail_json_string(session, "folder"),
                                   "/backtrail/traces/box"));
    /* The same name is not taken twice. */
    g_assert_null(start("pt-1", NULL, 0, &more));
    g_assert_nonnull(strstr(more, "has a session 'pt-1'"));
    answer = ask(NULL, "dump", "now");
    path = answer_path(answer);
    g_assert_cmpint(stat(path, &st), ==, 0);
    g_assert_cmpint(st.st_size, ==, 5);
    g_assert_cmpstr(btrail_json_string(answer, "state"), ==, "written");
    g_free(path);
    json_object_unref(answer);
    /* What it does not write, it says. */
    answer = ask(NULL, "dump", "now");
    g_assert_true(answer_has_failed(answer));
    json_object_unref(answer);
    answer = ask(NULL, "dump", "../now");
    g_assert_true(answer_has_failed(answer));
    json_object_unref(answer);
    stop("pt-1");
}

static void test_refused(void)
{
    g_autofree char *said = NULL, *taken = NULL;

    make_so(NONE, true);
    g_assert_null(start(NULL, NULL, 0, &said));
    g_assert_cmpstr(said, ==, "backtrail: there is no such guest\n");
    make_so(NONE, false);
    g_assert_null(start(NULL, "now", 0, &taken));
    g_assert_nonnull(strstr(taken, "now.btrail"));
    await_left(0);
}

/* With a trace, unless the guest is gone; why is in the log then. */
static void test_ends(void)
{
    g_autoptr(JsonObject) timed = start("time", "time", 300000000, NULL);
    g_autoptr(JsonObject) stands = NULL, gone = NULL, killed = NULL;
    g_autofree char *path = answer_path(answer_member(timed, ANSWER_SESSIONS,
                                                      0));

    await_left(0);
    g_assert_true(g_str_has_suffix(path, "/time.btrail") ||
                  g_str_has_suffix(path, "/time"));
    stands = start("stands", "stands", 0, NULL);
    make_so(STANDS, true);
    await_left(0);
    make_so(STANDS, false);
    gone = start("gone", NULL, 0, NULL);
    g_assert_nonnull(gone);
    make_so(GONE, true);
    await_left(1);
    make_so(GONE, false);
    /* No other one is there. */
    while (waitpid(-1, NULL, 0) > 0) {
        continue;
    }
    /* The next one removes its log. */
    killed = start("signal", "signal", 0, NULL);
    g_assert_nonnull(killed);
    {
        g_autofree char *sock = socket_of("signal");
        g_autofree char *name = g_path_get_basename(sock);

        kill(atoi(name), SIGINT);
    }
    await_left(0);
}

static int hello(const char *text, size_t n)
{
    g_autofree char *path = socket_of("hostile");
    int sock = unix_connect(path, NULL);

    g_assert_cmpint(sock, >=, 0);
    send(sock, text, n, MSG_NOSIGNAL);
    return sock;
}

/* None of these ends it, and the next one is served. */
static void test_hostile(void)
{
    static const char *const texts[] = {
        "\n", "x\n", "[]\n", "{}\n", "{\"do\": 1}\n", "{\"do\": \"x\"}\n",
        "{\"do\": \"dump\", \"file\": \"a\\u0001\"}\n",
        "{\"do\": \"dump\", \"file\": \"\"}\n",
        "{\"do\": \"dump\", \"file\": \".x\"}\n",
        "{\"do\": \"dump\", \"file\": \"/etc/x\"}\n",
    };
    g_autoptr(JsonObject) facts = start("hostile", NULL, 0, NULL);
    g_autofree char *large = g_strnfill(200000, 'x');
    char bytes[4096];
    int socks[20];

    g_assert_nonnull(facts);
    for (unsigned i = 0; i < G_N_ELEMENTS(texts); i++) {
        int sock = hello(texts[i], strlen(texts[i]));

        while (recv(sock, bytes, sizeof(bytes), 0) > 0) {
            continue;
        }
        close(sock);
    }
    close(hello(large, 200000));
    for (unsigned i = 0; i < G_N_ELEMENTS(socks); i++) {
        socks[i] = hello("{\"do\": \"status\"}", 16);
        close(socks[i]);
    }
    /* One that says nothing is left after some seconds. */
    socks[0] = hello("", 0);
    while (recv(socks[0], bytes, sizeof(bytes), 0) > 0) {
        continue;
    }
    close(socks[0]);
    json_object_unref(ask("hostile", "status", NULL));
    {
        g_autofree char *sock = socket_of("hostile");
        g_autoptr(JsonObject) answer = pt_sessions_ask(
            sock, btrail_json_new("s:do", "stop", NULL), -1, NULL);

        g_assert_nonnull(answer);
    }
    await_left(0);
}

/* Who hangs up does not want the rest. */
static void test_cancelled(void)
{
    g_autoptr(JsonObject) facts = start("hostile", NULL, 0, NULL);
    gint64 begin = g_get_monotonic_time();
    int sock;

    g_assert_nonnull(facts);
    make_so(SLOW, true);
    sock = hello("{\"do\": \"dump\"}\n", 15);
    g_usleep(200000);
    close(sock);
    make_so(SLOW, false);
    json_object_unref(ask("hostile", "stop", NULL));
    g_assert_cmpint(g_get_monotonic_time() - begin, <, 30 * G_USEC_PER_SEC);
    await_left(0);
}

int main(int argc, char **argv)
{
    g_autofree char *state = NULL;
    int status;

    g_test_init(&argc, &argv, NULL);
    scratch = scratch_new();
    state = g_build_filename(scratch, "state", NULL);
    g_setenv("XDG_RUNTIME_DIR", scratch, TRUE);
    g_setenv("XDG_STATE_HOME", state, TRUE);
    folder = pt_sessions_folder(NULL);
    g_assert_nonnull(folder);
    g_test_add_func("/pt-session/starts", test_starts);
    g_test_add_func("/pt-session/refused", test_refused);
    g_test_add_func("/pt-session/ends", test_ends);
    g_test_add_func("/pt-session/hostile", test_hostile);
    g_test_add_func("/pt-session/cancelled", test_cancelled);
    status = g_test_run();
    g_free(folder);
    scratch_remove(scratch);
    return status;
}
