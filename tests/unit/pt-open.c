/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Test having events opened: by the program, with events of a kind that each
 * host has, and by programs that answer anything
 */

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "pt/pt-open-message.h"
#include "pt/pt-open.h"
#include "scratch.h"

static const char *self, *program;
static char *folder, *type;

static struct pt_event_setup clock_setup(void)
{
    return (struct pt_event_setup){
        .attr = { .config = PERF_COUNT_SW_TASK_CLOCK },
    };
}

static unsigned open_files(void)
{
    GDir *list = g_dir_open("/proc/self/fd", 0, NULL);
    unsigned n = 0;

    while (g_dir_read_name(list)) {
        n++;
    }
    g_dir_close(list);
    return n;
}

static void check_refused(const char *const *args, pid_t thread, unsigned n,
                          const char *why)
{
    g_autofree struct pt_event *events = g_new0(struct pt_event, n + 1);
    g_autofree pid_t *threads = g_new0(pid_t, n + 1);
    struct pt_event_setup s = clock_setup();
    g_autoptr(GError) error = NULL;
    unsigned before = open_files();
    int memory = 77;

    for (unsigned i = 0; i < n; i++) {
        threads[i] = thread;
    }
    g_assert_false(pt_open(args, getpid(), threads, n, &s, 0, events, &memory,
                           &error));
    g_test_message("%s", error->message);
    g_assert_nonnull(strstr(error->message, why));
    g_assert_cmpint(memory, ==, -1);
    for (unsigned i = 0; i < n; i++) {
        g_assert_cmpint(events[i].fd, ==, -1);
        g_assert_null(events[i].page);
    }
    g_assert_cmpuint(open_files(), ==, before);
}

static void burn(void)
{
    clock_t end = clock() + CLOCKS_PER_SEC / 50;

    while (clock() < end) {
    }
}

static void test_open(void)
{
    const char *const args[] = { program, type, NULL };
    struct pt_event_setup s = clock_setup();
    pid_t threads[] = { getpid() };
    g_autoptr(GError) error = NULL;
    struct pt_event event;
    char bytes[] = "as they are", got[sizeof(bytes)];
    uint64_t count = 0;
    int memory;

    if (!pt_open(args, getpid(), threads, 1, &s, 0, &event, &memory, &error)) {
        if (strstr(error->message, "does not permit")) {
            g_test_skip(error->message);
            return;
        }
        g_error("%s", error->message);
    }
    g_assert_nonnull(event.page);
    g_assert_cmpint(pread(memory, got, sizeof(got), (off_t)(uintptr_t)bytes),
                    ==, sizeof(got));
    g_assert_cmpstr(got, ==, bytes);
    g_assert_cmpint(pwrite(memory, got, 1, (off_t)(uintptr_t)bytes), ==, -1);
    burn();
    g_assert_cmpint(read(event.fd, &count, sizeof(count)), ==, sizeof(count));
    g_assert_cmpuint(count, ==, 0);
    g_assert_true(pt_event_start(&event, &error));
    burn();
    g_assert_true(pt_event_stop(&event, &error));
    g_assert_cmpint(read(event.fd, &count, sizeof(count)), ==, sizeof(count));
    g_assert_cmpuint(count, >, 0);
    pt_event_close(&event);
    close(memory);
    check_refused(args, 1, 1, "no thread 1");
    check_refused(args, getpid(), 0, "0 threads");
    check_refused(args, getpid(), PT_OPEN_THREADS + 1, "513 threads");
}

static void test_none(void)
{
    const char *const none[] = { "/nonexistent/program", NULL };
    const char *const silent[] = { "/bin/true", NULL };

    check_refused(none, getpid(), 1, "cannot start /nonexistent/program");
    check_refused(silent, getpid(), 1, "without an answer");
}

/* A program of this user that answers what it should not */
static void test_hostile(void)
{
    static const struct {
        const char *how, *why;
    } rows[] = {
        { "nothing", "without an answer" },
        { "short", "answers what is not known" },
        { "long", "answers what is not known" },
        { "kind", "answers what is not known" },
        { "index", "answers what is not known" },
        { "no-descriptor", "answers what is not known" },
        { "two-descriptors", "answers what is not known" },
        { "refused-with", "answers what is not known" },
        { "refused", "\357\277\275xxx" },
        { "no-event", "cannot map" },
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(rows); i++) {
        const char *const args[] = { self, "--answer", rows[i].how, NULL };

        check_refused(args, getpid(), 1, rows[i].why);
    }
}

static void check_fault(const char *path, uint64_t capabilities, int paranoid,
                        const char *why)
{
    uint32_t data[] = {
        GUINT32_TO_LE(0x02000000), GUINT32_TO_LE((uint32_t)capabilities), 0,
        GUINT32_TO_LE((uint32_t)(capabilities >> 32)), 0,
    };
    g_autofree char *fault = NULL;

    g_assert_cmpint(setxattr(path, "security.capability", data, sizeof(data),
                             0), ==, 0);
    fault = pt_open_fault(path, paranoid);
    if (why) {
        g_test_message("%s", fault);
        g_assert_nonnull(strstr(fault, why));
    } else {
        g_assert_cmpstr(fault, ==, NULL);
    }
}

