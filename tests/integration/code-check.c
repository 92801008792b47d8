/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * usage: code-check FILE
 *
 * For each record of a trace of 64-bit code, checks the bytes that the trace
 * has for its branch instruction, and prints as JSON what they explain.  A
 * direct branch says itself where it goes to, so that its bytes are those that
 * were executed shows in the record.  What is no branch, or goes elsewhere, was
 * interrupted: then the record goes to a handler of the kernel, of which there
 * are not many.
 */

#include <glib.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backtrail/code.h"

#define INSN_MAX    15

enum kind {
    UNKNOWN,                    /* no bytes, or too few */
    DIRECT,                     /* and goes where it says */
    OTHER,                      /* a branch whose target is not in it */
    NONE,                       /* not a branch to where it went */
    KINDS
};

static const char *const names[KINDS] = {
    "unknown", "direct", "other", "none",
};

static int64_t get(const uint8_t *p, unsigned size)
{
    return size == 1 ? (int8_t)p[0] :
           (int32_t)(p[0] | p[1] << 8 | p[2] << 16 | (uint32_t)p[3] << 24);
}

static bool is_prefix(uint8_t byte)
{
    return memchr("\x66\x67\xf0\xf2\xf3\x2e\x36\x3e\x26\x64\x65", byte, 11) ||
           (byte & 0xf0) == 0x40;
}

static enum kind classify(const uint8_t *p, int len, uint64_t from,
                          uint64_t to)
{
    unsigned size = 0;
    int at = 0;

    while (at < len && is_prefix(p[at])) {
        at++;
    }
    if (at == len) {
        return UNKNOWN;
    }
    switch (p[at++]) {
    case 0xe8: case 0xe9:
        size = 4;
        break;
    case 0xeb: case 0xe0: case 0xe1: case 0xe2: case 0xe3:
    case 0x70: case 0x71: case 0x72: case 0x73: case 0x74: case 0x75:
    case 0x76: case 0x77: case 0x78: case 0x79: case 0x7a: case 0x7b:
    case 0x7c: case 0x7d: case 0x7e: case 0x7f:
        size = 1;
        break;
    case 0xc2: case 0xc3: case 0xca: case 0xcb: case 0xcf:
    case 0xcc: case 0xcd: case 0xf1:
        return OTHER;
    case 0xff:
        if (at == len) {
            return UNKNOWN;
        }
        return (p[at] >> 3 & 7) >= 2 && (p[at] >> 3 & 7) <= 5 ? OTHER : NONE;
    case 0x0f:
        if (at == len) {
            return UNKNOWN;
        }
        if ((p[at] & 0xf0) == 0x80) {
            at++;
            size = 4;
            break;
        }
        return p[at] == 0x05 || p[at] == 0x07 || p[at] == 0x34 ||
               p[at] == 0x35 ? OTHER : NONE;
    default:
        return NONE;
    }
    if (at + (int)size > len) {
        return UNKNOWN;
    }
    return from + at + size + get(p + at, size) == to ? DIRECT : NONE;
}

int main(int argc, char **argv)
{
    uint64_t counts[KINDS] = { 0 }, user = 0, user_bad = 0, shown = 0;
    GHashTable *handlers = g_hash_table_new(g_direct_hash, g_direct_equal);
    GHashTable *lost = g_hash_table_new(g_direct_hash, g_direct_equal);
    struct btrail_stream_info info;
    struct btrail_trace *trace;
    struct btrail_code *code;
    GHashTableIter iter;
    gpointer to;
    unsigned i, strangers = 0;

    if (argc != 2 || btrail_trace_open(&trace, argv[1]) ||
        btrail_code_open(&code, trace)) {
        fprintf(stderr, "usage: code-check FILE\n");
        return 2;
    }
    for (i = 0; !btrail_trace_stream(trace, i, &info); i++) {
        struct btrail_cursor *cursor;
        struct btrail_batch b;
        size_t k;

        if (btrail_cursor_open(&cursor, trace, info.vcpu, 0)) {
            return 1;
        }
        while (!btrail_cursor_next(cursor, &b)) {
            for (k = 0; k < b.count; k++) {
                const struct btrail_record *r = &b.records[k];
                uint8_t bytes[INSN_MAX];
                int n = btrail_code_read(code, info.vcpu, b.index + k, b.cr3,
                                         r->from, bytes, sizeof(bytes));
                enum kind kind;

                if (n < 0) {
                    fprintf(stderr, "code-check: %s\n", btrail_strerror(n));
                    return 1;
                }
                kind = classify(bytes, n, r->from, r->to);
                counts[kind]++;
                user += !(r->from >> 63) && kind == DIRECT;
                if (kind == DIRECT || kind == OTHER) {
                    continue;
                }
                g_hash_table_add(kind == NONE ? handlers : lost,
                                 (gpointer)(uintptr_t)r->to);
                if (!(r->to >> 63) && kind == NONE) {
                    user_bad++;
                    if (shown++ < 20) {
                        fprintf(stderr, "vCPU %u record %" PRIu64 " CR3 %#"
                                PRIx64 ": %#" PRIx64 " -> %#" PRIx64
                                ", %02x %02x %02x %02x %02x %02x\n",
                                info.vcpu, b.index + k, b.cr3, r->from, r->to,
                                bytes[0], bytes[1], bytes[2], bytes[3],
                                bytes[4], bytes[5]);
                    }
                }
            }
        }
        btrail_cursor_close(cursor);
    }
    g_hash_table_iter_init(&iter, lost);
    while (g_hash_table_iter_next(&iter, &to, NULL)) {
        strangers += !g_hash_table_contains(handlers, to);
    }
    printf("{");
    for (i = 0; i < KINDS; i++) {
        printf("\"%s\": %" PRIu64 ", ", names[i], counts[i]);
    }
    /* Where records without known bytes go to, that are not interrupted */
    printf("\"user_direct\": %" PRIu64 ", \"to_user\": %" PRIu64
           ", \"handlers\": %u, \"strangers\": %u, \"bad_pieces\": %" PRIu64
           "}\n", user, user_bad, g_hash_table_size(handlers), strangers,
           btrail_code_bad_pieces(code));
    btrail_code_close(code);
    btrail_trace_close(trace);
    g_hash_table_destroy(handlers);
    g_hash_table_destroy(lost);
    return 0;
}
