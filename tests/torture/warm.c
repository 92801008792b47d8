/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Runs a program again and again without starting it again
 *
 * A library for LD_PRELOAD.  When the program is about to enter main(), it waits
 * for requests on the socket that BACKTRAIL_WARM names instead, and enters
 * main() in a new process for each: what runs is the program as it is, without
 * what it takes to load it, which with sanitizers is most of the time.
 *
 * A request is a packet of words that end with NUL: files for standard input,
 * output and error, and the arguments, from that of the program's name on.
 * Empty words are between several lines of arguments, which enter main() one
 * after the other in one process; what line N writes, from 0, goes to the files
 * with N after their names.  The answer is a packet of text: the status of
 * waitpid(), or -1 if the process took too much, milliseconds of CPU time, the
 * most KiB that were resident, and what main() has returned for each line,
 * until one did not.
 */

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MAX_REQUEST 65536
#define MAX_WORDS   256
#define MAX_LINES   16
#define LOOK_NS     20000000

typedef int main_fn(int argc, char **argv, char **envp);

static main_fn *real_main;

/* What a process may take; from the environment */
static struct {
    unsigned long cpu;          /* seconds */
    unsigned long wall;         /* seconds */
    unsigned long memory;       /* MiB */
    unsigned long output;       /* bytes of a file */
    unsigned long leaks;        /* nothing: what is left at the end is wanted */
} may;

static unsigned long number(const char *name, unsigned long otherwise)
{
    const char *text = getenv(name);

    return text ? strtoul(text, NULL, 10) : otherwise;
}

static void redirect(int to, const char *path, int flags)
{
    int fd = open(path, flags, 0600);

    if (fd < 0 || dup2(fd, to) < 0) {
        _exit(126);
    }
    if (fd != to) {
        close(fd);
    }
}

/* What main() has returned, in memory that processes share */
static struct {
    int n;
    int codes[MAX_LINES];
} *done;

static void redirect_line(char **files, int line)
{
    char path[PATH_MAX];

    for (int i = 1; i < 3; i++) {
        snprintf(path, sizeof(path), "%s%d", files[i], line);
        redirect(i, path, O_WRONLY | O_CREAT | O_TRUNC);
    }
}

/* Each line enters main().  Returns what the last one has returned. */
static int run_lines(char **files, char **words, int n, char **envp)
{
    int code = 0;

    for (int begin = 0, end, line = 0; begin < n && line < MAX_LINES;
         begin = end + 1, line++) {
        for (end = begin; end < n && words[end][0]; end++) {
        }
        words[end] = NULL;
        redirect_line(files, line);
        code = real_main(end - begin, words + begin, envp);
        fflush(NULL);
        done->codes[line] = code;
        done->n = line + 1;
    }
    return code;
}

static int has_lines(char **words, int n)
{
    for (int i = 0; i < n; i++) {
        if (!words[i][0]) {
            return 1;
        }
    }
    return 0;
}

static int run(int sock, char **words, int n, char **envp, sigset_t *mask)
{
    const struct rlimit cpu = { may.cpu, may.cpu };
    const struct rlimit output = { may.output, may.output };
    const struct rlimit core = { 0, 0 };

    close(sock);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    /* Too large a file is an error to report, not a signal. */
    signal(SIGXFSZ, SIG_IGN);
    sigprocmask(SIG_SETMASK, mask, NULL);
    setrlimit(RLIMIT_CPU, &cpu);
    setrlimit(RLIMIT_FSIZE, &output);
    setrlimit(RLIMIT_CORE, &core);
    redirect(0, words[0], O_RDONLY);
    if (has_lines(words + 3, n - 3)) {
        return run_lines(words, words + 3, n - 3, envp);
    }
    redirect(1, words[1], O_WRONLY | O_CREAT | O_TRUNC);
    redirect(2, words[2], O_WRONLY | O_CREAT | O_TRUNC);
    return real_main(n - 3, words + 3, envp);
}

