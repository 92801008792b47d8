/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * GDB's remote serial protocol: packets in a stream of bytes
 *
 * Either side of a connection can be hostile.  What the parser keeps is never
 * more than its limit.
 */

#ifndef BTRAIL_GDB_RSP_H
#define BTRAIL_GDB_RSP_H

#include <glib.h>
#include <stdbool.h>
#include <stddef.h>

/**
 * enum rsp_kind - what a parser has found
 * @RSP_MORE:         nothing yet: it needs more bytes
 * @RSP_PACKET:       a packet
 * @RSP_NOTIFICATION: a notification, which nobody acknowledges
 * @RSP_BAD:          a packet with a wrong checksum, or with a wrong run length
 * @RSP_LONG:         a packet that is longer than the limit
 * @RSP_ACK:          "+"
 * @RSP_NACK:         "-"
 * @RSP_INTERRUPT:    an interrupt (0x03) between packets
 */
enum rsp_kind {
    RSP_MORE,
    RSP_PACKET,
    RSP_NOTIFICATION,
    RSP_BAD,
    RSP_LONG,
    RSP_ACK,
    RSP_NACK,
    RSP_INTERRUPT,
};

struct rsp_parser;

/* @limit: the most bytes of a payload */
struct rsp_parser *rsp_parser_new(size_t limit);
void rsp_parser_free(struct rsp_parser *p);

/**
 * rsp_parse - read bytes up to the end of the next thing that they have
 * @kind: gets what it is
 *
 * Returns how many bytes are read: all @n with RSP_MORE.  Bytes that are part
 * of nothing are left out.
 */
size_t rsp_parse(struct rsp_parser *p, const void *bytes, size_t n,
                 enum rsp_kind *kind);

/*
 * The payload of the packet or notification that rsp_parse() has just found.
 * Runs are expanded; escapes are as they were sent, since they have a meaning
 * only where a packet has binary data.  It has a NUL after it, and can have
 * some in it.
 */
const char *rsp_payload(const struct rsp_parser *p, size_t *n);

/*
 * Appends a packet.  The payload has neither "$" nor "#": a parser returns
 * none with them.
 */
void rsp_append(GByteArray *out, const char *payload, size_t n);

/* Appends bytes as hexadecimal digits. */
void rsp_append_hex(GString *out, const void *bytes, size_t n);

/* The bytes that hexadecimal digits stand for, with a NUL after them, to be
 * freed; NULL if they are no such digits.  @n, if not NULL, gets how many. */
char *rsp_unhex(const char *digits, size_t *n);

#endif /* BTRAIL_GDB_RSP_H */
