/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A BPF program that is run a known number of times
 *
 * usage: bpf-guest RUNS
 *
 * Loads it, says "BT: bpf loaded", and waits for a line.  Then runs it RUNS
 * times, says "BT: bpf ran RUNS", and waits for another line before it ends.
 *
 * In each run, the program "counted" calls its function twice, and jumps to
 * the program "tail" in the end; both the function and "tail" call
 * bpf_user_rnd_u32() of the kernel once, which is three times a run.
 */
#include <errno.h>
#include <linux/bpf.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BATCH   500             /* runs in a system call */
#define RETURNS 7               /* what "tail" returns */

#define INSN(code, dst, src, off, imm) \
    (struct bpf_insn) { code, dst, src, off, imm }
#define MOVE(dst, src) INSN(BPF_ALU64 | BPF_MOV | BPF_X, dst, src, 0, 0)
#define SET(dst, imm) INSN(BPF_ALU64 | BPF_MOV | BPF_K, dst, 0, 0, imm)
#define CALL(helper) INSN(BPF_JMP | BPF_CALL, 0, 0, 0, helper)
#define CALL_OWN(n) INSN(BPF_JMP | BPF_CALL, 0, BPF_PSEUDO_CALL, 0, n)
#define LOAD(dst, src, off) \
    INSN(BPF_LDX | BPF_W | BPF_MEM, dst, src, off, 0)
#define END INSN(BPF_JMP | BPF_EXIT, 0, 0, 0, 0)
#define MAP(dst, fd) \
    INSN(BPF_LD | BPF_DW | BPF_IMM, dst, BPF_PSEUDO_MAP_FD, 0, fd), \
    INSN(0, 0, 0, 0, 0)

static int bpf(const char *what, int command, union bpf_attr *attr)
{
    int ret = syscall(SYS_bpf, command, attr, sizeof(*attr));

    if (ret < 0) {
        printf("BT: error bpf %s: %s\n", what, strerror(errno));
        fflush(stdout);
        exit(1);
    }
    return ret;
}

static int load(const char *name, const struct bpf_insn *code, unsigned n)
{
    union bpf_attr attr;

    memset(&attr, 0, sizeof(attr));
    attr.prog_type = BPF_PROG_TYPE_SOCKET_FILTER;
    attr.insns = (uintptr_t)code;
    attr.insn_cnt = n;
    attr.license = (uintptr_t)"GPL";
    strcpy(attr.prog_name, name);
    return bpf(name, BPF_PROG_LOAD, &attr);
}

static int make_table(void)
{
    union bpf_attr attr;

    memset(&attr, 0, sizeof(attr));
    attr.map_type = BPF_MAP_TYPE_PROG_ARRAY;
    attr.key_size = sizeof(uint32_t);
    attr.value_size = sizeof(uint32_t);
    attr.max_entries = 1;
    return bpf("table", BPF_MAP_CREATE, &attr);
}

static void put(int table, int program)
{
    uint32_t key = 0, value = program;
    union bpf_attr attr;

    memset(&attr, 0, sizeof(attr));
    attr.map_fd = table;
    attr.key = (uintptr_t)&key;
    attr.value = (uintptr_t)&value;
    bpf("put", BPF_MAP_UPDATE_ELEM, &attr);
}

static void run(int program, unsigned times)
{
    uint8_t packet[64] = { 0 };
    union bpf_attr attr;

    memset(&attr, 0, sizeof(attr));
    attr.test.prog_fd = program;
    attr.test.data_in = (uintptr_t)packet;
    attr.test.data_size_in = sizeof(packet);
    attr.test.repeat = times;
    bpf("run", BPF_PROG_TEST_RUN, &attr);
    if (attr.test.retval != RETURNS) {
        printf("BT: error bpf returns %u\n", attr.test.retval);
        fflush(stdout);
        exit(1);
    }
}

static void wait_for_line(void)
{
    char line[16];

    fflush(stdout);
    if (!fgets(line, sizeof(line), stdin)) {
        exit(1);
    }
}

int main(int argc, char **argv)
{
    unsigned runs = argc > 1 ? atoi(argv[1]) : 0;
    int table = make_table(), program;
    const struct bpf_insn tail[] = {
        CALL(BPF_FUNC_get_prandom_u32),
        SET(BPF_REG_0, RETURNS),
        END,
    };
    const struct bpf_insn counted[] = {
        MOVE(BPF_REG_6, BPF_REG_1),
        CALL_OWN(8),
        CALL_OWN(7),
        MOVE(BPF_REG_1, BPF_REG_6),
        MAP(BPF_REG_2, table),
        /* It is 0, but no compiler knows. */
        LOAD(BPF_REG_3, BPF_REG_6, offsetof(struct __sk_buff, mark)),
        CALL(BPF_FUNC_tail_call),
        /* Not reached; the function is after it. */
        SET(BPF_REG_0, 0),
        END,
        CALL(BPF_FUNC_get_prandom_u32),
        END,
    };

    put(table, load("tail", tail, sizeof(tail) / sizeof(*tail)));
    program = load("counted", counted, sizeof(counted) / sizeof(*counted));
    printf("BT: bpf loaded\n");
    wait_for_line();
    for (unsigned done = 0; done < runs; done += BATCH) {
        run(program, runs - done < BATCH ? runs - done : BATCH);
    }
    printf("BT: bpf ran %u\n", runs);
    wait_for_line();
    return 0;
}
