/*
 * Branch trace: the XML document in which GDB reads blocks
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "blocks-document.h"

static const char head[] =
    "<!DOCTYPE btrace SYSTEM \"btrace.dtd\">\n"
    "<btrace version=\"1.0\">\n";
static const char line[] =
    "<block begin=\"0x0000000000000000\" end=\"0x0000000000000000\"/>\n";
static const char tail[] = "</btrace>\n";

#define LENGTH(s)   (sizeof(s) - 1)
#define BEGIN_AT    16          /* in a line: the digits */
#define END_AT      41
#define DIGITS      16

uint64_t branch_trace_document_size(size_t n)
{
    return LENGTH(head) + (uint64_t)n * LENGTH(line) + LENGTH(tail);
}

static void put_digits(char *digits, uint64_t value)
{
    int i;

    for (i = DIGITS - 1; i >= 0; i--, value >>= 4) {
        digits[i] = "0123456789abcdef"[value & 15];
    }
}

/* The part of the document that has @offset; @offset becomes that in it. */
static size_t find_part(const BranchTraceBlock *blocks, size_t n,
                        uint64_t *offset, char *part)
{
    uint64_t block;

    if (*offset < LENGTH(head)) {
        memcpy(part, head, LENGTH(head));
        return LENGTH(head);
    }
    *offset -= LENGTH(head);
    block = *offset / LENGTH(line);
    if (block < n) {
        *offset %= LENGTH(line);
        memcpy(part, line, LENGTH(line));
        put_digits(part + BEGIN_AT, blocks[block].begin);
        put_digits(part + END_AT, blocks[block].end);
        return LENGTH(line);
    }
    *offset -= (uint64_t)n * LENGTH(line);
    memcpy(part, tail, LENGTH(tail));
    return LENGTH(tail);
}

size_t branch_trace_document_read(const BranchTraceBlock *blocks, size_t n,
                                  uint64_t offset, char *text, size_t size)
{
    char part[sizeof(head) + sizeof(line) + sizeof(tail)];
    size_t done = 0;

    while (done < size) {
        uint64_t at = offset + done;
        size_t length = find_part(blocks, n, &at, part);

        if (at >= length) {
            break;
        }
        length -= at;
        length = length < size - done ? length : size - done;
        memcpy(text + done, part + at, length);
        done += length;
    }
    return done;
}
