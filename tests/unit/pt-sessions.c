/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Finding and asking this user's sessions by Intel PT, whose processes answer
 * anything
 */

#include <glib/gstdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "cli/pt-sessions.h"
#include "client/answer.h"
#include "scratch.h"
#include "util/agent-error.h"
#include "util/json.h"

#define FACTS   "{\"guest\": \"web\", \"uuid\": \"u-1\", \"number\": \"7\", " \
                "\"connect\": \"qemu:///session\", \"sessions\": " \
                "[{\"session\": \"pt-1\", \"state\": \"active\"}]}"
#define OTHER   "{\"guest\": \"/run/q\", \"qmp\": \"/run/q\", \"sessions\": " \
                "[{\"session\": \"night\", \"state\": \"active\"}]}"

static char *folder;

/* The process of a session: what it answers, and what it gets */
struct peer {
    char *socket, *file;
    int sock;
    const char *answer;
    GThread *thread;
    bool got_descriptor;
    char asked[200];
};

static gpointer serve(gpointer opaque)
{
    struct peer *p = opaque;
    int sock;

    while ((sock = accept4(p->sock, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
        struct iovec iov = { p->asked, sizeof(p->asked) - 1 };
        char room[CMSG_SPACE(sizeof(int))];
        struct msghdr message = {
            .msg_iov = &iov, .msg_iovlen = 1,
            .msg_control = room, .msg_controllen = sizeof(room),
        };
        char asked[sizeof(p->asked)];
        ssize_t n;

        memset(asked, 0, sizeof(asked));
        iov.iov_base = asked;
        n = recvmsg(sock, &message, MSG_CMSG_CLOEXEC);
        if (n > 0) {
            struct cmsghdr *c = CMSG_FIRSTHDR(&message);

            strcpy(p->asked, asked);
            p->got_descriptor = c;
            if (c) {
                close(*(int *)CMSG_DATA(c));
            }
            if (!p->answer) {
                /* It is busy: who asks hangs up. */
                recv(sock, asked, 1, 0);
            } else {
                send(sock, p->answer, strlen(p->answer), MSG_NOSIGNAL);
            }
        }
        close(sock);
    }
    return NULL;
}

static struct peer *peer_new(int process, const char *facts, const char *answer)
{
    struct peer *p = g_new0(struct peer, 1);
    struct sockaddr_un address = { .sun_family = AF_UNIX };

    p->socket = pt_sessions_path(folder, process, ".sock");
    p->file = pt_sessions_path(folder, process, ".json");
    p->answer = answer;
    g_assert_true(g_file_set_contents(p->file, facts, -1, NULL));
    g_strlcpy(address.sun_path, p->socket, sizeof(address.sun_path));
    p->sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    g_assert_cmpint(bind(p->sock, (struct sockaddr *)&address,
                         sizeof(address)), ==, 0);
    g_assert_cmpint(listen(p->sock, 8), ==, 0);
    p->thread = g_thread_new("peer", serve, p);
    return p;
}

static void peer_free(struct peer *p)
{
    shutdown(p->sock, SHUT_RDWR);
    g_thread_join(p->thread);
    close(p->sock);
    unlink(p->socket);
    unlink(p->file);
    g_free(p->socket);
    g_free(p->file);
    g_free(p);
}

/* How many are found, and the state of the last one */
static unsigned count(const char *connect, const char *domain, const char *qmp,
                      const char *session, char **state)
{
    g_autoptr(GPtrArray) list = pt_sessions_find(connect, domain, qmp, session);

    for (unsigned i = 0; i < list->len; i++) {
        JsonObject *s = pt_session_found_session(list->pdata[i]);

        g_assert_nonnull(s);
        if (state) {
            g_free(*state);
            *state = g_strdup(btrail_json_string(s, "state"));
        }
    }
    return list->len;
}

static void test_find(void)
{
    static const struct {
        const char *connect, *domain, *qmp, *session;
        unsigned n;
    } rows[] = {
        { NULL, NULL, NULL, NULL, 2 },
        { NULL, NULL, NULL, "night", 1 },
        { NULL, "web", NULL, NULL, 1 },
        { NULL, "u-1", NULL, NULL, 1 },
        { NULL, "7", NULL, NULL, 1 },
        { NULL, "web", NULL, "pt-1", 1 },
        { NULL, "web", NULL, "night", 0 },
        { "qemu:///session", "web", NULL, NULL, 1 },
        { "qemu:///system", "web", NULL, NULL, 0 },
        { NULL, "we", NULL, NULL, 0 },
        /* A monitor is no domain, and a domain no monitor. */
        { NULL, "/run/q", NULL, NULL, 0 },
        { NULL, NULL, "/run/q", NULL, 1 },
        { NULL, NULL, "/run/../run/q", "night", 1 },
        { NULL, NULL, "web", NULL, 0 },
    };
    struct peer *a, *b;

    g_assert_cmpuint(count(NULL, NULL, NULL, NULL, NULL), ==, 0);
    a = peer_new(1, FACTS, FACTS);
    b = peer_new(2, OTHER, OTHER);
    for (unsigned i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_test_message("row %u", i);
        g_assert_cmpuint(count(rows[i].connect, rows[i].domain, rows[i].qmp,
                               rows[i].session, NULL), ==, rows[i].n);
    }
    /* One that does not answer at once gets nothing to keep open. */
    g_assert_false(a->got_descriptor);
    g_assert_cmpstr(a->asked, ==, "{\"do\":\"status\"}\n");
    peer_free(a);
    peer_free(b);
}

static void test_killed(void)
{
    g_autofree char *file = pt_sessions_path(folder, 3, ".json");
    struct peer *p = peer_new(3, FACTS, FACTS);

    g_assert_cmpuint(count(NULL, "web", NULL, NULL, NULL), ==, 1);
    shutdown(p->sock, SHUT_RDWR);
    g_thread_join(p->thread);
    close(p->sock);
    /* Of others it is not even asked. */
    g_assert_cmpuint(count(NULL, "other", NULL, NULL, NULL), ==, 0);
    g_assert_true(g_file_test(file, G_FILE_TEST_EXISTS));
    g_assert_cmpuint(count(NULL, "web", NULL, NULL, NULL), ==, 0);
    g_assert_false(g_file_test(file, G_FILE_TEST_EXISTS));
    g_assert_false(g_file_test(p->socket, G_FILE_TEST_EXISTS));
    g_free(p->socket);
    g_free(p->file);
    g_free(p);
}

static void test_busy(void)
{
    static const char *const answers[] = {
        NULL, "", "nonsense", "[]", "{}", "{\"sessions\": 1}",
        "{\"sessions\": [1]}", "{\"error\": \"no\"}", "{\"sessions\": []}",
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(answers); i++) {
        struct peer *p = peer_new(4, FACTS, answers[i]);
        gint64 begin = g_get_monotonic_time();
        g_autofree char *state = NULL;

        g_assert_cmpuint(count(NULL, "web", NULL, NULL, &state), ==, 1);
        g_assert_cmpstr(state, ==, "writing");
        g_assert_cmpint(g_get_monotonic_time() - begin, <,
                        20 * G_USEC_PER_SEC);
        peer_free(p);
    }
}

static void test_facts(void)
{
    static const char *const facts[] = {
        "", "x", "[]", "{}", "{\"guest\": \"web\"}",
        "{\"guest\": \"web\", \"sessions\": {}}",
        "{\"guest\": \"web\", \"sessions\": [1]}",
        "{\"guest\": \"web\", \"sessions\": [{\"session\": 1}]}",
        "{\"guest\": 1, \"sessions\": [{\"session\": \"x\"}]}",
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(facts); i++) {
        struct peer *p = peer_new(5, facts[i], FACTS);

        g_assert_cmpuint(count(NULL, NULL, NULL, NULL, NULL), ==, 0);
        peer_free(p);
    }
}

static void test_ask(void)
{
    g_autoptr(GError) error = NULL;
    struct peer *p = peer_new(6, FACTS, "{\"error\": \"no such thing\"}");
    JsonObject *answer;

    g_assert_null(pt_sessions_ask(p->socket, btrail_json_new("s:do", "x", NULL),
                                  -1, &error));
    g_assert_error(error, AGENT_ERROR, AGENT_ERROR_COMMAND);
    g_assert_cmpstr(error->message, ==, "no such thing");
    g_clear_error(&error);
    g_assert_true(p->got_descriptor);
    p->answer = "{\"file\": ";
    g_assert_null(pt_sessions_ask(p->socket, btrail_json_new("s:do", "x", NULL),
                                  -1, &error));
    g_assert_error(error, AGENT_ERROR, AGENT_ERROR_CLOSED);
    g_clear_error(&error);
    p->answer = "{\"file\": \"x\"}";
    answer = pt_sessions_ask(p->socket, btrail_json_new("s:do", "x", NULL), -1,
                             &error);
    g_assert_no_error(error);
    g_assert_cmpstr(btrail_json_string(answer, "file"), ==, "x");
    json_object_unref(answer);
    p->answer = NULL;
    g_assert_null(pt_sessions_ask(p->socket, btrail_json_new("s:do", "x", NULL),
                                  50, &error));
    g_assert_error(error, AGENT_ERROR, AGENT_ERROR_TIMEOUT);
    g_clear_error(&error);
    peer_free(p);
    g_assert_null(pt_sessions_ask("/nowhere", json_object_new(), -1, &error));
    g_assert_error(error, AGENT_ERROR, AGENT_ERROR_SYSTEM);
}

static void test_choose(void)
{
    struct peer *a = peer_new(7, FACTS, FACTS), *b;
    g_autofree char *one = NULL;
    bool several;

    one = pt_sessions_choose(NULL, "web", NULL, NULL, &several);
    g_assert_cmpstr(one, ==, a->socket);
    g_assert_false(several);
    g_assert_null(pt_sessions_choose(NULL, "web", NULL, "x", &several));
    g_assert_false(several);
    b = peer_new(8, FACTS, FACTS);
    g_assert_null(pt_sessions_choose(NULL, "web", NULL, NULL, &several));
    g_assert_true(several);
    peer_free(a);
    peer_free(b);
}

/* In a folder that others may write to, there could be anybody. */
static void test_folder(void)
{
    g_autofree char *above = g_path_get_dirname(folder);
    g_autoptr(GError) error = NULL;
    struct peer *p = peer_new(9, FACTS, FACTS);

    g_assert_cmpuint(count(NULL, "web", NULL, NULL, NULL), ==, 1);
    g_assert_cmpint(chmod(folder, 0777), ==, 0);
    g_assert_cmpuint(count(NULL, "web", NULL, NULL, NULL), ==, 0);
    g_assert_null(pt_sessions_folder(&error));
    g_assert_nonnull(strstr(error->message, "cannot be trusted"));
    g_assert_cmpint(chmod(folder, 0700), ==, 0);
    g_clear_error(&error);
    /* The same of the one above, which is anybody's where /tmp is used */
    g_assert_cmpint(chmod(above, 01777), ==, 0);
    g_assert_cmpuint(count(NULL, "web", NULL, NULL, NULL), ==, 0);
    g_assert_null(pt_sessions_folder(&error));
    g_assert_nonnull(strstr(error->message, "cannot be trusted"));
    g_assert_cmpint(chmod(above, 0700), ==, 0);
    g_assert_cmpuint(count(NULL, "web", NULL, NULL, NULL), ==, 1);
    peer_free(p);
}

int main(int argc, char **argv)
{
    g_autoptr(GError) error = NULL;
    char *scratch;
    int status;

    g_test_init(&argc, &argv, NULL);
    scratch = scratch_new();
    g_setenv("XDG_RUNTIME_DIR", scratch, TRUE);
    folder = pt_sessions_folder(&error);
    g_assert_no_error(error);
    g_test_add_func("/pt-sessions/find", test_find);
    g_test_add_func("/pt-sessions/killed", test_killed);
    g_test_add_func("/pt-sessions/busy", test_busy);
    g_test_add_func("/pt-sessions/facts", test_facts);
    g_test_add_func("/pt-sessions/ask", test_ask);
    g_test_add_func("/pt-sessions/choose", test_choose);
    g_test_add_func("/pt-sessions/folder", test_folder);
    status = g_test_run();
    g_free(folder);
    scratch_remove(scratch);
    return status;
}
