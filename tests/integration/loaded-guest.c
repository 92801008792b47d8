/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The init of a guest for tests/integration/loaded: code of the kernel comes
 * and goes
 *
 * Each stage has a thread name of its own, so that a trace says which records
 * are of it.  While its code is there, it prints what the kernel says of it.
 */

#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/reboot.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TRACING "/sys/kernel/tracing/"
#define ROUNDS  20000           /* of a system call */
/* An agent has noticed what is new, or that it is still there. */
#define PAUSE_US 200000

static void fail(const char *what)
{
    printf("BT: error %s: %s\n", what, strerror(errno));
    reboot(RB_POWER_OFF);
    exit(1);
}

static void require(long result, const char *what)
{
    if (result < 0) {
        fail(what);
    }
}

/* Writes a word to a file; returns whether the kernel takes it. */
static int put(const char *path, const char *word)
{
    int fd = open(path, O_WRONLY | O_TRUNC);
    ssize_t n = fd < 0 ? -1 : write(fd, word, strlen(word));

    close(fd);
    return n == (ssize_t)strlen(word);
}

static void must_put(const char *path, const char *word)
{
    if (!put(path, word)) {
        fail(path);
    }
}

static int has(const char *path, const char *word)
{
    FILE *f = fopen(path, "r");
    char line[1024];
    int found = 0;

    while (f && !found && fgets(line, sizeof(line), f)) {
        found = strstr(line, word) != NULL;
    }
    if (f) {
        fclose(f);
    }
    return found;
}

static void begin(const char *name)
{
    require(prctl(PR_SET_NAME, name), "prctl");
    printf("BT: stage %s\n", name);
}

/* Prints the symbols of code that are not of the kernel itself. */
static void print_symbols(void)
{
    FILE *f = fopen("/proc/kallsyms", "r");
    char line[1024];

    usleep(PAUSE_US);

    while (fgets(line, sizeof(line), f)) {
        if (strchr(line, '[') && strchr("tTwW", line[17])) {
            printf("BT: symbol %s", line);
        }
    }
    fclose(f);
}

static void read_often(void)
{
    int fd = open("/dev/zero", O_RDONLY);
    char c;

    require(read(fd, &c, 1), "read");
    usleep(PAUSE_US);
    for (int i = 0; i < ROUNDS; i++) {
        require(read(fd, &c, 1), "read");
    }
    close(fd);
}

static void write_often(void)
{
    int fd = open("/dev/null", O_WRONLY);

    require(write(fd, "", 1), "write");
    usleep(PAUSE_US);
    for (int i = 0; i < ROUNDS; i++) {
        require(write(fd, "", 1), "write");
    }
    close(fd);
}

static long bpf(int command, union bpf_attr *a)
{
    return syscall(SYS_bpf, command, a, sizeof(*a));
}

/* A program that counts to @n, each time that it runs */
static void run_bpf(const char *name, int n)
{
    const struct bpf_insn code[] = {
        { BPF_ALU64 | BPF_MOV | BPF_K, 6, 0, 0, n },
        { BPF_ALU64 | BPF_ADD | BPF_K, 6, 0, 0, -1 },
        { BPF_JMP | BPF_JNE | BPF_K, 6, 0, -2, 0 },
        { BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, 0 },
        { BPF_JMP | BPF_EXIT, 0, 0, 0, 0 },
    };
    union bpf_attr load = {
        .prog_type = BPF_PROG_TYPE_SOCKET_FILTER,
        .insns = (unsigned long)code,
        .insn_cnt = sizeof(code) / sizeof(code[0]),
        .license = (unsigned long)"GPL",
    };
    struct bpf_prog_info info = { .nr_jited_func_lens = 0 };
    unsigned long long address = 0;
    unsigned size = 0;
    char data[64] = { 0 };
    union bpf_attr test, get;
    long fd;

    begin(name);
    strcpy(load.prog_name, name);
    fd = bpf(BPF_PROG_LOAD, &load);
    require(fd, "BPF_PROG_LOAD");
    memset(&get, 0, sizeof(get));
    info.nr_jited_ksyms = info.nr_jited_func_lens = 1;
    info.jited_ksyms = (unsigned long)&address;
    info.jited_func_lens = (unsigned long)&size;
    get.info.bpf_fd = (unsigned)fd;
    get.info.info_len = sizeof(info);
    get.info.info = (unsigned long)&info;
    require(bpf(BPF_OBJ_GET_INFO_BY_FD, &get), "BPF_OBJ_GET_INFO_BY_FD");
    printf("BT: code %llx %u\n", address, size);
    memset(&test, 0, sizeof(test));
    test.test.prog_fd = (unsigned)fd;
    test.test.data_in = (unsigned long)data;
    test.test.data_size_in = sizeof(data);
    test.test.repeat = 1000;
    for (int i = 0; i < 50; i++) {
        usleep(i == 1 ? PAUSE_US : 0);
        require(bpf(BPF_PROG_TEST_RUN, &test), "BPF_PROG_TEST_RUN");
    }
    print_symbols();
    close((int)fd);
}

