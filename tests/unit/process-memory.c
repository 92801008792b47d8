/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The memory of a child, also when it has ended, and the files that it shares
 */

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pt/process-memory.h"

#define SIZE    (64u << 10)
#define NOBODY  65534

/* In both processes: what the child has there is its own. */
struct place {
    char *private;              /* anonymous */
    char *shared;               /* SIZE of a memfd, from 4096 on, */
    char *copied;               /* and the same privately */
    int memfd;
};

static struct place make(void)
{
    struct place p;

    p.memfd = memfd_create("test", MFD_CLOEXEC);
    g_assert_cmpint(ftruncate(p.memfd, SIZE + 4096), ==, 0);
    p.private = mmap(NULL, SIZE, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    p.shared = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, p.memfd,
                    4096);
    p.copied = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE, p.memfd,
                    0);
    g_assert_true(p.private != MAP_FAILED && p.shared != MAP_FAILED &&
                  p.copied != MAP_FAILED);
    /* Another mapping of the same, as madvise(2) makes them */
    g_assert_cmpint(madvise(p.shared + SIZE / 2, 4096, MADV_DONTDUMP), ==, 0);
    return p;
}

static void drop(struct place *p)
{
    munmap(p->private, SIZE);
    munmap(p->shared, SIZE);
    munmap(p->copied, SIZE);
    close(p->memfd);
}

/* The child writes, and waits for its end. */
static pid_t begin(struct place *p)
{
    int ready[2];
    char byte;
    pid_t pid;

    g_assert_cmpint(pipe(ready), ==, 0);
    pid = fork();
    g_assert_cmpint(pid, >=, 0);
    if (!pid) {
        strcpy(p->private, "private");
        strcpy(p->shared, "shared");
        strcpy(p->copied, "copied");
        g_assert_cmpint(write(ready[1], "x", 1), ==, 1);
        for (;;) {
            pause();
        }
    }
    g_assert_cmpint(read(ready[0], &byte, 1), ==, 1);
    close(ready[0]);
    close(ready[1]);
    return pid;
}

static void end(pid_t pid)
{
    kill(pid, SIGKILL);
    g_assert_cmpint(waitpid(pid, NULL, 0), ==, pid);
}

static void check(int fd, uint64_t offset, const char *want)
{
    char text[16] = { 0 };

    g_assert_cmpint(pread(fd, text, strlen(want), (off_t)offset), ==,
                    strlen(want));
    g_assert_cmpstr(text, ==, want);
}

static void test_read(void)
{
    struct place place = make();
    pid_t pid = begin(&place);
    struct process_memory *p = process_memory_open(pid, -1, NULL);
    int fd;
    char byte;

    if (!p) {
        g_test_skip("this user may not read another process");
        end(pid);
        return;
    }
    fd = process_memory_fd(p);
    check(fd, (uintptr_t)place.private, "private");
    check(fd, (uintptr_t)place.shared, "shared");
    check(fd, (uintptr_t)place.copied, "copied");
    g_assert_cmpint(fcntl(fd, F_GETFL) & O_ACCMODE, ==, O_RDONLY);
    g_assert_cmpint(process_memory_thread(p, pid), ==, pid);
    g_assert_cmpint(process_memory_thread(p, getpid()), ==, 0);
    g_assert_cmpint(process_memory_thread(p, 0), ==, 0);
    g_assert_cmpint(process_memory_thread(p, -1), ==, 0);
    /* It has ended: whoever has its number by now is not read. */
    end(pid);
    g_assert_cmpint(process_memory_thread(p, pid), ==, 0);
    g_assert_cmpint(pread(fd, &byte, 1, (off_t)(uintptr_t)place.private), <=,
                    0);
    process_memory_free(p);
    drop(&place);
}

/* In a container a process has another number. */
static void test_container(void)
{
    int ready[2];
    pid_t pid, inner = 0;

    g_assert_cmpint(pipe(ready), ==, 0);
    pid = fork();
    g_assert_cmpint(pid, >=, 0);
    if (!pid) {
        close(ready[0]);
        if (!unshare(CLONE_NEWPID)) {
            pid_t child = fork();

            if (!child) {
                for (;;) {
                    pause();
                }
            }
            g_assert_cmpint(write(ready[1], &child, sizeof(child)), ==,
                            sizeof(child));
            for (;;) {
                pause();
            }
        }
        _exit(0);
    }
    close(ready[1]);
    if (read(ready[0], &inner, sizeof(inner)) == sizeof(inner)) {
        struct process_memory *p = process_memory_open(inner, -1, NULL);

        g_assert_nonnull(p);
        g_assert_cmpint(process_memory_thread(p, 1), ==, inner);
        g_assert_cmpint(process_memory_thread(p, inner), ==, 0);
        process_memory_free(p);
        /* It has what the test writes to, and would keep it open. */
        kill(inner, SIGKILL);
    } else {
        g_test_skip("this user can make no namespaces");
    }
    close(ready[0]);
    end(pid);
}

