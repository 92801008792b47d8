/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What takes long, in a process of its own: see apart.h
 */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "util/apart.h"
#include "util/whole-io.h"

/* The most bytes of an answer */
#define MAX_ANSWER  (64u << 20)
/* How often it is asked whether it is still wanted */
#define ASK_MS      20

struct apart {
    pid_t pid;              /* 0 when it has ended */
    int fd;
    GByteArray *bytes;
};

static void compute_all(apart_fn *compute, void *opaque, pid_t parent, int fd)
{
    GByteArray *out = g_byte_array_new();
    sigset_t none;

    sigemptyset(&none);
    signal(SIGTERM, SIG_DFL);
    signal(SIGPIPE, SIG_DFL);
    /* Whoever gets Ctrl-C decides whether to give it up. */
    signal(SIGINT, SIG_IGN);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != parent) {
        _exit(1);
    }
    compute(opaque, out);
    _exit(whole_write(fd, out->data, out->len) ? 1 : 0);
}

struct apart *apart_start(apart_fn *compute, void *opaque)
{
    struct apart *a;
    pid_t parent = getpid(), pid;
    int fds[2];

    if (pipe2(fds, O_CLOEXEC)) {
        return NULL;
    }
    pid = fork();
    if (!pid) {
        close(fds[0]);
        compute_all(compute, opaque, parent, fds[1]);
    }
    close(fds[1]);
    if (pid < 0) {
        close(fds[0]);
        return NULL;
    }
    fcntl(fds[0], F_SETFL, O_NONBLOCK);
    a = g_new0(struct apart, 1);
    a->pid = pid;
    a->fd = fds[0];
    a->bytes = g_byte_array_new();
    return a;
}

/* Did it come to its end? */
static bool reap(struct apart *a)
{
    int status = 1;

    while (waitpid(a->pid, &status, 0) < 0 && errno == EINTR) {
        continue;
    }
    a->pid = 0;
    return WIFEXITED(status) && !WEXITSTATUS(status);
}

void apart_free(struct apart *a)
{
    if (a) {
        if (a->pid) {
            kill(a->pid, SIGKILL);
            reap(a);
        }
        close(a->fd);
        g_clear_pointer(&a->bytes, g_byte_array_unref);
        g_free(a);
    }
}

int apart_fd(const struct apart *a)
{
    return a->fd;
}

void apart_read(struct apart *a, bool *done)
{
    uint8_t bytes[65536];
    ssize_t n = a->pid ? read(a->fd, bytes, sizeof(bytes)) : 0;

    if (n > 0 && a->bytes->len + n <= MAX_ANSWER) {
        g_byte_array_append(a->bytes, bytes, n);
    } else if (n >= 0 || (errno != EAGAIN && errno != EINTR)) {
        if (n) {
            kill(a->pid, SIGKILL);
        }
        if (a->pid && !reap(a)) {
            g_clear_pointer(&a->bytes, g_byte_array_unref);
        }
    }
    *done = !a->pid;
}

const GByteArray *apart_answer(const struct apart *a)
{
    return a->pid ? NULL : a->bytes;
}

bool apart_wait(struct apart *a, bool (*go_on)(void *opaque), void *opaque)
{
    struct pollfd ready = { .fd = a->fd, .events = POLLIN };
    bool done = !a->pid;

    while (!done && go_on(opaque)) {
        if (poll(&ready, 1, ASK_MS) == 1) {
            apart_read(a, &done);
        }
    }
    return done;
}

GByteArray *apart_run(apart_fn *compute, void *opaque,
                      bool (*go_on)(void *opaque), void *go_on_opaque)
{
    struct apart *a = apart_start(compute, opaque);
    GByteArray *answer = NULL;

    if (a && apart_wait(a, go_on, go_on_opaque)) {
        answer = g_steal_pointer(&a->bytes);
    }
    apart_free(a);
    return answer;
}
