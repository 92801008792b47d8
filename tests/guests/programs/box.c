// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What containers and their tools do to the names of programs:
 *
 *   box ROOT PROGRAM   executes PROGRAM with PIDs and mounts of its own, below
 *                      ROOT
 *   memfd NAME         executes itself out of a file that has no name
 *   gone               executes itself out of a file that is then deleted
 *
 * Each says which PID it has, and spins.
 */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "programs.h"

#define MS "700"

static char stack[65536] __attribute__((aligned(16)));

static void copy_self(int to)
{
    static char buffer[65536];
    int from = open("/proc/self/exe", O_RDONLY);
    ssize_t n;

    if (from < 0 || to < 0) {
        die("open");
    }
    while ((n = read(from, buffer, sizeof(buffer))) > 0) {
        if (write(to, buffer, n) != n) {
            die("write");
        }
    }
    close(from);
}

static int inner(void *arg)
{
    char **argv = arg;

    if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
        chroot(argv[1]) || chdir("/") || mount("proc", "/proc", "proc", 0, "")) {
        die("a root of its own");
    }
    execl(argv[2], argv[2], MS, (char *)NULL);
    die("exec");
}

int box_main(int argc, char **argv)
{
    int pid;

    if (argc != 3) {
        return 2;
    }
    pid = clone(inner, stack + sizeof(stack),
                CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWUTS | SIGCHLD, argv);
    if (pid < 0) {
        die("clone");
    }
    printf("BT: box pid=%d\n", pid);
    fflush(stdout);
    waitpid(pid, NULL, 0);
    return 0;
}

int memfd_main(int argc, char **argv)
{
    char *const args[] = { "spin", MS, NULL }, *const environment[] = { NULL };
    int fd = memfd_create(argc > 1 ? argv[1] : "nameless", MFD_CLOEXEC);

    copy_self(fd);
    printf("BT: memfd pid=%d\n", getpid());
    fflush(stdout);
    fexecve(fd, args, environment);
    die("fexecve");
}

int gone_main(int argc, char **argv)
{
    static const char path[] = "/tmp/gone-file";
    int fd = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0755);
    int pid;

    (void)argc;
    (void)argv;
    copy_self(fd);
    close(fd);
    pid = fork();
    if (pid == 0) {
        execl(path, "spin", MS, (char *)NULL);
        die("exec");
    }
    usleep(100000);
    unlink(path);
    printf("BT: gone pid=%d\n", pid);
    fflush(stdout);
    waitpid(pid, NULL, 0);
    return 0;
}