/* A program that is replaced has other memory at these addresses. */
static void test_exec(void)
{
    struct place place = make();
    struct process_memory *p;
    int ready[2], go[2];
    char byte;
    pid_t pid;

    g_assert_cmpint(pipe(ready), ==, 0);
    g_assert_cmpint(pipe2(go, O_CLOEXEC), ==, 0);
    pid = fork();
    if (!pid) {
        g_assert_cmpint(read(go[0], &byte, 1), ==, 1);
        dup2(ready[1], 1);
        execl("/bin/sh", "sh", "-c", "echo x; sleep 100", NULL);
        _exit(1);
    }
    p = process_memory_open(pid, -1, NULL);
    g_assert_cmpint(write(go[1], "x", 1), ==, 1);
    g_assert_cmpint(read(ready[0], &byte, 1), ==, 1);
    if (p) {
        g_assert_cmpint(pread(process_memory_fd(p), &byte, 1,
                              (off_t)(uintptr_t)place.private), <=, 0);
    }
    process_memory_free(p);
    end(pid);
    close(ready[0]);
    close(ready[1]);
    close(go[0]);
    close(go[1]);
    drop(&place);
}

static void test_file(void)
{
    struct place place = make();
    pid_t pid = begin(&place);
    struct process_memory *p = process_memory_open(pid, -1, NULL);
    uint64_t at = (uintptr_t)place.shared, offset = 0;
    int fd;

    if (!p) {
        g_test_skip("this user may not read another process");
        end(pid);
        return;
    }
    fd = process_memory_file(p, at, SIZE, &offset);
    g_assert_cmpint(fd, >=, 0);
    g_assert_cmpuint(offset, ==, 4096);
    g_assert_cmpint(fcntl(fd, F_GETFL) & O_ACCMODE, ==, O_RDONLY);
    check(fd, offset, "shared");
    close(fd);
    fd = process_memory_file(p, at + 8192, 4096, &offset);
    g_assert_cmpint(fd, >=, 0);
    g_assert_cmpuint(offset, ==, 3 * 4096);
    close(fd);

    /* More than there is, none, nothing, private */
    g_assert_cmpint(process_memory_file(p, at, SIZE + 4096, &offset), ==, -1);
    g_assert_cmpint(process_memory_file(p, at, UINT64_MAX, &offset), ==, -1);
    g_assert_cmpint(process_memory_file(p, at, 0, &offset), ==, -1);
    g_assert_cmpint(process_memory_file(p, 0, 4096, &offset), ==, -1);
    g_assert_cmpint(process_memory_file(p, (uintptr_t)place.private, 4096,
                                        &offset), ==, -1);
    g_assert_cmpint(process_memory_file(p, (uintptr_t)place.copied, 4096,
                                        &offset), ==, -1);
    /* Beyond its end a mapping has nothing to read. */
    g_assert_cmpint(ftruncate(place.memfd, 8192), ==, 0);
    g_assert_cmpint(process_memory_file(p, at, SIZE, &offset), ==, -1);
    end(pid);
    g_assert_cmpint(process_memory_file(p, at, 4096, &offset), ==, -1);
    process_memory_free(p);
    drop(&place);
}

/* With a descriptor that somebody else has opened, no right is needed. */
static void test_passed(void)
{
    struct place place = make();
    pid_t pid = begin(&place), reader;
    struct process_memory *p = process_memory_open(pid, -1, NULL);
    uint64_t offset;
    int status;

    if (!p || geteuid()) {
        g_test_skip("only root can be another user");
        process_memory_free(p);
        end(pid);
        drop(&place);
        return;
    }
    reader = fork();
    g_assert_cmpint(reader, >=, 0);
    if (!reader) {
        struct process_memory *passed;

        g_assert_cmpint(setresuid(NOBODY, NOBODY, NOBODY), ==, 0);
        g_assert_null(process_memory_open(pid, -1, NULL));
        passed = process_memory_open(pid, process_memory_fd(p), NULL);
        g_assert_nonnull(passed);
        check(process_memory_fd(passed), (uintptr_t)place.private, "private");
        g_assert_cmpint(process_memory_thread(passed, pid), ==, pid);
        /* Its files are not for others; their bytes are in its memory. */
        g_assert_cmpint(process_memory_file(passed, (uintptr_t)place.shared,
                                            SIZE, &offset), ==, -1);
        check(process_memory_fd(passed), (uintptr_t)place.shared, "shared");
        process_memory_free(passed);
        /* To see its threads takes none at all. */
        passed = process_memory_find(pid, NULL);
        g_assert_nonnull(passed);
        g_assert_cmpint(process_memory_fd(passed), ==, -1);
        g_assert_cmpint(process_memory_thread(passed, pid), ==, pid);
        process_memory_free(passed);
        _exit(0);
    }
    g_assert_cmpint(waitpid(reader, &status, 0), ==, reader);
    g_assert_cmpint(status, ==, 0);
    /* That passed stays the caller's. */
    check(process_memory_fd(p), (uintptr_t)place.private, "private");
    process_memory_free(p);
    end(pid);
    drop(&place);
}

static void test_none(void)
{
    g_autoptr(GError) error = NULL;

    /* More than there can be */
    g_assert_null(process_memory_open(1 << 30, -1, &error));
    g_assert_error(error, AGENT_ERROR, AGENT_ERROR_SYSTEM);
    g_assert_nonnull(strstr(error->message, "process 1073741824"));
    g_clear_error(&error);
    g_assert_null(process_memory_open(-1, -1, &error));
    g_assert_error(error, AGENT_ERROR, AGENT_ERROR_SYSTEM);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/process-memory/read", test_read);
    g_test_add_func("/process-memory/container", test_container);
    g_test_add_func("/process-memory/exec", test_exec);
    g_test_add_func("/process-memory/file", test_file);
    g_test_add_func("/process-memory/passed", test_passed);
    g_test_add_func("/process-memory/none", test_none);
    return g_test_run();
}
