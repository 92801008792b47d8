/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A debugger on the host steps from branch to branch (PTRACE_SINGLEBLOCK, which
 * is DEBUGCTL.BTF) through a program that runs a guest which traces itself:
 * none misses a step, the guest has its records
 *
 * rig: walk=walk_begin walk_end (T T)*2 T N T*2 N
 * rig: linux=kvm_intel.bts=1
 */
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>

#include "kvm-bts-loop.h"
#include "kvm-walk.h"

extern const char walk_begin[], walk_end[];

static int child(void)
{
    struct guest g = guest(5, 0x3000);

    CHECK(ptrace(PTRACE_TRACEME, 0, 0, 0) == 0);
    CHECK(raise(SIGSTOP) == 0);
    /* There is no event to be enabled, the ioctl just fails. */
    traced(-1, g.vm.vcpu);
    check(&g, 3);
    return 0;
}

/* Step on, to where the next branch goes.  The end of a system call stops it,
   too: that is behind "syscall". */
static bool step(pid_t pid, uint64_t *rip)
{
    struct user_regs_struct regs;
    int status;

    do {
        CHECK(ptrace(PTRACE_SINGLEBLOCK, pid, 0, 0) == 0);
        CHECK(waitpid(pid, &status, 0) == pid);
        if (WIFEXITED(status)) {
            CHECK(WEXITSTATUS(status) == 0);
            return false;
        }
        CHECK(WIFSTOPPED(status));
        if (WSTOPSIG(status) != SIGTRAP) {
            fail("it stops with signal %d", WSTOPSIG(status));
        }
        CHECK(ptrace(PTRACE_GETREGS, pid, 0, &regs) == 0);
    } while ((ptrace(PTRACE_PEEKTEXT, pid, regs.rip - 2, 0) & 0xffff) ==
             0x050f);
    *rip = regs.rip;
    return true;
}

static bool inside(uint64_t rip)
{
    return rip >= (uintptr_t)walk_begin && rip < (uintptr_t)walk_end;
}

int main(void)
{
    FILE *walk = fopen("/walk", "r");
    unsigned long long from, to;
    unsigned count = 0;
    uint64_t rip;
    int status;
    pid_t pid;

    bts_or_skip();
    CHECK(walk != NULL);
    pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        exit(child());
    }
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
    do {
        CHECK(step(pid, &rip));
    } while (!inside(rip));
    while (fscanf(walk, "%llx %llx", &from, &to) == 2) {
        if (rip != to) {
            fail("step %u goes to %llx, not to %llx", count,
                 (unsigned long long)rip, to);
        }
        count++;
        CHECK(step(pid, &rip));
    }
    if (inside(rip)) {
        fail("there is a step too many, to %llx", (unsigned long long)rip);
    }
    CHECK(count > 6);
    printf("%u steps from branch to branch\n", count);
    fflush(stdout);
    CHECK(ptrace(PTRACE_CONT, pid, 0, 0) == 0);
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    kmsg_is_calm();
    return 0;
}
