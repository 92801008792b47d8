/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * usage: trace-way CODE LIVE SYMBOLS [strict] <SCRIPT
 *
 * SCRIPT is what "backtrail script --events" prints of a trace of one vCPU with
 * all of its branches.  ../code has written CODE from the guest's kernel, LIVE is
 * the memory of its .text, and SYMBOLS are lines of its /proc/kallsyms.  Fails
 * unless the records are one way: in the kernel each is an instruction that
 * branches, and goes to that instruction's target; no instruction between two
 * records branches always; a return goes behind a call, or to what an event has
 * interrupted; user mode is entered and left where the kernel does that.
 *
 * "strict": events that KVM injects have no record.
 */
#include <stdarg.h>

#include "kernel-code.h"
#include "script.h"

static uint64_t entry, entry_end;   /* the code that events go to */
static uint64_t new_task;           /* where a new task begins, by a return */
static bool strict;

static struct line line;            /* the record that is checked */
static uint64_t last;               /* where the one before went; 0: unknown */

/* What events have interrupted in the kernel; 0: unknown */
static uint64_t events[64];
static unsigned depth;

static size_t kernel, users, entered, interrupted, injected, opaque, gaps;

static void __attribute__((noreturn, format(printf, 1, 2)))
fail(const char *format, ...)
{
    va_list list;

    printf("%.*s\n", line.length, line.text);
    va_start(list, format);
    vprintf(format, list);
    va_end(list);
    printf("; the record before went to %llx\n", (unsigned long long)last);
    exit(1);
}

static void read_symbols(const char *path)
{
    FILE *file = fopen(path, "r");
    unsigned long long address;
    char symbol[256], name[256];

    while (file && fgets(symbol, sizeof(symbol), file)) {
        if (sscanf(symbol, "%llx %*c %255s", &address, name) != 2) {
            continue;
        }
        if (strcmp(name, "__entry_text_start") == 0) {
            entry = address;
        } else if (strcmp(name, "__entry_text_end") == 0) {
            entry_end = address;
        } else if (strcmp(name, "ret_from_fork_asm") == 0) {
            new_task = address;
        }
    }
    if (!entry || entry_end <= entry || !new_task) {
        printf("%s lacks symbols\n", path);
        exit(1);
    }
    fclose(file);
}

static bool is_user(uint64_t address)
{
    return !(address >> 63);
}

static bool is_entry(uint64_t address)
{
    return address >= entry && address < entry_end;
}

static void push(uint64_t address)
{
    if (depth == sizeof(events) / sizeof(events[0])) {
        fail("events are nested too deeply");
    }
    events[depth++] = address;
}

/* Checks the way from where the last record went to this one. */
static void check_way(void)
{
    bool ignored;

    if (!last) {
        return;
    }
    if (is_user(line.from)) {
        if (!is_user(last)) {
            fail("nothing has left the kernel");
        }
        return;
    }
    if (!in_text(line.from)) {
        fail("it is not from the kernel's code");
    }
    if (!is_user(last) && way(last, line.from, &ignored) == PLAIN) {
        return;
    }
    if (!strict || !is_entry(line.from)) {
        fail(is_user(last) ? "nothing has entered the kernel"
                           : "a branch is missing");
    }
    injected++;
    if (!is_user(last)) {
        push(0);
    }
}

/* Does this instruction go there? */
static bool is_branch(struct instruction i)
{
    switch (i.kind) {
    case CONDITIONAL:
    case JMP:
    case CALL:
        return line.to == target(line.from, i.length);
    case JMP_INDIRECT:
    case CALL_INDIRECT:
        return !is_entry(line.to);
    case RET:
        return !is_entry(line.to) ? behind_call(line.to) || line.to == new_task
                             : behind_call(line.to);
    case LEAVE:
        if (is_user(line.to)) {
            depth = 0;
            return true;
        }
        if (depth && (!events[depth - 1] || events[depth - 1] == line.to)) {
            depth--;
            return true;
        }
        return !depth;      /* a task that has slept in it */
    case OPAQUE:
        opaque++;
        return true;
    default:
        return false;
    }
}

static void check_branch(void)
{
    if (is_user(line.from)) {
        users++;
        if (!is_user(line.to)) {
            entered++;
            depth = 0;
            if (!is_entry(line.to)) {
                fail("it enters the kernel where there is no entry");
            }
        }
        return;
    }
    kernel++;
    if (!is_user(line.to) && !in_text(line.to)) {
        fail("it does not go into the kernel's code");
    }
    if (is_branch(instruction(line.from))) {
        return;
    }
    if (!is_entry(line.to) || instruction(line.from).kind == END) {
        fail("no branch is there");
    }
    interrupted++;
    push(line.from);
}

int main(int argc, char **argv)
{
    int fd;

    if (argc < 4 || argc > 5) {
        fprintf(stderr, "usage: trace-way CODE LIVE SYMBOLS [strict] "
                "<SCRIPT\n");
        return 2;
    }
    read_code(argv[1]);
    fd = open_or_fail(argv[2]);
    get(argv[2], fd, live, size, 0);
    close(fd);
    read_symbols(argv[3]);
    strict = argc == 5 && strcmp(argv[4], "strict") == 0;

    while (read_line(&line)) {
        if (line.event) {
            if (line.gap) {
                gaps++;
                depth = 0;
                last = 0;
            }
            continue;
        }
        check_way();
        check_branch();
        last = line.to;
    }
    printf("one way through the kernel: %zu records, %zu times entered by user "
           "mode, %zu times interrupted, %zu events without a record, %zu "
           "branches of unknown code; %zu records from user mode; %zu gaps\n",
           kernel, entered, interrupted, injected, opaque, users, gaps);
    return kernel < 1000 || !entered;
}
