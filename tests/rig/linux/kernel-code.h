/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the code of a kernel is: as it was built, which ../code has written, and
 * as it is in memory.
 *
 * The kernel changes its own code.  Where the code is not as it was built, it is
 * decoded here: jumps, calls and NOPs.  Of any other instruction only the end is
 * found.
 */
#ifndef RIG_KERNEL_CODE_H
#define RIG_KERNEL_CODE_H

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* As in ../code; the last one is for code that is not known. */
enum kind {
    PLAIN, CONDITIONAL, JMP, CALL, JMP_INDIRECT, CALL_INDIRECT, RET, LEAVE,
    WRMSR, END, OPAQUE
};

#define LKGS_UNKNOWN 36

struct instruction {
    enum kind kind;
    unsigned length;        /* 0: not looked at so far */
};

static uint64_t text, size;         /* .text: its address, its bytes */
static uint8_t *built, *live, *table;
static struct instruction *seen;    /* what is at each byte, once it was asked */

static void get(const char *path, int fd, void *data, size_t count,
                uint64_t offset)
{
    ssize_t done;

    for (size_t at = 0; at < count; at += done) {
        done = pread(fd, (uint8_t *)data + at, count - at, offset + at);
        if (done <= 0) {
            printf("%s: %s\n", path, done ? strerror(errno) : "too short");
            exit(1);
        }
    }
}

static int open_or_fail(const char *path)
{
    int fd = open(path, O_RDONLY);

    if (fd < 0) {
        printf("%s: %s\n", path, strerror(errno));
        exit(1);
    }
    return fd;
}

static void read_code(const char *path)
{
    int fd = open_or_fail(path);
    uint64_t header[2];

    get(path, fd, header, sizeof(header), 0);
    text = header[0];
    size = header[1];
    built = malloc(2 * size);
    live = malloc(size);
    seen = calloc(size, sizeof(*seen));
    if (!built || !live || !seen) {
        printf("out of memory\n");
        exit(1);
    }
    get(path, fd, built, 2 * size, sizeof(header));
    table = built + size;
    close(fd);
    /* Where objdump does not know LKGS, it has lost its way behind it. */
    for (const uint8_t *at = built, *end = built + size - LKGS_UNKNOWN;
         at < end && (at = memchr(at, 0xf2, end - at)); at++) {
        if (memcmp(at, "\xf2\x0f\x00\xf7", 4) == 0) {
            memset(table + (at - built), 0, LKGS_UNKNOWN);
        }
    }
}

static bool in_text(uint64_t address)
{
    return address >= text && address - text < size;
}

static bool as_built(uint64_t at)
{
    return table[at] && at + (table[at] & 15) <= size &&
           memcmp(live + at, built + at, table[at] & 15) == 0;
}

/* The length of the NOP there, or 0 */
static unsigned nop(const uint8_t *code, size_t left)
{
    unsigned n = 0;

    while (n < left && (code[n] == 0x66 || code[n] == 0x2e)) {
        n++;
    }
    if (n < left && code[n] == 0x90) {
        return n + 1;
    }
    if (n + 3 <= left && code[n] == 0x0f && code[n + 1] == 0x1f) {
        unsigned mod = code[n + 2] >> 6, sib = (code[n + 2] & 7) == 4;

        return n + 3 + sib + (mod == 1 ? 1 : mod == 2 ? 4 : 0);
    }
    return 0;
}

static struct instruction decode(uint64_t at)
{
    unsigned length;
    uint64_t end;

    if (as_built(at)) {
        return (struct instruction) { table[at] >> 4, table[at] & 15 };
    }
    switch (live[at]) {
    case 0xe8:
        return (struct instruction) { CALL, 5 };
    case 0xe9:
        return (struct instruction) { JMP, 5 };
    case 0xeb:
        return (struct instruction) { JMP, 2 };
    case 0xc3:
        return (struct instruction) { RET, 1 };
    case 0xcc:
        return (struct instruction) { END, 1 };
    }
    length = nop(live + at, size - at);
    if (length) {
        return (struct instruction) { PLAIN, length };
    }
    for (end = at + 1; end < size && !as_built(end); end++) {
    }
    return (struct instruction) { OPAQUE, end - at };
}

static struct instruction instruction(uint64_t address)
{
    struct instruction *i = &seen[address - text];

    if (!i->length) {
        *i = decode(address - text);
    }
    return *i;
}

/*
 * Where the way from BEGIN ends, past conditional jumps that are not taken: at
 * TO, or at an instruction that never continues behind itself
 */
static enum kind way(uint64_t begin, uint64_t to, bool *wrmsr)
{
    struct instruction i;

    for (uint64_t at = begin; in_text(at); at += i.length) {
        i = instruction(at);
        if (at == to || (i.kind == OPAQUE && to > at && to - at < i.length)) {
            return PLAIN;
        }
        *wrmsr |= i.kind == WRMSR;
        if (i.kind != PLAIN && i.kind != CONDITIONAL && i.kind != WRMSR &&
            i.kind != OPAQUE) {
            return i.kind;
        }
    }
    return END;
}

static bool behind_call(uint64_t address)
{
    if (!in_text(address)) {
        return false;
    }
    for (unsigned n = 2; n < 9 && address - text >= n; n++) {
        struct instruction i = instruction(address - n);

        if (i.length == n && (i.kind == CALL || i.kind == CALL_INDIRECT)) {
            return true;
        }
    }
    return false;
}

static uint64_t target(uint64_t address, unsigned length)
{
    const uint8_t *end = live + (address - text) + length;
    int32_t distance;

    if (length <= 3) {      /* a byte, perhaps behind a prefix */
        distance = (int8_t)end[-1];
    } else {
        memcpy(&distance, end - 4, 4);
    }
    return address + length + distance;
}

#endif /* RIG_KERNEL_CODE_H */
