/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Fuzz target: marks in code, and the records of their values
 *
 * The input is a page of code, which is searched, or as much of it as there is.
 * What is after the first mark are records of a value, two bytes each: offsets
 * from its code.
 */

#include <string.h>

#include "fuzz.h"
#include "util/mark.h"

#define BASE    UINT64_C(0x7fff00000000)
#define OTHER   0x80            /* of a byte: another thread's */

static void add_records(const struct mark *mark, const uint8_t *bytes,
                        size_t n)
{
    enum mark_value_state state = MARK_VALUE_MORE;
    struct mark_value v;

    mark_value_begin(&v, mark);
    for (size_t i = 0; i + 1 < n && state == MARK_VALUE_MORE; i += 2) {
        const struct btrail_record record = {
            mark->to + (bytes[i] & ~OTHER), mark->to + bytes[i + 1],
        };

        state = mark_value_add(&v, &record, !(bytes[i] & OTHER));
        fuzz_require(v.bits < 64);
        fuzz_require(v.at < 11);
    }
}

/* What a scan has found */
struct found {
    const uint8_t *page;
    unsigned n;
};

static void take(void *opaque, uint64_t from, uint64_t to,
                 const struct mark *mark)
{
    struct found *f = opaque;
    struct mark same;

    fuzz_require(mark_fits(from, to));
    fuzz_require(from + 1 < MARK_PAGE);
    if (mark) {
        fuzz_require(to <= MARK_PAGE);
        fuzz_require(mark->from == from && mark->to == to);
        fuzz_require(*mark->name && strlen(mark->name) <= MARK_NAME_MAX);
        fuzz_require(mark_decode(f->page + from, to - from, from, &same));
        fuzz_require(!strcmp(same.name, mark->name));
    }
    f->n++;
}

int fuzz_input(const uint8_t *data, size_t size)
{
    uint8_t page[MARK_PAGE] = { 0 };
    struct found found = { .page = page };
    struct mark mark;

    memcpy(page, data, size < MARK_PAGE ? size : MARK_PAGE);
    mark_scan(page, take, &found);
    if (mark_decode(data, size, BASE, &mark)) {
        fuzz_accepted();
        add_records(&mark, data + (mark.to - BASE), size - (mark.to - BASE));
    }
    return 0;
}
