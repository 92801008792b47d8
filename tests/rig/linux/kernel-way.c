/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * usage: kernel-way CODE [strict] <RECORDS
 *
 * RECORDS has a line "FROM => TO" (hexadecimal) for each branch that a program
 * has taken in the running kernel; ../code has written CODE from the same
 * kernel.  Fails unless the records are one way through that kernel: each is
 * an instruction that branches, and goes to that instruction's target; no
 * instruction between two records branches always; a return goes behind its
 * call, or to the instruction that was interrupted; and gaps are only where
 * the kernel's BTS driver switches BTS off and on, with WRMSR.
 *
 * "strict": events that KVM injects have no record.
 */
#include <elf.h>
#include <stdarg.h>

#include "kernel-code.h"

struct record {
    uint64_t from, to;
};

static bool strict;
static uint64_t entry, entry_end;   /* the code that events go to */

static size_t number;               /* of the record that is checked */
static struct record record;

static void __attribute__((noreturn, format(printf, 1, 2)))
fail(const char *format, ...)
{
    va_list list;

    printf("record %zu, %llx => %llx: ", number,
           (unsigned long long)record.from, (unsigned long long)record.to);
    va_start(list, format);
    vprintf(format, list);
    va_end(list);
    printf("\n");
    exit(1);
}

static void read_live(void)
{
    static const char path[] = "/proc/kcore";
    int fd = open_or_fail(path);
    Elf64_Ehdr header;
    Elf64_Phdr segment;

    get(path, fd, &header, sizeof(header), 0);
    for (unsigned n = 0; n < header.e_phnum; n++) {
        get(path, fd, &segment, sizeof(segment),
            header.e_phoff + n * sizeof(segment));
        if (segment.p_type == PT_LOAD && segment.p_vaddr <= text &&
            text + size <= segment.p_vaddr + segment.p_memsz) {
            get(path, fd, live, size,
                segment.p_offset + text - segment.p_vaddr);
            close(fd);
            return;
        }
    }
    printf("%s lacks the kernel's code\n", path);
    exit(1);
}

static void read_symbols(void)
{
    FILE *file = fopen("/proc/kallsyms", "r");
    unsigned long long address;
    char line[512], name[256];

    while (file && fgets(line, sizeof(line), file)) {
        if (sscanf(line, "%llx %*c %255s", &address, name) != 2) {
            continue;
        }
        if (strcmp(name, "__entry_text_start") == 0) {
            entry = address;
        } else if (strcmp(name, "__entry_text_end") == 0) {
            entry_end = address;
        }
    }
    if (!entry || entry_end <= entry) {
        printf("/proc/kallsyms has no __entry_text_start\n");
        exit(1);
    }
    fclose(file);
}

/* Is there a WRMSR from which the way leads there? */
static bool behind_wrmsr(uint64_t address)
{
    bool ignored;

    for (uint64_t at = address - text; at-- > 0 && address - text - at < 512;) {
        if (as_built(at) && table[at] >> 4 == WRMSR &&
            way(text + at, address, &ignored) == PLAIN) {
            return true;
        }
    }
    return false;
}

static bool is_entry(uint64_t address)
{
    return address >= entry && address < entry_end;
}

/*
 * What a return is expected to go to, innermost last, 0 from an event without a
 * record; and what was counted
 */
struct walk {
    uint64_t stack[1024];
    unsigned depth;
    size_t calls, events, users, gaps, matched, opaque, injected;
};

static void push(struct walk *walk, uint64_t address)
{
    if (walk->depth == sizeof(walk->stack) / sizeof(walk->stack[0])) {
        fail("calls and events are nested too deeply");
    }
    walk->stack[walk->depth++] = address;
}

