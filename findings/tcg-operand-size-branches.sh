#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Of branches with the prefix 66 in 64-bit code, QEMU's TCG executes RET as CPUs
# of AMD do and all others as those of Intel do, whatever the CPU model is.
#
# One would guess:
#   In 64-bit code the prefix 66 makes near branches 16 bits wide on CPUs of AMD,
#   which cut the instruction pointer, and has no meaning on those of Intel
#   (SDM, vol. 2, appendix A, "f64"; APM, vol. 3, the entries of JMP and RET).
#   An emulator does what the CPU does whose model it is told to be.
# What is so:
#   - With -cpu Skylake-Client, "66 c3" takes 2 bytes from the stack and goes to
#     an address of 16 bits, as on AMD.
#   - With -cpu EPYC, "66 e9", "66 eb", "66 e8", "66 0f 84" and "66 e2" go to the
#     whole address and have four bytes of displacement, as on Intel.
#   - So no model has branches that are right for it.
#   qemu-user 1:10.0.13+ds-0+deb13u1 (Debian 13), 1:11.1.3+ds-1 (unstable).
# Why it matters:
#   The prefix is a known trick against disassemblers: a program that uses it goes
#   elsewhere under TCG than on the CPU that it was written for, and a trace of
#   it shows that other way.
# How to cope:
#   Look for 66 before a branch in code of a program that behaves otherwise under
#   emulation.  On a CPU of the same maker, run it under KVM.

. "$(dirname "$0")/lib.sh" || exit
need gcc

cat >"$DIR/branches.c" <<'END'
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#define CODE    0x10000

/* The code, and where UD2 is, to which it goes if 66 has no meaning */
static const struct {
    const char *name, *bytes;
    size_t n, whole;
} branches[] = {
    { "jmp", "\x66\xe9\x05\x00\x00\x00", 6, 0x0b },
    { "short jmp", "\x66\xeb\x05", 3, 0x08 },
    { "call", "\x66\xe8\x05\x00\x00\x00", 6, 0x0b },
    { "je", "\x39\xc0\x66\x0f\x84\x05\x00\x00\x00", 9, 0x0e },
    { "loop", "\x66\xe2\x05", 3, 0x08 },
    { "ret", "\x66\xc3", 2, 0x20 },
};

static const char *name;

static void stopped(int sig, siginfo_t *info, void *context)
{
    ucontext_t *c = context;
    unsigned long ip = c->uc_mcontext.gregs[REG_RIP];

    printf("%s: %s\n", name, ip >= CODE ? "the whole address" :
           "16 bits of it");
    fflush(stdout);
    _exit(0);
}

static void run(unsigned i)
{
    unsigned char *code = mmap((void *)CODE, 4096,
                               PROT_READ | PROT_WRITE | PROT_EXEC,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    stack_t stack = { .ss_sp = malloc(65536), .ss_size = 65536 };
    struct sigaction action = {
        .sa_sigaction = stopped, .sa_flags = SA_SIGINFO | SA_ONSTACK,
    };

    if (code != (void *)CODE) {
        _exit(1);
    }
    name = branches[i].name;
    sigaltstack(&stack, NULL);
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGILL, &action, NULL);
    sigaction(SIGTRAP, &action, NULL);
    memset(code, 0xcc, 4096);
    memcpy(code, branches[i].bytes, branches[i].n);
    memcpy(code + branches[i].whole, "\x0f\x0b", 2);
    asm volatile("push %0\n\tpush %0\n\tjmp *%1" : :
                 "r"(CODE + 0x20ul), "r"((unsigned long)CODE), "c"(5ul));
}

int main(void)
{
    for (unsigned i = 0; i < sizeof(branches) / sizeof(branches[0]); i++) {
        int status;

        if (!fork()) {
            run(i);
        }
        wait(&status);
    }
    return 0;
}
END
gcc -O1 -static -o "$DIR/branches" "$DIR/branches.c"
say "this machine's CPU ($(sed -n 's/^vendor_id\s*: //p' /proc/cpuinfo |
    head -n 1)):"
"$DIR/branches" || :

WANTED='jmp: the whole address
short jmp: the whole address
call: the whole address
je: the whole address
loop: the whole address
ret: 16 bits of it'

# check SUITE VERSION
check() {
    local model found
    from "$1"
    get "$DIR/$1" "qemu-user=$2"
    for model in Skylake-Client EPYC; do
        say "qemu-user $2, -cpu $model:"
        found=$("$DIR/$1/usr/bin/qemu-x86_64" -cpu "$model" "$DIR/branches" \
            2>"$DIR/warnings")
        say "$found"
        [ "$found" = "$WANTED" ] || changed "$2 goes elsewhere"
    done
}

check trixie 1:10.0.13+ds-0+deb13u1
check sid 1:11.1.3+ds-1
say "SO IT IS: 66 cuts the target of RET alone, with a model of either maker"
