/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Code that changes while it is traced, for tests/integration/pt-live and
 * pt-freeze
 *
 * usage: change modules FILE1 FILE2    loads two modules in turn
 *        change bpf                    loads, runs and frees two BPF programs
 *                                      in turn
 *        change patch FILE             turns something on and off again: writes
 *                                      1 and 0 to a file
 *        change maps                   executes two files, each at one address
 *                                      after the other; and one of them at an
 *                                      address where it stays, too
 *        change turns                  executes two files, one after the other
 *                                      at the same address
 *        change alias                  writes code anew each time through
 *                                      another mapping of its page
 *        change spaces                 processes as fast as they come, of two
 *                                      programs at the same addresses
 *        change kexec KERNEL INITRD WORDS
 *                                      starts another kernel
 *        change exec PADDING           a process that starts its program anew,
 *                                      each time with the other one of two
 *                                      codes at the same address
 *
 * "In turn" is as fast as it can be.  The packets of what comes in turn fit
 * each other's code, but for the addresses that they say.
 */

#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/reboot.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAGE        4096
#define MAPPED_NS   UINT64_C(30000000)
#define LOADED_NS   UINT64_C(100000000)

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static int open_file(const char *name)
{
    int fd = open(name, O_RDONLY | O_CLOEXEC);

    if (fd < 0) {
        die(name);
    }
    return fd;
}

static void load_modules(char **files)
{
    int fds[2] = { open_file(files[0]), open_file(files[1]) };

    for (unsigned i = 0;; i++) {
        if (syscall(SYS_finit_module, fds[i % 2], "", 0)) {
            die("finit_module");
        }
        if (syscall(SYS_delete_module, i % 2 ? "twin3" : "twin1", 0)) {
            die("delete_module");
        }
    }
}

/* A loop with a call of the kernel, after so many instructions that do
 * nothing */
static void run_bpf(unsigned padding)
{
    static const struct bpf_insn begin[] = {
        { BPF_ALU64 | BPF_MOV | BPF_K, 7, 0, 0, 1 },
        { BPF_ALU64 | BPF_MOV | BPF_K, 6, 0, 0, 30 },
    }, nothing = { BPF_ALU64 | BPF_ADD | BPF_K, 7, 0, 0, 3 }, end[] = {
        { BPF_ALU64 | BPF_ADD | BPF_X, 7, 6, 0, 0 },
        { BPF_ALU64 | BPF_SUB | BPF_K, 6, 0, 0, 1 },
        { BPF_JMP | BPF_JNE | BPF_K, 6, 0, -3, 0 },
        { BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_ktime_get_ns },
        { BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, 0 },
        { BPF_JMP | BPF_EXIT, 0, 0, 0, 0 },
    };
    struct bpf_insn code[64];
    unsigned n = 0;
    union bpf_attr a;
    char data[64] = { 0 };
    int fd;

    memcpy(code, begin, sizeof(begin));
    n += sizeof(begin) / sizeof(*code);
    while (padding--) {
        code[n++] = nothing;
    }
    memcpy(code + n, end, sizeof(end));
    n += sizeof(end) / sizeof(*code);
    memset(&a, 0, sizeof(a));
    a.prog_type = BPF_PROG_TYPE_SOCKET_FILTER;
    a.insns = (uintptr_t)code;
    a.insn_cnt = n;
    a.license = (uintptr_t)"GPL";
    fd = syscall(SYS_bpf, BPF_PROG_LOAD, &a, sizeof(a));
    if (fd < 0) {
        die("BPF_PROG_LOAD");
    }
    memset(&a, 0, sizeof(a));
    a.test.prog_fd = fd;
    a.test.data_in = (uintptr_t)data;
    a.test.data_size_in = sizeof(data);
    a.test.repeat = 20;
    if (syscall(SYS_bpf, BPF_PROG_TEST_RUN, &a, sizeof(a))) {
        die("BPF_PROG_TEST_RUN");
    }
    close(fd);
}

static void patch(const char *file)
{
    int fd = open(file, O_WRONLY | O_CLOEXEC);

    if (fd < 0) {
        die(file);
    }
    for (unsigned i = 1;; i++) {
        if (pwrite(fd, i % 2 ? "1" : "0", 1, 0) != 1) {
            die(file);
        }
        for (unsigned k = 0; k < 50; k++) {
            syscall(SYS_getppid);
            sched_yield();
        }
    }
}

static uint8_t *put(uint8_t *p, const char *bytes, unsigned n)
{
    memcpy(p, bytes, n);
    return p + n;
}

/* A loop of 20 rounds in a page of code, which returns */
static void write_code(uint8_t *p, unsigned padding)
{
    p = put(p, "\xb9\x14\0\0\0", 5);            /* mov $20, %ecx */
    memset(p, 0x90, padding);
    p += padding;
    p = put(p, "\xff\xc9", 2);                  /* dec %ecx */
    p = put(p, "\x75\xfc", 2);                  /* jnz */
    put(p, "\xc3", 1);
}

