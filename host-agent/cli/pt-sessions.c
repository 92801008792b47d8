/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * This user's sessions by Intel PT: see pt-sessions.h
 */

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/pt-sessions.h"
#include "client/answer.h"
#include "util/agent-error.h"
#include "util/close.h"
#include "util/json.h"
#include "util/own-folder.h"
#include "util/unix-socket.h"
#include "util/wait.h"

#define MAX_ANSWER  (1u << 20)
#define FACTS       ".json"
#define SOCKET      ".sock"

static char *folder_path(void)
{
    return g_build_filename(g_get_user_runtime_dir(), "backtrail", "pt", NULL);
}

/* Whoever owns the folder above could replace it. */
static bool is_own(const char *folder)
{
    g_autofree char *above = g_path_get_dirname(folder);

    return own_folder(above, NULL) && own_folder(folder, NULL);
}

char *pt_sessions_folder(GError **error)
{
    static const char whose[] = "your sessions by Intel PT";
    g_autofree char *folder = folder_path();
    g_autofree char *above = g_path_get_dirname(folder);

    return own_folder_make(above, whose, error) &&
           own_folder_make(folder, whose, error) ? g_steal_pointer(&folder) :
                                                   NULL;
}

char *pt_sessions_path(const char *folder, int process, const char *suffix)
{
    return g_strdup_printf("%s/%d%s", folder, process, suffix);
}

static void free_found(gpointer opaque)
{
    struct pt_session_found *f = opaque;

    g_free(f->socket);
    json_object_unref(f->status);
    g_free(f);
}

static JsonObject *session_of(JsonObject *status)
{
    return answer_members(status, ANSWER_SESSIONS) ?
           answer_member(status, ANSWER_SESSIONS, 0) : NULL;
}

JsonObject *pt_session_found_session(const struct pt_session_found *found)
{
    return session_of(found->status);
}

static bool is(JsonObject *facts, const char *name, const char *text)
{
    return !g_strcmp0(btrail_json_string(facts, name), text);
}

static bool is_of_guest(JsonObject *facts, const char *connect,
                        const char *domain, const char *qmp)
{
    g_autofree char *path = qmp ? g_canonicalize_filename(qmp, NULL) : NULL;

    if (qmp) {
        return is(facts, "qmp", path);
    }
    return !domain || (!btrail_json_string(facts, "qmp") &&
                       (is(facts, "guest", domain) ||
                        is(facts, "uuid", domain) ||
                        is(facts, "number", domain)) &&
                       (!connect || is(facts, "connect", connect)));
}

/* What the file of a session says; NULL if that is not one */
static JsonObject *read_facts(const char *path)
{
    g_autofree char *text = NULL;
    g_autoptr(JsonNode) node = NULL;
    JsonObject *facts, *session;

    if (!g_file_get_contents(path, &text, NULL, NULL)) {
        return NULL;
    }
    node = btrail_json_parse_object(text);
    facts = node ? json_node_get_object(node) : NULL;
    session = facts ? session_of(facts) : NULL;
    return session && btrail_json_string(session, "session") &&
           btrail_json_string(facts, "guest") ? json_object_ref(facts) : NULL;
}

/* Is there a process?  If it has been killed, nothing is left of it. */
static bool is_there(const char *socket, const char *file)
{
    int sock = unix_try(socket, SOCK_STREAM);

    if (sock < 0 && (errno == ECONNREFUSED || errno == ENOENT)) {
        unlink(socket);
        unlink(file);
        return false;
    }
    btrail_close(sock);
    return true;
}

static void ask_status(struct pt_session_found *f)
{
    JsonObject *status = pt_sessions_ask(
        f->socket, btrail_json_new("s:do", "status", NULL),
        PT_SESSIONS_SOON_MS, NULL);

    if (status && session_of(status)) {
        json_object_unref(f->status);
        f->status = status;
        return;
    }
    g_clear_pointer(&status, json_object_unref);
    json_object_set_string_member(pt_session_found_session(f), "state",
                                  "writing");
}

