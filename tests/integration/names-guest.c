/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The first process of the guest that tests/integration/linux-names inspects
 *
 * usage: init, /init MODULE...
 *
 * Makes processes of all kinds, prints what /proc says of them, in hexadecimal,
 * and does nothing more: what is in memory then is what was printed.  It prints
 * to pages of its own that the test finds in the guest's memory: a serial port
 * takes an interrupt for every few bytes.
 */

#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* The test has the same mark and size. */
static struct page {
    char mark[8];
    uint64_t number;
    char text[4080];
} pages[8192] __attribute__((aligned(4096)));
static size_t printed;

/* The write function of stdout */
static ssize_t print_to_pages(void *cookie, const char *data, size_t size)
{
    size_t i;

    (void)cookie;
    for (i = 0; i < size && printed < sizeof(pages) / 4096 * 4080; i++) {
        struct page *p = &pages[printed / 4080];

        memcpy(p->mark, "BT: page", 8);
        p->number = printed / 4080;
        p->text[printed++ % 4080] = data[i];
    }
    return i;
}

static _Noreturn void stay(void)
{
    for (;;) {
        pause();
    }
}

static void check(int good, const char *what)
{
    if (!good) {
        dprintf(1, "BT: error %s: %s\n", what, strerror(errno));
        stay();
    }
}

static void ready(int fd)
{
    check(write(fd, "x", 1) == 1, "write");
}

static void *thread(void *name)
{
    check(!prctl(PR_SET_NAME, name), "PR_SET_NAME");
    stay();
}

static void start_thread(const char *name)
{
    pthread_t t;

    check(!pthread_create(&t, NULL, thread, (void *)name), "thread");
}

/* Threads, and mappings of all kinds of files */
static void many(int fd)
{
    int file;
    char *p;

    start_thread("one");
    start_thread("a thread\xff");
    start_thread("15 characters.x");
    file = open("/init", O_RDONLY);
    check(mmap(NULL, 8192, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 4096) !=
          MAP_FAILED, "offset");
    check(mmap((void *)0x10000, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS |
               MAP_FIXED, -1, 0) != MAP_FAILED, "low");
    check(mmap(NULL, 12288, PROT_READ | PROT_WRITE,
               MAP_SHARED | MAP_ANONYMOUS, -1, 0) != MAP_FAILED, "shared");
    file = syscall(SYS_memfd_create, "a memfd", 0);
    check(!ftruncate(file, 16384), "memfd");
    p = mmap(NULL, 16384, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_SHARED,
             file, 0);
    check(p != MAP_FAILED, "memfd");
    p[5000] = 1;
    mkdir("/a", 0755);
    check(!mount("a", "/a", "tmpfs", 0, NULL), "tmpfs");
    mkdir("/a/b c", 0755);
    mkdir("/a/bound", 0755);
    file = open("/a/b c/file\xfe", O_RDWR | O_CREAT, 0644);
    check(!ftruncate(file, 40960), "file");
    check(mmap(NULL, 4096, PROT_READ, MAP_SHARED, file, 32768) != MAP_FAILED,
          "file");
    check(!mount("/a/b c", "/a/bound", NULL, MS_BIND, NULL), "bind");
    file = open("/a/bound/file\xfe", O_RDWR);
    check(mmap(NULL, 4096, PROT_WRITE, MAP_PRIVATE, file, 0) != MAP_FAILED,
          "bound");
    file = open("/a/gone", O_RDWR | O_CREAT, 0644);
    check(!ftruncate(file, 4096), "gone");
    check(mmap(NULL, 4096, PROT_READ, MAP_SHARED, file, 0) != MAP_FAILED,
          "gone");
    unlink("/a/gone");
    ready(fd);
}

/* As many mappings as make a tree with several levels */
static void tree(int fd)
{
    int i;

    for (i = 0; i < 3000; i++) {
        char *p = mmap((void *)(0x200000000 + i * 12288ul), 4096,
                       i % 2 ? PROT_READ : PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1,
                       0);
        check(p != MAP_FAILED, "tree");
    }
    ready(fd);
}

/* Its first thread has ended, others go on. */
static void leaderless(int fd)
{
    start_thread("left alone");
    ready(fd);
    syscall(SYS_exit, 0);
}

/* Writes over its arguments, as setproctitle() does */
static void title(int fd, char **argv)
{
    size_t room = strlen(argv[0]) + strlen(argv[1]) + strlen(argv[2]) + 3;

    memset(argv[0], 0, room);
    memset(argv[0], 'T', room);
    ready(fd);
}

static int child(void *fd)
{
    prctl(PR_SET_NAME, "shares");
    ready(*(int *)fd);
    stay();
}

/* Has a child that shares its memory and is no thread */
static void shares(int fd)
{
    static char stack[65536];

    check(clone(child, stack + sizeof(stack), CLONE_VM | SIGCHLD, &fd) > 0,
          "clone");
}

static _Noreturn void behave(char **argv)
{
    int fd = atoi(argv[1]);

    if (!strcmp(argv[2], "many")) {
        many(fd);
    } else if (!strcmp(argv[2], "tree")) {
        tree(fd);
    } else if (!strcmp(argv[2], "leaderless")) {
        leaderless(fd);
    } else if (!strcmp(argv[2], "title")) {
        title(fd, argv);
    } else if (!strcmp(argv[2], "shares")) {
        shares(fd);
    } else {
        prctl(PR_SET_NAME, "renamed () 1");
        ready(fd);
    }
    stay();
}