/* Resident, in KiB; 0 if it has ended */
static unsigned long resident(pid_t pid)
{
    unsigned long pages = 0;
    char path[64];
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%d/statm", (int)pid);
    f = fopen(path, "re");
    if (f) {
        if (fscanf(f, "%*u %lu", &pages) != 1) {
            pages = 0;
        }
        fclose(f);
    }
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

/* Waits for its end, and brings that about if it takes too much. */
static int wait_for(pid_t pid, const sigset_t *child, struct rusage *used)
{
    const struct timespec look = { 0, LOOK_NS };
    int status, signalled = 0;
    struct timespec begin, now;

    clock_gettime(CLOCK_MONOTONIC, &begin);
    while (wait4(pid, &status, WNOHANG, used) != pid) {
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (!signalled &&
            ((unsigned long)(now.tv_sec - begin.tv_sec) > may.wall ||
             resident(pid) > may.memory * 1024)) {
            signalled = 1;
            kill(-pid, SIGKILL);
            kill(pid, SIGKILL);
        }
        sigtimedwait(child, NULL, &look);
    }
    /* What it has started goes with it. */
    kill(-pid, SIGKILL);
    return signalled ? -1 : status;
}

static int split(char *request, ssize_t size, char **words)
{
    int n = 0;

    for (char *p = request; p < request + size && n < MAX_WORDS;
         p += strlen(p) + 1) {
        words[n++] = p;
    }
    words[n] = NULL;
    return n;
}

static int serve(int argc, char **argv, char **envp)
{
    static char request[MAX_REQUEST + 1];
    static char *words[MAX_WORDS + 1];
    int sock = number("BACKTRAIL_WARM", 3);
    sigset_t child, mask;
    ssize_t size;

    unsetenv("BACKTRAIL_WARM");
    unsetenv("LD_PRELOAD");
    may.cpu = number("WARM_CPU", 120);
    may.wall = number("WARM_WALL", 600);
    may.memory = number("WARM_MEMORY", 2500);
    may.output = number("WARM_OUTPUT", 64 << 20);
    done = mmap(NULL, sizeof(*done), PROT_READ | PROT_WRITE,
                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (done == MAP_FAILED) {
        return 123;
    }
    may.leaks = number("WARM_LEAKS", 0);
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child, &mask);
    while ((size = recv(sock, request, MAX_REQUEST, 0)) > 0) {
        struct rusage used = { 0 };
        char reply[128 + 12 * MAX_LINES];
        int n, status;
        pid_t pid;

        request[size] = '\0';
        n = split(request, size, words);
        if (n < 4) {
            return 125;
        }
        done->n = 0;
        pid = fork();
        if (!pid) {
            status = run(sock, words, n, environ, &mask);
            if (may.leaks) {
                exit(status);
            }
            /* To end as after main() takes as long as most commands. */
            fflush(NULL);
            _exit(status);
        }
        if (pid < 0) {
            return 124;
        }
        setpgid(pid, pid);
        status = wait_for(pid, &child, &used);
        n = snprintf(reply, sizeof(reply), "%d %ld %ld", status,
                     (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000L +
                     (used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1000,
                     used.ru_maxrss);
        for (int i = 0; i < done->n; i++) {
            n += snprintf(reply + n, sizeof(reply) - n, " %d",
                          done->codes[i]);
        }
        if (send(sock, reply, n, MSG_NOSIGNAL) != n) {
            break;
        }
    }
    return 0;
}

/* As that of the C library, with another main() */
int __libc_start_main(main_fn *main, int argc, char **argv, void (*init)(void),
                      void (*fini)(void), void (*rtld_fini)(void),
                      void *stack_end);

int __libc_start_main(main_fn *main, int argc, char **argv, void (*init)(void),
                      void (*fini)(void), void (*rtld_fini)(void),
                      void *stack_end)
{
    int (*start)(main_fn *, int, char **, void (*)(void), void (*)(void),
                 void (*)(void), void *) = dlsym(RTLD_NEXT,
                                                 "__libc_start_main");

    real_main = main;
    return start(getenv("BACKTRAIL_WARM") ? serve : main, argc, argv, init,
                 fini, rtld_fini, stack_end);
}