/* What doctor says of the program, by the file alone */
static void test_fault(void)
{
    const uint64_t all = UINT64_C(1) << 38 | 1u << 19 | 1u << 14;
    g_autofree char *path = g_build_filename(folder, "program", NULL);
    g_autofree char *none = NULL, *closed = NULL, *bare = NULL, *own = NULL;

    none = pt_open_fault(path, 1);
    g_assert_nonnull(strstr(none, g_strerror(ENOENT)));
    g_assert_true(g_file_set_contents(path, "", 0, NULL));
    closed = pt_open_fault(path, 1);
    g_assert_nonnull(strstr(closed, g_strerror(EACCES)));
    g_assert_cmpint(chmod(path, 0700), ==, 0);
    bare = pt_open_fault(path, 1);
    g_assert_nonnull(strstr(bare, "lacks cap_perfmon,cap_sys_ptrace,"
                            "cap_ipc_lock:"));
    own = pt_open_program();
    g_assert_true(g_str_has_suffix(own, "/backtrail-pt-open"));
    if (geteuid() || setxattr(path, "user.test", "", 0, 0)) {
        g_test_skip("file capabilities cannot be set here");
        return;
    }
    check_fault(path, all, 2, NULL);
    check_fault(path, all & ~(UINT64_C(1) << 38), 2, "lacks cap_perfmon:");
    check_fault(path, all & ~(UINT64_C(1) << 19), 2, "lacks cap_sys_ptrace:");
    check_fault(path, 1u << 14, 2, "lacks cap_perfmon,cap_sys_ptrace:");
    check_fault(path, all, 3, "perf_event_paranoid is 3");
    check_fault(path, all | 1u << 21, 3, NULL);
    check_fault(path, all, INT_MAX, NULL);
}

/* In a process of its own: see test_hostile() */
static int answer(const char *how)
{
    struct {
        struct pt_open_answer answer;
        char more[16];
    } a = { .answer = { .kind = PT_OPEN_EVENT } };
    struct pt_open_request r;
    struct iovec bytes = { &a, sizeof(a.answer) };
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(2 * sizeof(int))];
    } control = { .room = { 0 } };
    struct msghdr message = {
        .msg_iov = &bytes, .msg_iovlen = 1, .msg_control = &control,
    };
    int fds[] = { STDIN_FILENO, STDIN_FILENO };
    unsigned n = 1;

    if (recv(STDIN_FILENO, &r, sizeof(r), 0) != sizeof(r) ||
        !strcmp(how, "nothing")) {
        return 1;
    }
    if (!strcmp(how, "short")) {
        bytes.iov_len--;
    } else if (!strcmp(how, "long")) {
        bytes.iov_len = sizeof(a);
    } else if (!strcmp(how, "kind")) {
        a.answer.kind = PT_OPEN_MEMORY;
    } else if (!strcmp(how, "index")) {
        a.answer.index = 1;
    } else if (!strcmp(how, "no-descriptor")) {
        n = 0;
    } else if (!strcmp(how, "two-descriptors")) {
        n = 2;
    } else if (g_str_has_prefix(how, "refused")) {
        a.answer.kind = PT_OPEN_FAILED;
        memset(a.answer.text, 'x', sizeof(a.answer.text));
        a.answer.text[0] = (char)0xff;
        n = !strcmp(how, "refused-with");
    }
    if (n) {
        struct cmsghdr *c = &control.header;

        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(n * sizeof(int));
        memcpy(CMSG_DATA(c), fds, n * sizeof(int));
        message.msg_controllen = CMSG_SPACE(n * sizeof(int));
    }
    sendmsg(STDIN_FILENO, &message, MSG_NOSIGNAL);
    a.answer.kind = PT_OPEN_MEMORY;
    sendmsg(STDIN_FILENO, &message, MSG_NOSIGNAL);
    /* The asker hangs up. */
    return (int)recv(STDIN_FILENO, &r, sizeof(r), 0);
}

int main(int argc, char **argv)
{
    g_autofree char *path = NULL, *given = NULL;
    int code;

    if (argc == 3 && !strcmp(argv[1], "--answer")) {
        return answer(argv[2]);
    }
    g_test_init(&argc, &argv, NULL);
    g_assert_cmpint(argc, ==, 2);
    self = path = g_file_read_link("/proc/self/exe", NULL);
    program = given = g_canonicalize_filename(argv[1], NULL);
    folder = scratch_new();
    type = g_build_filename(folder, "type", NULL);
    g_assert_true(g_file_set_contents(type, "1\n", -1, NULL));
    g_test_add_func("/pt-open/open", test_open);
    g_test_add_func("/pt-open/none", test_none);
    g_test_add_func("/pt-open/hostile", test_hostile);
    g_test_add_func("/pt-open/fault", test_fault);
    code = g_test_run();
    g_free(type);
    scratch_remove(folder);
    return code;
}
