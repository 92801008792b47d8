/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Events that backtrail-pt-open opens: see pt-open.h
 */

#include <errno.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/xattr.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "pt/pt-open-message.h"
#include "pt/pt-open.h"
#include "pt/pt-ring.h"
#include "util/agent-error.h"
#include "util/close.h"

#define NAME    "backtrail-pt-open"
#define SECONDS 60

G_STATIC_ASSERT(PT_OPEN_RING_MAX == PT_RING_MAX);
G_STATIC_ASSERT(PT_OPEN_FILTER ==
                sizeof(((struct pt_event_setup *)NULL)->filter));

/* As it is installed, or beside this program as it was built: where another
 * user may put one, as in PATH, it is not searched. */
char *pt_open_program(void)
{
    g_autofree char *self = g_file_read_link("/proc/self/exe", NULL);
    g_autofree char *folder = self ? g_path_get_dirname(self) : g_strdup("/");
    g_autofree char *built = g_canonicalize_filename("../pt/" NAME, folder);

    return g_strdup(g_file_test(built, G_FILE_TEST_IS_EXECUTABLE) ? built :
                    BACKTRAIL_PT_OPEN);
}

/* The file's capabilities that a process gets which executes it */
static uint64_t capabilities_of(const char *path)
{
    struct vfs_ns_cap_data data;
    ssize_t n = getxattr(path, XATTR_NAME_CAPS, &data, sizeof(data));

    if (n < (ssize_t)XATTR_CAPS_SZ_2) {
        return 0;
    }
    return (uint64_t)GUINT32_FROM_LE(data.data[1].permitted) << 32 |
           GUINT32_FROM_LE(data.data[0].permitted);
}

char *pt_open_fault(const char *path, int paranoid)
{
    static const struct {
        unsigned capability;
        const char *name;
    } needed[] = {
        { CAP_PERFMON, "cap_perfmon" },
        { CAP_SYS_PTRACE, "cap_sys_ptrace" },
        { CAP_IPC_LOCK, "cap_ipc_lock" },
    };
    g_autoptr(GString) lacks = g_string_new(NULL);
    uint64_t has = capabilities_of(path);

    if (access(path, X_OK)) {
        return g_strdup_printf("%s: %s; " NAME "(8) says who may execute it",
                               path, g_strerror(errno));
    }
    for (unsigned i = 0; i < G_N_ELEMENTS(needed); i++) {
        if (!(has >> needed[i].capability & 1)) {
            g_string_append_printf(lacks, "%s%s", lacks->len ? "," : "",
                                   needed[i].name);
        }
    }
    if (lacks->len) {
        return g_strdup_printf("%s lacks %s: " NAME "(8) says how root gives "
                               "it that, and to whom", path, lacks->str);
    }
    if (paranoid > 2 && paranoid != INT_MAX && !(has >> CAP_SYS_ADMIN & 1)) {
        return g_strdup_printf("perf_event_paranoid is %d, where Debian's "
                               "kernel lets %s open no event: sysctl "
                               "kernel.perf_event_paranoid=2 is enough",
                               paranoid, path);
    }
    return NULL;
}

static bool start(const char *const *program, int sock, GPid *child,
                  GError **error)
{
    g_autofree char *found = program ? NULL : pt_open_program();
    const char *const own[] = { found, NULL };
    const char *const *args = program ? program : own;
    g_autoptr(GError) why = NULL;

    if (!g_spawn_async_with_fds("/", (char **)args, NULL,
                                G_SPAWN_DO_NOT_REAP_CHILD, NULL, NULL, child,
                                sock, STDERR_FILENO, STDERR_FILENO, &why)) {
        return agent_fail(error, AGENT_ERROR_SYSTEM, "cannot start %s: %s; "
                          "who may execute it is said in " NAME "(8)", *args,
                          why->message);
    }
    return true;
}

/* The descriptor, if there is one and no other; others are closed. */
static int take_one(struct cmsghdr *c)
{
    size_t n = c && c->cmsg_level == SOL_SOCKET &&
               c->cmsg_type == SCM_RIGHTS && c->cmsg_len > CMSG_LEN(0) ?
               (c->cmsg_len - CMSG_LEN(0)) / sizeof(int) : 0;
    int fd = -1;

    for (size_t i = 0; i < n; i++) {
        memcpy(&fd, CMSG_DATA(c) + i * sizeof(fd), sizeof(fd));
        if (n > 1) {
            btrail_close(fd);
        }
    }
    return n == 1 ? fd : -1;
}

