/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail verify: is a trace whole, and does it account for every record?
 */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "cli.h"

struct verify {
    struct cli_trace trace;
    uint64_t records;
    uint64_t gaps;
    uint64_t lost;
    bool lost_unknown;
    uint64_t damage;
    unsigned faults;
};

struct stream {
    unsigned vcpu;
    uint64_t index;             /* of the next record */
    bool ended;
    bool cut;                   /* that is the end of a file only */
};

static void fault(struct verify *v, const struct stream *s, const char *what)
{
    cli_error("%s: vCPU %u, index %" PRIu64 ": %s", v->trace.path, s->vcpu,
              s->index, what);
    v->faults++;
}

static void check_event(struct verify *v, struct stream *s,
                        const struct btrail_batch *b)
{
    const struct btrail_event *e = b->event;

    if (s->ended && !s->cut) {
        fault(v, s, "an event after the END event");
    }
    switch (e->type) {
    case BTRAIL_EVENT_GAP:
        if (b->synthetic) {
            v->damage++;
            cli_error("%s: vCPU %u: %" PRIu64 " records from index %" PRIu64
                      " on are missing", v->trace.path, s->vcpu, e->data[0],
                      s->index);
        }
        if (e->data[0] == BTRAIL_LOST_UNKNOWN) {
            v->lost_unknown = true;
            v->gaps++;
        } else if (e->data[0]) {
            if (e->reason != BTRAIL_GAP_ELSEWHERE) {
                v->lost += e->data[0];
                v->gaps++;
            }
            s->index += e->data[0];
            if (s->index != e->index) {
                fault(v, s, "a GAP event that does not fit its place");
            }
        }
        break;
    case BTRAIL_EVENT_END:
        /* Another file may go on where one was cut off. */
        s->cut = e->reason == BTRAIL_END_CUT;
        s->ended = true;
        break;
    case BTRAIL_EVENT_CR3:
    case BTRAIL_EVENT_TIME:
    case BTRAIL_EVENT_PAUSE:
    case BTRAIL_EVENT_RESUME:
        break;
    default:
        fault(v, s, "an event of unknown type");
        break;
    }
}

static void check_records(struct verify *v, struct stream *s,
                          const struct btrail_batch *b)
{
    if (b->index != s->index) {
        fault(v, s, "records that do not follow those before them");
    }
    if (s->ended && !s->cut) {
        fault(v, s, "records after the END event");
    }
    if (!b->time.host) {
        fault(v, s, "records without a time");
    }
    s->index = b->index + b->count;
    v->records += b->count;
}

static int check_stream(struct verify *v, unsigned vcpu)
{
    struct stream s = { .vcpu = vcpu };
    struct btrail_cursor *cursor;
    struct btrail_batch batch;
    int ret = btrail_cursor_open(&cursor, v->trace.trace, vcpu, 0);

    if (ret) {
        return ret;
    }
    while (!(ret = btrail_cursor_next(cursor, &batch))) {
        if (batch.event) {
            check_event(v, &s, &batch);
        } else {
            check_records(v, &s, &batch);
        }
    }
    v->damage += btrail_cursor_bad_chunks(cursor);
    btrail_cursor_close(cursor);
    if (ret != -BTRAIL_ERR_END) {
        return ret;
    }
    if (!s.ended && !v->trace.status.continued) {
        fault(v, &s, "the stream has no END event");
    }
    return 0;
}

static int run(struct verify *v, char *const *paths)
{
    const char *path = paths[0];
    unsigned i, n;
    int code;

    if (!cli_trace_open(&v->trace, paths)) {
        return CLI_FAILED;
    }
    n = btrail_trace_streams(v->trace.trace);
    for (i = 0; i < n; i++) {
        struct btrail_stream_info info;
        int ret;

        btrail_trace_stream(v->trace.trace, i, &info);
        ret = check_stream(v, info.vcpu);
        if (ret) {
            cli_error("%s: %s", path, cli_strerror(ret));
            cli_trace_close(&v->trace);
            return CLI_FAILED;
        }
    }
    code = cli_trace_verdict(&v->trace, v->damage);
    if (v->faults) {
        code = CLI_DAMAGED;
    }
    printf("%s: %s, %" PRIu64 " records of %u vCPUs, %" PRIu64 "%s lost in %"
           PRIu64 " gaps\n", path, code ? "damaged or incomplete" : "complete",
           v->records, n, v->lost, v->lost_unknown ? " or more" : "", v->gaps);
    cli_trace_close(&v->trace);
    return code;
}

int cmd_verify(int argc, char **argv)
{
    struct verify v = { 0 };
    const GOptionEntry entries[] = { { NULL } };

    if (!cli_parse(&argc, &argv, entries, -1, "FILE...",
                   "Decode a whole trace and check that it is whole and "
                   "accounts for every record.")) {
        return CLI_USAGE;
    }
    return run(&v, argv + 1);
}
