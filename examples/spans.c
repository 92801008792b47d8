/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * usage: spans FILE CR3
 *
 * Prints when an address space ran: each of its spans, one a line, with vCPU,
 * index of the first record, number of records, number of lost ones, and the
 * times, in nanoseconds of the host's clock, between which it ran.
 *
 *     cc spans.c $(pkg-config --cflags --libs backtrail)
 */

#include <backtrail/trace.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int fail(const char *what, int error)
{
    fprintf(stderr, "%s: %s\n", what, error == -BTRAIL_ERR_IO ?
            strerror(errno) : btrail_strerror(error));
    return 1;
}

static int print_spans(const struct btrail_trace *trace, unsigned vcpu,
                       uint64_t cr3)
{
    struct btrail_spans *spans;
    struct btrail_span s;
    /* PCID and flags of CR3 may differ from span to span. */
    int ret = btrail_spans_open(&spans, trace, vcpu, cr3,
                                BTRAIL_SPANS_OF_SPACE);

    if (ret) {
        return ret;
    }
    while (!(ret = btrail_spans_next(spans, &s))) {
        printf("%u %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64
               "\n", s.vcpu, s.first_index, s.records, s.lost, s.first.host,
               s.last.host);
    }
    if (btrail_spans_bad_chunks(spans)) {
        fprintf(stderr, "vCPU %u: %" PRIu64 " damaged chunks\n", vcpu,
                btrail_spans_bad_chunks(spans));
    }
    btrail_spans_close(spans);
    return ret == -BTRAIL_ERR_END ? 0 : ret;
}

int main(int argc, char **argv)
{
    struct btrail_stream_info info;
    struct btrail_trace *trace;
    uint64_t cr3;
    char *end;
    unsigned i;
    int ret;

    if (argc != 3) {
        fprintf(stderr, "usage: spans FILE CR3\n");
        return 2;
    }
    errno = 0;
    cr3 = strtoull(argv[2], &end, 0);
    if (errno || *end || end == argv[2]) {
        fprintf(stderr, "%s is not a number\n", argv[2]);
        return 2;
    }
    ret = btrail_trace_open_parts(&trace, argv[1]);
    if (ret) {
        return fail(argv[1], ret);
    }
    for (i = 0; !ret && !btrail_trace_stream(trace, i, &info); i++) {
        ret = print_spans(trace, info.vcpu, cr3);
    }
    btrail_trace_close(trace);
    return ret ? fail(argv[1], ret) : 0;
}