static void start(char *kind, char *argument)
{
    char number[16];
    char *argv[] = { "/init", number, kind, argument, "\xc3\xa4 b\n", "",
                     NULL };
    int ends[2];
    char c;

    check(!pipe(ends), "pipe");
    snprintf(number, sizeof(number), "%d", ends[1]);
    if (!fork()) {
        setenv("SOME", "thing", 1);
        execv(argv[0], argv);
        check(0, "exec");
    }
    check(read(ends[0], &c, 1) == 1, "read");
}

static void print_file(const char *name, const char *path)
{
    static unsigned char bytes[1 << 20];
    int fd = open(path, O_RDONLY);
    size_t size = 0;
    ssize_t n;
    size_t i;

    if (fd < 0) {
        return;
    }
    while (size < sizeof(bytes) &&
           (n = read(fd, bytes + size, sizeof(bytes) - size)) > 0) {
        size += n;
    }
    close(fd);
    printf("%s ", name);
    for (i = 0; i < size; i++) {
        printf("%02x", bytes[i]);
    }
    putchar('\n');
}

static void print_tasks(const char *pid)
{
    char path[600];
    struct dirent *e;
    DIR *dir;

    snprintf(path, sizeof(path), "/proc/%s/task", pid);
    dir = opendir(path);
    while (dir && (e = readdir(dir))) {
        if (e->d_name[0] != '.') {
            printf("thread %s\n", e->d_name);
            snprintf(path, sizeof(path), "/proc/%s/task/%s/stat", pid,
                     e->d_name);
            print_file("stat", path);
            /* The first thread's is empty if it has ended. */
            snprintf(path, sizeof(path), "/proc/%s/task/%s/maps", pid,
                     e->d_name);
            print_file("maps", path);
            snprintf(path, sizeof(path), "/proc/%s/task/%s/cmdline", pid,
                     e->d_name);
            print_file("cmdline", path);
            snprintf(path, sizeof(path), "/proc/%s/task/%s/exe", pid,
                     e->d_name);
            {
                char exe[4096];
                ssize_t n = readlink(path, exe, sizeof(exe) - 1);

                exe[n > 0 ? n : 0] = 0;
                printf("exe %s\n", exe);
            }
        }
    }
    if (dir) {
        closedir(dir);
    }
}

static void print_processes(void)
{
    struct dirent *e;
    DIR *dir = opendir("/proc");

    check(dir != NULL, "/proc");
    while ((e = readdir(dir))) {
        if (e->d_name[0] >= '0' && e->d_name[0] <= '9') {
            printf("process %s\n", e->d_name);
            print_tasks(e->d_name);
        }
    }
    closedir(dir);
}

static void print_vdso(void)
{
    FILE *f = fopen("/proc/self/maps", "r");
    char line[500];

    while (f && fgets(line, sizeof(line), f)) {
        unsigned char *p, *end;

        if (strstr(line, "[vdso]") &&
            sscanf(line, "%p-%p", (void **)&p, (void **)&end) == 2) {
            printf("vdso ");
            for (; p < end; p++) {
                printf("%02x", *p);
            }
            putchar('\n');
        }
    }
    fclose(f);
}

static void print_symbols(void)
{
    static char bytes[1 << 16];
    int fd = open("/proc/kallsyms", O_RDONLY);
    ssize_t n;

    while ((n = read(fd, bytes, sizeof(bytes))) > 0) {
        fwrite(bytes, 1, n, stdout);
    }
    check(!n, "kallsyms");
    close(fd);
}

int main(int argc, char **argv)
{
    int i;

    if (getpid() != 1) {
        behave(argv);
    }
    mkdir("/proc", 0755);
    mount("proc", "/proc", "proc", 0, NULL);
    mkdir("/dev", 0755);
    mount("dev", "/dev", "devtmpfs", 0, NULL);
    i = open("/dev/console", O_RDWR);
    dup2(i, 0);
    dup2(i, 1);
    dup2(i, 2);
    stdout = fopencookie(NULL, "w",
                         (cookie_io_functions_t){ .write = print_to_pages });
    i = open("/proc/sys/kernel/kptr_restrict", O_WRONLY);
    check(i >= 0 && write(i, "0", 1) == 1, "kptr_restrict");
    for (i = 0; i < 100; i++) {
        char name[32];
        int fd;

        snprintf(name, sizeof(name), "/modules/%d.ko", i);
        fd = open(name, O_RDONLY);
        if (fd < 0) {
            break;
        }
        check(!syscall(SYS_finit_module, fd, "", 0), name);
        close(fd);
    }
    start("plain", "-x");
    start("many", "");
    start("tree", "/");
    start("leaderless", "");
    start("title", "more");
    start("shares", "memory");
    if (!fork()) {
        prctl(PR_SET_NAME, "zombie");
        _exit(0);
    }
    sleep(1);
    print_symbols();
    printf("BT: processes\n");
    print_processes();
    print_file("cpuinfo", "/proc/cpuinfo");
    print_vdso();
    check(!fflush(stdout) && !ferror(stdout), "pages");
    dprintf(1, "BT: end %zu\n", printed);
    stay();
}