/* An answer, with a descriptor unless it says that nothing is opened */
static bool receive(int sock, enum pt_open_kind kind, uint32_t index, int *fd,
                    GError **error)
{
    struct pt_open_answer answer;
    struct iovec bytes = { &answer, sizeof(answer) };
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    struct msghdr message = {
        .msg_iov = &bytes, .msg_iovlen = 1,
        .msg_control = &control, .msg_controllen = sizeof(control),
    };
    bool reset = false;
    ssize_t n;

    do {
        n = recvmsg(sock, &message, MSG_CMSG_CLOEXEC);
        /* If it has not read the request, why it has not may be next. */
    } while (n < 0 && (errno == EINTR ||
                       (errno == ECONNRESET && !reset && (reset = true))));
    *fd = n < 0 ? -1 : take_one(CMSG_FIRSTHDR(&message));
    if (n == sizeof(answer) && answer.kind == PT_OPEN_FAILED && *fd < 0) {
        g_autofree char *text = g_strndup(answer.text, sizeof(answer.text));
        g_autofree char *valid = g_utf8_make_valid(text, -1);

        return agent_fail(error, AGENT_ERROR_SYSTEM, "%s", valid);
    }
    if (n == sizeof(answer) && answer.kind == kind && answer.index == index &&
        *fd >= 0 && !(message.msg_flags & (MSG_CTRUNC | MSG_TRUNC))) {
        return true;
    }
    btrail_close(*fd);
    *fd = -1;
    return n < 0 ? agent_error_errno(error, NAME) :
           agent_fail(error, AGENT_ERROR_PROTOCOL, n ? NAME " answers what is "
                      "not known: use that of the same version" : NAME " has "
                      "ended without an answer");
}

static bool ask(int sock, pid_t process, const pid_t *threads, unsigned n,
                const struct pt_event_setup *setup, size_t ring, GError **error)
{
    g_autofree struct pt_open_request *r = g_new0(struct pt_open_request, 1);

    if (!n || n > PT_OPEN_THREADS) {
        return agent_fail(error, AGENT_ERROR_SYSTEM, "%u threads cannot be "
                          "traced at once: from 1 to %u can", n,
                          PT_OPEN_THREADS);
    }
    r->magic = PT_OPEN_MAGIC;
    r->process = process;
    r->n_threads = n;
    r->config = setup->attr.config;
    r->ring = ring;
    r->flags = setup->live ? PT_OPEN_LIVE : 0;
    g_strlcpy(r->filter, setup->filter, sizeof(r->filter));
    for (unsigned i = 0; i < n; i++) {
        r->threads[i] = threads[i];
    }
    /* A program that has refused already has said why. */
    return send(sock, r, sizeof(*r), MSG_NOSIGNAL) == sizeof(*r) ||
           errno == EPIPE || errno == ECONNRESET ||
           agent_error_errno(error, NAME);
}

static bool get(int sock, unsigned n, size_t ring, bool live,
                struct pt_event *events, int *memory, GError **error)
{
    for (unsigned i = 0; i < n; i++) {
        if (!receive(sock, PT_OPEN_EVENT, i, &events[i].fd, error)) {
            return false;
        }
    }
    if (!receive(sock, PT_OPEN_MEMORY, 0, memory, error)) {
        return false;
    }
    for (unsigned i = 0; i < n; i++) {
        if (!pt_event_map(&events[i], ring, live, error)) {
            return false;
        }
    }
    /* It may end now. */
    return send(sock, "", 1, MSG_NOSIGNAL) == 1 ||
           agent_error_errno(error, NAME);
}

bool pt_open(const char *const *program, pid_t process, const pid_t *threads,
             unsigned n, const struct pt_event_setup *setup, size_t ring,
             struct pt_event *events, int *memory, GError **error)
{
    struct timeval patience = { SECONDS, 0 };
    bool done = false;
    int pair[2];
    GPid child;

    *memory = -1;
    for (unsigned i = 0; i < n; i++) {
        events[i] = PT_EVENT_NONE;
    }
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair)) {
        return agent_error_errno(error, "socketpair");
    }
    if (setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &patience,
                   sizeof(patience))) {
        agent_error_errno(error, "SO_RCVTIMEO");
    } else if (start(program, pair[1], &child, error)) {
        btrail_close(pair[1]);
        pair[1] = -1;
        done = ask(pair[0], process, threads, n, setup, ring, error) &&
               get(pair[0], n, ring, setup->live, events, memory, error);
    }
    btrail_close(pair[1]);
    /* It ends when it has nobody to answer to. */
    btrail_close(pair[0]);
    if (pair[1] < 0) {
        while (waitpid(child, NULL, 0) < 0 && errno == EINTR) {
        }
        g_spawn_close_pid(child);
    }
    for (unsigned i = 0; !done && i < n; i++) {
        pt_event_close(&events[i]);
    }
    if (!done) {
        btrail_close(*memory);
        *memory = -1;
    }
    return done;
}
