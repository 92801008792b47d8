/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Records of a real program: see stepped.h
 */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stepped.h"
#include "symbolize/instruction.h"

#define KERNEL      STEPPED_KERNEL

static void add(struct stepped *run, uint64_t from, uint64_t to,
                struct stepped_stack stack)
{
    const struct btrail_record r = { from, to, 0 };

    g_array_append_val(run->records, r);
    g_array_append_val(run->stack, stack);
}

static void read_maps(struct stepped *run, const char *folder, pid_t pid)
{
    g_autofree char *path = g_strdup_printf("/proc/%d/maps", (int)pid);
    g_autofree char *maps = NULL, *text = NULL;

    g_assert_true(g_file_get_contents(path, &maps, NULL, NULL));
    text = g_strdup_printf("%" G_GINT64_MODIFIER "x T kernel_entry\n"
                           "cr3 %x pid=%d sample\n%s", KERNEL, STEPPED_CR3,
                           (int)pid, maps);
    run->map = g_build_filename(folder, "names.map", NULL);
    g_assert_true(g_file_set_contents(run->map, text, -1, NULL));
}

/* The instruction at @at; returns whether it is CPUID. */
static bool read_instruction(pid_t pid, uint64_t at, struct instruction *insn)
{
    uint8_t bytes[16];

    for (unsigned i = 0; i < sizeof(bytes); i += sizeof(long)) {
        long word;

        errno = 0;
        word = ptrace(PTRACE_PEEKTEXT, pid, at + i, 0);
        memcpy(bytes + i, &word, sizeof(word));
    }
    instruction_decode(bytes, INSTRUCTION_MAX, 64, at, insn);
    return bytes[0] == 0x0f && bytes[1] == 0xa2;
}

/* The program goes to the kernel, and continues there. */
static void add_kernel(struct stepped *run, uint64_t from, uint64_t to,
                       struct stepped_stack stack)
{
    add(run, from, KERNEL, (struct stepped_stack) { 0 });
    add(run, KERNEL + 0x10, to, stack);
}

/*
 * A handler begins instead of the instruction at @last.  The kernel goes to it
 * at once if it was in the kernel before, where a debugger stops it.
 */
static void add_handler(struct stepped *run, uint64_t last, uint64_t to,
                        struct stepped_stack stack)
{
    unsigned i = run->records->len - 1;
    struct btrail_record *r = &g_array_index(run->records,
                                             struct btrail_record, i);

    stack.handler = true;
    if (r->from == KERNEL + 0x10 && r->to == last) {
        r->to = to;
        g_array_index(run->stack, struct stepped_stack, i) = stack;
    } else {
        add_kernel(run, last, to, stack);
    }
}

/* What the instruction at @last has led to */
static void add_step(struct stepped *run, pid_t pid, uint64_t last,
                     const struct user_regs_struct *regs)
{
    struct stepped_stack stack = { .pointer = regs->rsp };
    struct instruction insn;

    if (read_instruction(pid, last, &insn) && regs->rip != last + insn.length) {
        /* A hypervisor that emulates it may lose the step after it. */
        last += insn.length;
        read_instruction(pid, last, &insn);
    }
    if (insn.kind == INSTRUCTION_SYSCALL) {
        add_kernel(run, last, regs->rip, stack);
    } else if (regs->rip != last + insn.length) {
        if (instruction_goes(&insn, regs->rip) &&
            insn.kind != INSTRUCTION_OTHER) {
            stack.calls = insn.kind == INSTRUCTION_CALL;
            add(run, last, regs->rip, stack);
        } else if (regs->rip != last) {
            add_handler(run, last, regs->rip, stack);
        }
    }
}

bool stepped_run(struct stepped *run, const char *folder, const char *sample,
                 const char *what)
{
    g_autofree char *out = g_build_filename(folder, "out", NULL);
    struct user_regs_struct regs;
    uint64_t last = 0;
    int status, deliver = 0;
    pid_t pid = fork();

    run->records = g_array_new(FALSE, FALSE, sizeof(struct btrail_record));
    run->stack = g_array_new(FALSE, FALSE, sizeof(struct stepped_stack));
    if (!pid) {
        int fd = open(out, O_CREAT | O_WRONLY | O_TRUNC, 0600);

        dup2(fd, 1);
        if (ptrace(PTRACE_TRACEME, 0, 0, 0)) {
            _exit(99);
        }
        execl(sample, sample, what, NULL);
        _exit(98);
    }
    g_assert_cmpint(waitpid(pid, &status, 0), ==, pid);
    if (!WIFSTOPPED(status)) {
        return false;
    }
    read_maps(run, folder, pid);
    for (;;) {
        g_assert_cmpint(ptrace(PTRACE_GETREGS, pid, 0, &regs), ==, 0);
        if (last) {
            add_step(run, pid, last, &regs);
        }
        last = regs.rip;
        if (ptrace(PTRACE_SINGLESTEP, pid, 0, deliver)) {
            return false;
        }
        g_assert_cmpint(waitpid(pid, &status, 0), ==, pid);
        if (!WIFSTOPPED(status)) {
            break;
        }
        deliver = WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status);
    }
    g_assert_true(WIFEXITED(status) && !WEXITSTATUS(status));
    g_assert_true(g_file_get_contents(out, &run->out, NULL, NULL));
    return true;
}

void stepped_free(struct stepped *run)
{
    g_array_unref(run->records);
    g_array_unref(run->stack);
    g_free(run->map);
    g_free(run->out);
}

struct symbolizer *stepped_names(const struct stepped *run,
                                 const struct btrail_trace *trace)
{
    char root[] = "/";
    char *roots[] = { root, NULL };
    const struct symbolizer_options options = {
        .map = run->map, .files.sysroots = roots,
    };
    g_autoptr(GError) error = NULL;
    struct symbolizer *s = symbolizer_new(&options, trace, &error);

    g_assert_no_error(error);
    return s;
}