static void call(const uint8_t *page)
{
    void (*f)(void);

    memcpy(&f, &page, sizeof(f));
    f();
}

static int make_code(unsigned padding)
{
    int fd = memfd_create("code", MFD_CLOEXEC);
    uint8_t page[PAGE] = { 0 };

    write_code(page, padding);
    if (fd < 0 || write(fd, page, PAGE) != PAGE) {
        die("memfd");
    }
    return fd;
}

static uint8_t *map(uint8_t *at, int fd, int prot)
{
    uint8_t *p = mmap(at, PAGE, prot, MAP_SHARED | (at ? MAP_FIXED : 0), fd,
                      0);

    if (p == MAP_FAILED) {
        die("mmap");
    }
    return p;
}

static uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * UINT64_C(1000000000) + t.tv_nsec;
}

static void run_maps(void)
{
    int fds[2] = { make_code(3), make_code(5) };
    uint8_t *stays = map(NULL, fds[0], PROT_READ | PROT_EXEC);
    uint8_t *places = (uint8_t *)0x70000000;

    for (unsigned i = 0;; i++) {
        uint8_t *a = map(places + i % 4 * PAGE, fds[0],
                         PROT_READ | PROT_EXEC);
        uint8_t *b = map(places + (4 + i % 4) * PAGE, fds[1],
                         PROT_READ | PROT_EXEC);

        for (uint64_t end = now_ns() + MAPPED_NS; now_ns() < end; ) {
            call(a);
            call(b);
            call(stays);
        }
        munmap(a, PAGE);
        munmap(b, PAGE);
    }
}

static void run_turns(void)
{
    int fds[2] = { make_code(3), make_code(5) };
    uint8_t *at = (uint8_t *)0x70000000;

    /* Its neighbour has the table of both stay. */
    map(at + PAGE, fds[0], PROT_READ);
    for (unsigned i = 0;; i++) {
        map(at, fds[i % 2], PROT_READ | PROT_EXEC);
        for (uint64_t end = now_ns() + MAPPED_NS; now_ns() < end; ) {
            call(at);
        }
    }
}

static void run_alias(void)
{
    int fd = make_code(1);
    uint8_t *data = map(NULL, fd, PROT_READ | PROT_WRITE);
    uint8_t *code = map(NULL, fd, PROT_READ | PROT_EXEC);

    for (unsigned i = 0;; i++) {
        write_code(data, i % 40);
        for (unsigned k = 0; k < 20; k++) {
            call(code);
        }
    }
}

static void fork_always(unsigned padding)
{
    uint8_t *at = (uint8_t *)0x70000000;

    map(at, make_code(padding), PROT_READ | PROT_EXEC);
    for (;;) {
        pid_t pid = fork();

        if (!pid) {
            call(at);
            _exit(0);
        }
        if (pid < 0 || waitpid(pid, NULL, 0) != pid) {
            die("fork");
        }
    }
}

static void start_again(unsigned padding)
{
    uint8_t *at = map((uint8_t *)0x70000000, make_code(padding),
                      PROT_READ | PROT_EXEC);

    for (unsigned i = 0; i < 100; i++) {
        call(at);
    }
    execl("/proc/self/exe", "change", "exec", padding == 3 ? "5" : "3", NULL);
    die("exec");
}

static void start_kernel(char **args)
{
    if (syscall(SYS_kexec_file_load, open_file(args[0]), open_file(args[1]),
                strlen(args[2]) + 1, args[2], 0)) {
        die("kexec_file_load");
    }
    printf("BT: kexec\n");
    fflush(stdout);
    for (uint64_t end = now_ns() + LOADED_NS; now_ns() < end; ) {
        syscall(SYS_getppid);
    }
    syscall(SYS_reboot, LINUX_REBOOT_MAGIC1, LINUX_REBOOT_MAGIC2,
            LINUX_REBOOT_CMD_KEXEC, NULL);
    die("reboot");
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";

    if (!strcmp(what, "modules") && argc == 4) {
        load_modules(argv + 2);
    } else if (!strcmp(what, "bpf")) {
        for (unsigned i = 0;; i++) {
            run_bpf(i % 2 ? 3 : 5);
        }
    } else if (!strcmp(what, "patch") && argc == 3) {
        patch(argv[2]);
    } else if (!strcmp(what, "maps")) {
        run_maps();
    } else if (!strcmp(what, "turns")) {
        run_turns();
    } else if (!strcmp(what, "alias")) {
        run_alias();
    } else if (!strcmp(what, "spaces")) {
        fork_always(fork() ? 3 : 5);
    } else if (!strcmp(what, "kexec") && argc == 5) {
        start_kernel(argv + 2);
    } else if (!strcmp(what, "exec") && argc == 3) {
        start_again(atoi(argv[2]));
    }
    fprintf(stderr, "change: what?\n");
    return 2;
}
