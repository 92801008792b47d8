/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Marks that programs leave in a trace: their bytes, and the records of a value
 *
 * guest-tools/mark/backtrail-mark.h describes them.  Bytes and records are what
 * a guest says: all of it is checked, and a name can be anything but empty.
 */

#ifndef BTRAIL_MARK_H
#define BTRAIL_MARK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backtrail/trace.h"

/* The longest name, and the most bytes from a mark to after its head */
#define MARK_NAME_MAX   60
#define MARK_SIZE_MAX   128

/**
 * struct mark
 * @from:      address of the jump
 * @to:        where it goes, after the head
 * @has_value: the value's code is there
 */
struct mark {
    uint64_t from;
    uint64_t to;
    bool has_value;
    char name[MARK_NAME_MAX + 1];
};

/* Can a record from @from to @to be a mark's?  Most are not. */
bool mark_fits(uint64_t from, uint64_t to);

/* False if the @n bytes at address @from are not a mark and its head. */
bool mark_decode(const void *bytes, size_t n, uint64_t from,
                 struct mark *mark);

/**
 * mark_scan_fn - receives what can be a mark
 * @from, @to: offsets from the start of the page; modulo 2^64, as a mark can
 *             begin on the page before
 * @mark:      the mark; NULL if the page has only a part of it
 */
typedef void mark_scan_fn(void *opaque, uint64_t from, uint64_t to,
                          const struct mark *mark);

/* Searches a page of code.  Of a mark that is on two pages, one is enough. */
#define MARK_PAGE   4096
void mark_scan(const uint8_t page[MARK_PAGE], mark_scan_fn *fn, void *opaque);

/*
 * The value, from the records after the mark's own
 */

enum mark_value_state {
    MARK_VALUE_MORE,            /* is needed */
    MARK_VALUE_KNOWN,
    MARK_VALUE_UNKNOWN,         /* these are not the records of a value */
};

/**
 * struct mark_thread - a thread, by what the records say of it
 * @named: @tid is known
 */
struct mark_thread {
    bool named;
    uint64_t tid;
    uint64_t cr3;
};

/* Has thread @t, which has left a mark, made the records of @now, too? */
bool mark_thread_is_same(const struct mark_thread *t, const struct mark *mark,
                         const struct mark_thread *now);

/* Has the kernel switched to another thread, as far as these records say? */
bool mark_thread_is_switched(const struct mark_thread *t,
                             const struct mark *mark,
                             const struct mark_thread *now);

/**
 * struct mark_value
 * @jump:  address of the mark
 * @code:  address of the value's code
 * @at:    where its execution has got to, from @code on
 * @value: its bits, of which @bits are known
 * @away:  it was interrupted at @at
 * @inner: how often the same instruction was interrupted since then
 */
struct mark_value {
    uint64_t jump;
    uint64_t code;
    uint64_t at;
    uint64_t value;
    unsigned bits;
    bool away;
    unsigned inner;
};

/* Begins with what is after a mark that has a value. */
void mark_value_begin(struct mark_value *v, const struct mark *mark);

/*
 * Takes the next record of the vCPU, until the value is known.  @same: the
 * mark's thread has made it.
 */
enum mark_value_state mark_value_add(struct mark_value *v,
                                     const struct btrail_record *record,
                                     bool same);

#endif /* BTRAIL_MARK_H */