/* Checks the way from LAST, where the record before went, to this one. */
static void check_way(struct walk *walk, uint64_t last)
{
    bool wrmsr = false;

    if (number == 0) {
        if (!in_text(record.from) || !behind_wrmsr(record.from)) {
            fail("nothing has switched BTS on before");
        }
        return;
    }
    if (!(record.from >> 63)) {
        if (way(last, 0, &wrmsr) != LEAVE) {
            fail("it is in user mode, but %llx does not lead there",
                 (unsigned long long)last);
        }
        return;
    }
    if (!in_text(record.from)) {
        fail("it is not from the kernel's code");
    }
    switch (way(last, record.from, &wrmsr)) {
    case PLAIN:
        return;
    case LEAVE:
        walk->depth = 0;
        break;
    default:
        break;
    }
    if (strict && is_entry(record.from)) {
        walk->injected++;
        push(walk, 0);
    } else {
        if (!wrmsr || !behind_wrmsr(record.from)) {
            fail("between %llx and it there is a branch",
                 (unsigned long long)last);
        }
        walk->gaps++;
        walk->depth = 0;
    }
}

/* Does the instruction I of the kernel explain the record? */
static bool is_branch(struct walk *walk, struct instruction i, bool to_entry)
{
    uint64_t behind = record.from + i.length;

    switch (i.kind) {
    case CONDITIONAL:
    case JMP:
        return record.to == target(record.from, i.length);
    case CALL:
    case CALL_INDIRECT:
        if (i.kind == CALL ? record.to != target(record.from, i.length)
                           : to_entry) {
            return false;
        }
        walk->calls++;
        push(walk, behind);
        return true;
    case JMP_INDIRECT:
        return !to_entry;
    case RET:
    case LEAVE:
        if (!walk->depth) {
            return i.kind == LEAVE || behind_call(record.to);
        }
        if (record.to == walk->stack[walk->depth - 1] ||
            (i.kind == LEAVE && !walk->stack[walk->depth - 1])) {
            walk->depth--;
            walk->matched++;
            return true;
        }
        if (!to_entry) {
            fail("it returns, but not to %llx",
                 (unsigned long long)walk->stack[walk->depth - 1]);
        }
        return false;
    case OPAQUE:
        walk->opaque++;
        return !to_entry;               /* or it was interrupted */
    default:
        return false;
    }
}

/* Checks that the record is a branch, or an event, of the code. */
static void check_branch(struct walk *walk)
{
    bool to_entry = is_entry(record.to);
    struct instruction i;

    if (!(record.from >> 63)) {
        if (!to_entry) {
            fail("it enters the kernel where there is no entry");
        }
        walk->users++;
        walk->depth = 0;
        return;
    }
    i = instruction(record.from);
    if (is_branch(walk, i, to_entry)) {
        return;
    }
    /*
     * An event: it returns to the instruction that it came before, or to the
     * one that raised it.
     */
    if (!to_entry || i.kind == END) {
        fail("no branch is there");
    }
    walk->events++;
    push(walk, record.from);
}

/* The way from LAST, where the last record went, must end the recording. */
static void check_end(uint64_t last)
{
    bool wrmsr = false;

    way(last, 0, &wrmsr);
    if (!wrmsr) {
        fail("it is the last one, but nothing switches BTS off then");
    }
}

int main(int argc, char **argv)
{
    struct walk walk = { .depth = 0 };
    uint64_t last = 0;
    char line[256];

    strict = argc == 3 && strcmp(argv[2], "strict") == 0;
    if (argc != 2 + strict) {
        fprintf(stderr, "usage: kernel-way CODE [strict] <RECORDS\n");
        return 2;
    }
    read_code(argv[1]);
    read_live();
    read_symbols();

    for (; fgets(line, sizeof(line), stdin); number++) {
        unsigned long long from, to;

        if (sscanf(line, "%llx => %llx", &from, &to) != 2) {
            fail("not a record: %s", line);
        }
        record = (struct record) { from, to };
        if (!in_text(to)) {
            fail("it does not go into the kernel's code");
        }
        check_way(&walk, last);
        check_branch(&walk);
        last = to;
    }
    if (number) {
        check_end(last);
    }
    printf("%zu records of the kernel are one way through it: %zu calls, %zu "
           "returns to where they belong, %zu events, %zu from user mode, "
           "%zu gaps, %zu unknown, %zu events without a record\n", number,
           walk.calls, walk.matched, walk.events, walk.users, walk.gaps,
           walk.opaque, walk.injected);
    return number < 100 || walk.injected > number / 100;
}