/* A kprobe within a function, where it can also be optimized */
static void run_kprobes(void)
{
    char word[64];
    int found = 0;

    begin("prepare");
    must_put("/proc/sys/debug/kprobes-optimization", "1");
    for (int at = 9; at < 100 && !found; at++) {
        snprintf(word, sizeof(word), "p:kprobes/read vfs_read+%d", at);
        if (!put(TRACING "kprobe_events", word)) {
            continue;
        }
        must_put(TRACING "events/kprobes/enable", "1");
        usleep(300000);
        found = has("/sys/kernel/debug/kprobes/list", "[OPTIMIZED]");
        if (!found) {
            must_put(TRACING "events/kprobes/enable", "0");
            must_put(TRACING "kprobe_events", "");
        }
    }
    if (!found) {
        fail("no kprobe is optimized");
    }
    begin("optprobe");
    read_often();
    print_symbols();
    must_put("/proc/sys/debug/kprobes-optimization", "0");
    begin("kprobe");
    read_often();
    print_symbols();
    must_put(TRACING "events/kprobes/enable", "0");
    must_put(TRACING "kprobe_events", "");
}

static void run_ftrace(void)
{
    begin("prepare");
    must_put(TRACING "set_ftrace_filter", "vfs_write");
    must_put(TRACING "current_tracer", "function");
    begin("ftrace");
    write_often();
    print_symbols();
    must_put(TRACING "current_tracer", "nop");
}

static void load(const char *module, const char *parameters)
{
    char path[64];
    int fd;

    snprintf(path, sizeof(path), "/modules/%s.ko", module);
    fd = open(path, O_RDONLY);
    require(fd, path);
    require(syscall(SYS_finit_module, fd, parameters, 0), module);
    close(fd);
    usleep(PAUSE_US);
}

static void unload(const char *module)
{
    require(syscall(SYS_delete_module, module, O_NONBLOCK), module);
}

static void run_dummy(const char *name)
{
    struct ifreq r = { .ifr_name = "dummy0" };
    int fd = socket(AF_INET, SOCK_DGRAM, 0);

    begin(name);
    /* So its initialisation takes long enough to be seen. */
    load("dummy", "numdummies=100");
    for (int i = 0; i < 500; i++) {
        r.ifr_flags = i & 1 ? 0 : IFF_UP;
        require(ioctl(fd, SIOCSIFFLAGS, &r), "dummy0");
    }
    print_symbols();
    close(fd);
    unload("dummy");
}

static void run_tun(const char *name)
{
    begin(name);
    load("tun", "");
    for (int i = 0; i < 50; i++) {
        struct ifreq r = { .ifr_name = "tun0", .ifr_flags = IFF_TUN };
        int fd = open("/dev/net/tun", O_RDWR);

        require(fd, "/dev/net/tun");
        require(ioctl(fd, TUNSETIFF, &r), "TUNSETIFF");
        close(fd);
    }
    print_symbols();
    unload("tun");
}

int main(void)
{
    char line[16];

    mount("dev", "/dev", "devtmpfs", 0, "");
    dup2(open("/dev/console", O_RDWR), 0);
    dup2(0, 1);
    dup2(0, 2);
    setvbuf(stdout, NULL, _IOLBF, 0);
    require(mount("proc", "/proc", "proc", 0, ""), "proc");
    require(mount("sys", "/sys", "sysfs", 0, ""), "sys");
    require(mount("tracefs", TRACING, "tracefs", 0, ""), "tracefs");
    require(mount("debugfs", "/sys/kernel/debug", "debugfs", 0, ""),
            "debugfs");
    printf("BT: ready\n");
    require(read(0, line, sizeof(line)), "console");
    run_bpf("first", 50);
    run_bpf("second", 70);
    run_kprobes();
    run_ftrace();
    run_dummy("dummy1");
    run_tun("tun1");
    run_dummy("dummy2");
    run_tun("tun2");
    begin("end");
    printf("BT: end\n");
    pause();
    return 0;
}
