/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Code of a guest that runs: what pages had, and when that was seen
 *
 * Whoever reads a guest's memory puts here what it has seen, by address space
 * and page.  Between two times at which a page had the same bytes it is taken
 * to have had them; between two at which it had others, either can be right.
 * Nothing here says which: the packets may.
 */

#ifndef BTRAIL_CODE_STORE_H
#define BTRAIL_CODE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CODE_STORE_PAGE     4096u

/**
 * enum code_store_kind - of what was seen
 * @CODE_STORE_BYTES:   a page with these bytes
 * @CODE_STORE_NONE:    no page
 * @CODE_STORE_WRITTEN: a page to which its program has written: what it has now
 *                      says nothing of what it had
 */
enum code_store_kind {
    CODE_STORE_BYTES,
    CODE_STORE_NONE,
    CODE_STORE_WRITTEN,
};

/**
 * enum code_store_result - what a page had in some span of time
 * @CODE_STORE_UNKNOWN: nothing is known
 * @CODE_STORE_SURE:    it was seen before and after, and had the same bytes
 * @CODE_STORE_SEEN:    it was seen with some bytes, and never with others, but
 *                      not both before and after
 * @CODE_STORE_CHANGED: it has had several; or was written to
 */
enum code_store_result {
    CODE_STORE_UNKNOWN,
    CODE_STORE_SURE,
    CODE_STORE_SEEN,
    CODE_STORE_CHANGED,
};

/**
 * struct code_store_answer
 * @bytes: with SURE and SEEN, the first one; with CHANGED, what it had before
 *         and afterwards, or NULL twice if it can have been anything else.
 *         Valid until the next code_store_put()
 * @last:  with two, when it was seen last with the first
 * @first: and first with the second
 * @newest: with one, it is what was seen last
 * @seen:  end of the first and begin of the last time that a page was read with
 *         the first one, of those that count here
 */
struct code_store_answer {
    const uint8_t *bytes[2];
    uint64_t last;
    uint64_t first;
    bool newest;
    uint64_t seen[2];
};

struct code_store;

/**
 * struct code_store_count
 * @pages:   that are known, of all address spaces together
 * @changes: how often a page was not what it had been when it was seen before
 * @evicted: pages that were dropped to make room
 */
struct code_store_count {
    uint64_t pages;
    uint64_t changes;
    uint64_t evicted;
};

/* @memory: bytes that it takes at most; what was not seen for longest is
 * dropped.  0: as many as usual */
struct code_store *code_store_new(size_t memory);
void code_store_free(struct code_store *s);

/**
 * code_store_put - a page was seen
 * @space: the address space
 * @page:  address of its first byte
 * @bytes: CODE_STORE_PAGE of them with CODE_STORE_BYTES; copied
 * @begin, @end: when it was read; not before that of the call before.  It had
 *         these bytes at some time between
 *
 * Returns true if it is known to have been something else before.
 */
bool code_store_put(struct code_store *s, uint64_t space, uint64_t page,
                    enum code_store_kind kind, const uint8_t *bytes,
                    uint64_t begin, uint64_t end);

/* When it was seen last, @begin of that; false if it is not known */
bool code_store_last(const struct code_store *s, uint64_t space, uint64_t page,
                     uint64_t *time);

/* What it had from @from until @until, both included */
enum code_store_result code_store_find(const struct code_store *s,
                                       uint64_t space, uint64_t page,
                                       uint64_t from, uint64_t until,
                                       struct code_store_answer *answer);

/**
 * code_store_apart - how long before or after was it something else?
 * @bytes: what it had from @from until @until
 * @begin, @end: what was seen between them counts
 *
 * Returns how much time is between @from, or @until, and the nearest time at
 * which it was seen with other bytes, or was gone after it had been there;
 * UINT64_MAX if it was not.
 */
uint64_t code_store_apart(const struct code_store *s, uint64_t space,
                          uint64_t page, const uint8_t *bytes, uint64_t from,
                          uint64_t until, uint64_t begin, uint64_t end);

const struct code_store_count *code_store_counted(const struct code_store *s);

#endif /* BTRAIL_CODE_STORE_H */
