/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Fuzz target: repairing a file
 *
 * What comes out is a complete file in which readers find nothing amiss, and
 * which there is nothing to repair in; by a copy and in place.
 */

#include <unistd.h>

#include "fuzz.h"
#include "read.h"

static void check(const char *path, const struct btrail_repair_result *r)
{
    struct btrail_repair_result again;
    struct btrail_trace_status status;
    struct btrail_trace *trace;
    struct fuzz_sum sum;

    fuzz_require(!btrail_trace_open(&trace, path));
    btrail_trace_status(trace, &status);
    fuzz_require(status.complete && status.indexed);
    fuzz_require(!status.bad_chunks && !status.missing_chunks &&
                 !status.skipped_bytes && !status.cut_bytes);
    sum = fuzz_read(trace);
    fuzz_require(!sum.synthetic && !sum.bad);
    fuzz_require(!sum.all || sum.records == r->copied.records);
    btrail_trace_close(trace);
    fuzz_require(!btrail_repair(path, NULL, 0, &again));
    fuzz_require(again.whole && again.copied.records == r->copied.records);
}

int fuzz_input(const uint8_t *data, size_t size)
{
    struct fuzz_file in = fuzz_file(data, size), out = fuzz_file(NULL, 0);
    struct btrail_repair_result snapshot, r;
    struct btrail_trace *trace;
    int ret = btrail_repair(in.path, NULL, 0, &snapshot);

    fuzz_require(btrail_repair(in.path, out.path, BTRAIL_WRITER_REPLACE,
                               &r) == ret);
    if (!ret) {
        fuzz_accepted();
        fuzz_require(snapshot.whole == r.whole &&
                     snapshot.copied.records == r.copied.records &&
                     snapshot.copied.gaps == r.copied.gaps &&
                     snapshot.copied.ends == r.copied.ends);
        if (!r.whole) {
            check(out.path, &r);
        }
        if (!r.no_header && !btrail_trace_open(&trace, in.path)) {
            struct fuzz_sum sum = fuzz_read(trace);

            /* A reader may get some of a chunk that is damaged further on. */
            fuzz_require(!sum.all || sum.records >= r.copied.records);
            btrail_trace_close(trace);
            if (!r.whole) {
                fuzz_require(!btrail_trace_open(&trace, out.path));
                fuzz_require(fuzz_read(trace).sideband == sum.sideband);
                btrail_trace_close(trace);
            }
        }
        ret = btrail_repair(in.path, NULL, BTRAIL_REPAIR_IN_PLACE, &r);
        fuzz_require(!ret == (snapshot.whole || snapshot.cut));
        if (!ret) {
            fuzz_require(r.copied.records == snapshot.copied.records &&
                         r.whole == snapshot.whole);
            if (!r.whole) {
                check(in.path, &r);
            }
        }
    }
    close(in.fd);
    close(out.fd);
    return 0;
}
