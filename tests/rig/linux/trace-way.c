/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * usage: trace-way CODE CHANGES SYMBOLS [strict] [pti] <SCRIPT
 *
 * SCRIPT is what "backtrail script --events" prints of a trace of one vCPU with
 * all of its branches.  ../code has written CODE from the guest's kernel, CHANGES
 * is what "cmp -l" prints of that code and the .text in the guest's memory, and
 * SYMBOLS are lines of its /proc/kallsyms.  Fails unless the records are one way:
 * in the kernel each is an instruction that branches, and goes to that
 * instruction's target; no instruction between two records branches always; a
 * return goes behind a call, or to what an event has interrupted; user mode is
 * entered and left where the kernel does that.
 *
 * "strict": events that KVM injects have no record.
 *
 * "pti": user mode has page tables of its own, which are behind those that the
 * kernel has for the same process: what user mode does is to be labelled with
 * the former, what the kernel does with the latter.  Both are switched in the
 * code that events go to.
 */
#include <stdarg.h>

#include "kernel-code.h"
#include "script.h"

/* Of CR3, with page-table isolation */
#define USER_TABLES 0x1000
#define USER_PCID   0x800
#define PCID        0xfff

#define MAX_FIXUP   256             /* bytes from a fault to its fixup */

static uint64_t entry, entry_end;   /* the code that events go to */
static uint64_t new_task;           /* where a new task begins, by a return */
static bool strict, isolated;

static struct line line;            /* the record that is checked */
static uint64_t last;               /* where the one before went; 0: unknown */

/* What events have interrupted in the kernel; 0: unknown */
static uint64_t events[64];
static unsigned depth;

static size_t kernel, users, entered, interrupted, injected, opaque, fixups;
static size_t gaps;

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

static void read_changes(const char *path)
{
    FILE *file = fopen(path, "r");
    unsigned long at;
    unsigned old, new;

    memcpy(live, built, size);
    while (file && fscanf(file, "%lu %o %o", &at, &old, &new) == 3) {
        if (!at || at > size || built[at - 1] != old) {
            printf("%s is of other code\n", path);
            exit(1);
        }
        live[at - 1] = new;
    }
    if (!file || !feof(file)) {
        printf("%s cannot be read\n", path);
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

/* Is the record labelled with the page tables that it was made with? */
static void check_label(void)
{
    bool user = line.cr3 & USER_TABLES, user_pcid = line.cr3 & USER_PCID;

    if (!isolated || is_entry(line.from)) {
        return;
    }
    if (user != is_user(line.from)) {
        fail("the page tables are those of the %s", user ? "user" : "kernel");
    }
    if ((line.cr3 & PCID) && user_pcid != user) {
        fail("the PCID is that of the %s", user_pcid ? "user" : "kernel");
    }
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

/*
 * May the kernel return there from a fault that its exception table expects, of
 * an access to user memory?  What is in that table is not known.
 */
static bool is_fixup(uint64_t fault)
{
    return line.to - fault + MAX_FIXUP < 2 * MAX_FIXUP;
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
        if (depth && is_fixup(events[depth - 1])) {
            depth--;
            fixups++;
            return true;
        }
        return !depth;      /* a task that has slept in it */
    case OPAQUE:
        opaque++;
        return !is_entry(line.to);      /* or it was interrupted */
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
    if (argc < 4 || argc > 6) {
        fprintf(stderr, "usage: trace-way CODE CHANGES SYMBOLS [strict] [pti] "
                "<SCRIPT\n");
        return 2;
    }
    read_code(argv[1]);
    read_changes(argv[2]);
    read_symbols(argv[3]);
    for (int i = 4; i < argc; i++) {
        strict |= strcmp(argv[i], "strict") == 0;
        isolated |= strcmp(argv[i], "pti") == 0;
    }

    while (read_line(&line)) {
        if (line.event) {
            if (line.gap) {
                gaps++;
                depth = 0;
                last = 0;
            }
            continue;
        }
        check_label();
        check_way();
        check_branch();
        last = line.to;
    }
    printf("one way through the kernel: %zu records, %zu times entered by user "
           "mode, %zu times interrupted, %zu events without a record, %zu "
           "branches of unknown code, %zu faults that are expected; %zu records "
           "from user mode; %zu gaps\n",
           kernel, entered, interrupted, injected, opaque, fixups, users, gaps);
    return kernel < 1000 || !entered;
}