GPtrArray *pt_sessions_find(const char *connect, const char *domain,
                            const char *qmp, const char *session)
{
    GPtrArray *list = g_ptr_array_new_with_free_func(free_found);
    g_autofree char *folder = folder_path();
    GDir *dir = is_own(folder) ? g_dir_open(folder, 0, NULL) : NULL;
    const char *name;

    while (dir && (name = g_dir_read_name(dir))) {
        g_autofree char *file = g_build_filename(folder, name, NULL);
        g_autoptr(JsonObject) facts = g_str_has_suffix(name, FACTS) ?
                                      read_facts(file) : NULL;
        g_autofree char *stem = g_strndup(file, strlen(file) - (facts ?
                                          strlen(FACTS) : 0));
        g_autofree char *socket = g_strconcat(stem, SOCKET, NULL);
        struct pt_session_found *f;

        if (!facts || !is_of_guest(facts, connect, domain, qmp) ||
            (session && !is(session_of(facts), "session", session)) ||
            !is_there(socket, file)) {
            continue;
        }
        f = g_new0(struct pt_session_found, 1);
        f->socket = g_steal_pointer(&socket);
        f->status = g_steal_pointer(&facts);
        ask_status(f);
        g_ptr_array_add(list, f);
    }
    if (dir) {
        g_dir_close(dir);
    }
    return list;
}

/* In one message, with standard error if it @prints */
static bool send_command(int sock, JsonObject *command, bool prints,
                         GError **error)
{
    g_autofree char *text = btrail_json_text(command, FALSE);
    g_autofree char *line = g_strconcat(text, "\n", NULL);
    const int fd = STDERR_FILENO;
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } control = { .room = { 0 } };
    struct iovec bytes = { line, strlen(line) };
    struct msghdr message = {
        .msg_iov = &bytes, .msg_iovlen = 1,
    };
    struct cmsghdr *c;

    if (prints) {
        message.msg_control = &control;
        message.msg_controllen = sizeof(control);
        c = CMSG_FIRSTHDR(&message);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(c), &fd, sizeof(fd));
    }
    return sendmsg(sock, &message, MSG_NOSIGNAL) == (ssize_t)bytes.iov_len ||
           agent_error_errno(error, "cannot ask the session");
}

static JsonObject *read_answer(int sock, int timeout_ms, GError **error)
{
    gint64 deadline = timeout_ms < 0 ? -1 :
                      g_get_monotonic_time() + timeout_ms * 1000ll;
    g_autoptr(GString) text = g_string_new(NULL);
    g_autoptr(JsonNode) node = NULL;
    char bytes[4096];
    ssize_t n = 1;

    while (n > 0 && text->len < MAX_ANSWER) {
        if (!wait_for_fd(sock, POLLIN, deadline, -1, "the session does not "
                         "answer", error)) {
            return NULL;
        }
        n = recv(sock, bytes, sizeof(bytes), MSG_DONTWAIT);
        if (n < 0 && (errno == EINTR || errno == EAGAIN)) {
            n = 1;
            continue;
        }
        g_string_append_len(text, bytes, MAX(n, 0));
    }
    node = btrail_json_parse_object(text->str);
    if (!node) {
        agent_fail(error, AGENT_ERROR_CLOSED, "the session has ended without "
                   "an answer");
        return NULL;
    }
    return json_object_ref(json_node_get_object(node));
}

JsonObject *pt_sessions_ask(const char *socket, JsonObject *command,
                            int timeout_ms, GError **error)
{
    int sock = unix_connect(socket, error);
    /* A busy session would have it open after this process has given up. */
    bool prints = timeout_ms < 0;
    JsonObject *answer = sock >= 0 &&
                         send_command(sock, command, prints, error) ?
                         read_answer(sock, timeout_ms, error) : NULL;
    const char *why = answer ? btrail_json_string(answer, "error") : NULL;

    btrail_close(sock);
    json_object_unref(command);
    if (why) {
        agent_fail(error, AGENT_ERROR_COMMAND, "%s", why);
        g_clear_pointer(&answer, json_object_unref);
    }
    return answer;
}

char *pt_sessions_choose(const char *connect, const char *domain,
                         const char *qmp, const char *session, bool *several)
{
    g_autoptr(GPtrArray) list = pt_sessions_find(connect, domain, qmp, session);
    struct pt_session_found *first = list->len ? list->pdata[0] : NULL;

    *several = list->len > 1;
    if (*several) {
        cli_error("%s has %u sessions by Intel PT: name one by --session (or "
                  "its libvirt, by --connect)", domain ? domain : qmp,
                  list->len);
        return NULL;
    }
    return first ? g_strdup(first->socket) : NULL;
}
