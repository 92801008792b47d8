// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * bpf ROUNDS: loads a BPF program, has the kernel run it, and says that it is
 * loaded, so that /proc/kallsyms can be read; ends when a line has come
 */
#include <linux/bpf.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "programs.h"

#define REPEAT 100

static long bpf(int command, union bpf_attr *attributes)
{
    return syscall(SYS_bpf, command, attributes, sizeof(*attributes));
}

int bpf_main(int argc, char **argv)
{
    /* A loop of 300 rounds, and a call of the kernel */
    static const struct bpf_insn code[] = {
        { BPF_ALU64 | BPF_MOV | BPF_K, 7, 0, 0, 1 },
        { BPF_ALU64 | BPF_MOV | BPF_K, 6, 0, 0, 300 },
        { BPF_ALU64 | BPF_ADD | BPF_X, 7, 6, 0, 0 },
        { BPF_ALU64 | BPF_SUB | BPF_K, 6, 0, 0, 1 },
        { BPF_JMP | BPF_JNE | BPF_K, 6, 0, -3, 0 },
        { BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_ktime_get_ns },
        { BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, 0 },
        { BPF_JMP | BPF_EXIT, 0, 0, 0, 0 },
    };
    unsigned rounds = argc > 1 ? atoi(argv[1]) : 100;
    union bpf_attr a;
    char data[64] = { 0 };
    int fd;

    memset(&a, 0, sizeof(a));
    a.prog_type = BPF_PROG_TYPE_SOCKET_FILTER;
    a.insns = (uintptr_t)code;
    a.insn_cnt = sizeof(code) / sizeof(*code);
    a.license = (uintptr_t)"GPL";
    strcpy(a.prog_name, "test_loop");
    fd = bpf(BPF_PROG_LOAD, &a);
    if (fd < 0) {
        die("BPF_PROG_LOAD");
    }
    /* The agent must have had the time to find it. */
    printf("BT: bpf loaded\n");
    fflush(stdout);
    sleep(3);
    for (unsigned i = 0; i < rounds; i++) {
        memset(&a, 0, sizeof(a));
        a.test.prog_fd = fd;
        a.test.data_in = (uintptr_t)data;
        a.test.data_size_in = sizeof(data);
        a.test.repeat = REPEAT;
        if (bpf(BPF_PROG_TEST_RUN, &a)) {
            die("BPF_PROG_TEST_RUN");
        }
    }
    printf("BT: bpf runs=%u\n", rounds * REPEAT);
    fflush(stdout);
    /* It stays loaded until somebody has looked at it. */
    while (access("/tmp/bpf-end", F_OK) != 0) {
        usleep(50000);
    }
    return 0;
}
